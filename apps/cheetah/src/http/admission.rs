//! Whether a client may have what it asks for, by the rules of the site ([`crate::site::rules::access`]).

use exos_buf::{Buffer, Slice};

use super::counters::Counters;
use super::exchange::Exchange;
use super::missing::Missing;
use crate::message::Status;
use crate::site::Site;
use crate::site::rules::access::{Asks, Verdict};

/// What becomes of a request.
pub(super) enum Admitted {
    Yes {
        /// The rules ask nothing about clients.
        is_for_all: bool,
        /// Whose password let it in, where they want one.
        user: Option<Box<[u8]>>,
    },
    /// It is answered when its password has been verified.
    Waits(Box<Missing>),
    /// It is answered with this, and with fields that say why, and that caches keep none of it, whatever the rules about
    /// fields say.
    No(Status, Slice),
}

/// Asks the rules of the site that answers.
pub(super) fn admit(
    site: &Site,
    path: &[u8],
    exchange: &Exchange,
    counters: &mut Counters,
) -> Admitted {
    let settings = site.settings();
    if settings.access.is_empty() {
        return Admitted::Yes {
            is_for_all: true,
            user: None,
        };
    }
    let (number, attempt) = (exchange.resource.site, exchange.attempt);
    let is_password = |name: &str| name.eq_ignore_ascii_case("authorization");
    let mut fields = exchange.request.fields.iter();
    let field = fields.find(|field| is_password(field.name));
    let others = match settings.applications.is_empty() {
        true => Vec::new(),
        false => settings.applications.other_paths(path, site),
    };
    let asks = Asks {
        path,
        others: &others,
        peer: attempt.peer,
        now: attempt.begun,
        is_new: !attempt.has_waited,
        authorization: field.map(|field| field.value),
    };
    let lets_all = |path: &[u8]| settings.access.lets_all(path, &settings.index);
    let is_for_all = lets_all(path) && others.iter().all(|path| lets_all(path));
    let verdict = match is_for_all {
        true => Verdict::PASS,
        false if attempt.is_for_all => Verdict::Denied,
        false => settings.access.judge(&asks, &settings.index),
    };
    let no = |status, why: String| {
        let fields = why + "Cache-Control: no-store\r\n";
        Admitted::No(status, Buffer::from(fields).into())
    };
    match verdict {
        Verdict::Pass { user } => Admitted::Yes { is_for_all, user },
        Verdict::Denied => {
            counters.access_denied += 1;
            no(Status::Forbidden, String::new())
        }
        Verdict::Limited(secs) => {
            counters.rate_limited += 1;
            no(Status::TooManyRequests, retry_after(secs))
        }
        Verdict::NeedsLogin(challenge) => {
            counters.logins_refused += u64::from(asks.authorization.is_some());
            no(Status::Unauthorized, challenge)
        }
        // Too many others are being verified.
        Verdict::Verify(wanted) if attempt.has_failed(number, &wanted) => {
            no(Status::ServiceUnavailable, retry_after(1))
        }
        Verdict::Verify(wanted) => Admitted::Waits(Missing::document(number, wanted)),
    }
}

fn retry_after(secs: u64) -> String {
    format!("Retry-After: {secs}\r\n")
}
