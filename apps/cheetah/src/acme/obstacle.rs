//! What stands in the way of an order: for people, and for when it is tried again.

use std::io;
use std::time::Duration;

use instant_acme::{Error as AcmeError, Problem};

use super::challenges::Kind;
use super::problem::{is, not_shown, text};
use super::schedule::Failure;

/// Why there is no certificate.
#[derive(Debug)]
pub(super) struct Failed {
    /// For people.
    pub(super) what: String,
    pub(super) failure: Failure,
    /// How long the authority has said to wait.
    pub(super) wait: Option<Duration>,
}

impl Failed {
    /// By the folder.
    pub(super) fn of_folder(error: io::Error) -> Failed {
        Failed::here(folder_failed(error))
    }

    /// By what is wrong on this host.
    pub(super) fn here(what: String) -> Failed {
        Failed {
            what,
            failure: Failure::Unreached,
            wait: None,
        }
    }
}

/// What stands in the way of an order.
#[derive(Debug)]
pub(super) enum Obstacle {
    Acme(AcmeError),
    /// The authority did not find this server at the name.
    NotShown(Kind, Option<Problem>),
    /// The authority does not ask in this way.
    NotAsked(Kind),
    /// Something on this host.
    Here(String),
    /// The program that answers in DNS has failed.
    Hook(String),
    /// No certificate of this name is wanted any more.
    Unwanted,
    /// None is wanted any more since the authority was asked to check the name.
    Dropped,
    /// As many accounts were asked for lately as one host may make.
    Accounts,
    /// It may have checked the name, or signed a certificate, which did not come.
    Unfinished(AcmeError),
    /// What the authority sent is not what was asked for.
    Wrong(String),
}

impl From<AcmeError> for Obstacle {
    fn from(error: AcmeError) -> Obstacle {
        Obstacle::Acme(error)
    }
}

impl Obstacle {
    /// One of the folder's.
    pub(super) fn of_folder(error: io::Error) -> Obstacle {
        Obstacle::Here(folder_failed(error))
    }

    /// What it means for a name at the authority with this directory, which may have said to `wait`.
    pub(super) fn told(self, name: &str, directory: &str, wait: Option<Duration>) -> Failed {
        let (what, failure) = match self {
            Obstacle::Here(what) => (what, Failure::Unreached),
            Obstacle::Unwanted => ("none is wanted any more".to_owned(), Failure::Unwanted),
            // A check that finds nothing any more is one that it counts.
            Obstacle::Dropped => (
                format!("a reload has dropped it while {directory} checked the name"),
                Failure::Refused,
            ),
            Obstacle::Accounts => (
                format!(
                    "{directory} was asked for an account time after time, which did not come or was forgotten, and bounds how many a host makes; look whether it works"
                ),
                Failure::RateLimited,
            ),
            // Authorities bound the orders that are begun, too.
            Obstacle::Wrong(what) | Obstacle::Hook(what) => (what, Failure::Refused),
            Obstacle::NotShown(kind, problem) => {
                (not_shown(name, kind, problem), Failure::NotFound(kind))
            }
            Obstacle::NotAsked(kind) => {
                let what = format!("{directory} does not ask by {}", kind.name());
                (what, Failure::NotFound(kind))
            }
            Obstacle::Acme(AcmeError::Api(problem))
            | Obstacle::Unfinished(AcmeError::Api(problem)) => {
                let failure = match is(&problem, "rateLimited") {
                    true => Failure::RateLimited,
                    false => Failure::Refused,
                };
                (format!("{directory} refuses: {}", text(&problem)), failure)
            }
            Obstacle::Acme(AcmeError::Timeout(_)) | Obstacle::Unfinished(AcmeError::Timeout(_)) => {
                (
                    format!("{directory} has not decided in time"),
                    Failure::Refused,
                )
            }
            // Soon again would be one more that it counts.
            Obstacle::Unfinished(error) => (
                format!("{directory} was to check or to sign, and no certificate came: {error}"),
                Failure::Refused,
            ),
            Obstacle::Acme(error) => (
                format!(
                    "cannot ask {directory}: {error}; look whether this host reaches it, and whether its certificate is one that is trusted (--acme-ca)"
                ),
                Failure::Unreached,
            ),
        };
        Failed {
            what,
            failure,
            wait,
        }
    }
}

fn folder_failed(error: io::Error) -> String {
    format!("cannot use the folder of certificates: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acme::problem::tests::problem;

    /// An authority counts what it signs, whether that comes here or not.
    #[test]
    fn what_may_have_been_signed_is_not_ordered_again_at_once() {
        let cut = || AcmeError::Str("cut off");
        let limited = || AcmeError::Api(problem("rateLimited", "often"));
        for (obstacle, wanted) in [
            (Obstacle::Acme(cut()), Failure::Unreached),
            (Obstacle::Unfinished(cut()), Failure::Refused),
            (Obstacle::Acme(AcmeError::Timeout(None)), Failure::Refused),
            (
                Obstacle::NotAsked(Kind::Http),
                Failure::NotFound(Kind::Http),
            ),
            (Obstacle::Hook("status: 7".to_owned()), Failure::Refused),
            (Obstacle::Unfinished(limited()), Failure::RateLimited),
            (Obstacle::Accounts, Failure::RateLimited),
            (Obstacle::Unwanted, Failure::Unwanted),
            (Obstacle::Dropped, Failure::Refused),
        ] {
            let failed = obstacle.told("a.test", "https://ca.test/dir", None);
            assert_eq!(failed.failure, wanted, "{}", failed.what);
        }
    }
}
