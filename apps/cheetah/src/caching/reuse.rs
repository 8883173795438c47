//! Whether an answer that is kept will do for a request (RFC 9111 §4, §4.2.4, §5.2.1, RFC 5861).

use std::time::Duration;

use super::directives::Directives;
use super::storing::Terms;

/// What becomes of a request for which there is an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It will do, and is fresh.
    Fresh,
    /// It will do, though it is stale.
    Stale,
    /// It will do if it is asked for meanwhile, though it is stale (RFC 5861 §3).
    Refresh,
    /// The upstream is to be asked first, for this reason.
    Ask(Why),
}

/// Why an upstream is asked (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no answer to the target.
    Target,
    /// There are answers to requests with other fields.
    Vary,
    /// The answer is stale.
    Stale,
    /// The request wants it so.
    Request,
    /// The method is none that is answered from what is kept.
    Method,
}

impl Why {
    /// As Cache-Status has it.
    pub const fn token(self) -> &'static str {
        match self {
            Why::Target => "uri-miss",
            Why::Vary => "vary-miss",
            Why::Stale => "stale",
            Why::Request => "request",
            Why::Method => "method",
        }
    }
}

/// What is to be done with an answer of this age, kept on these terms, for a request that says this. `is_asked_for` says that it is
/// being asked for by another request.
pub fn judge(terms: &Terms, age: Duration, request: &Directives, is_asked_for: bool) -> Reuse {
    let staleness = age.saturating_sub(terms.fresh);
    let is_fresh = age < terms.fresh;
    if request.no_cache || request.max_age.is_some_and(|most| age > most) {
        return Reuse::Ask(Why::Request);
    }
    if terms.always_ask {
        return Reuse::Ask(Why::Stale);
    }
    if is_fresh {
        let left = terms.fresh - age;
        return match request.min_fresh.is_some_and(|least| left < least) {
            true => Reuse::Ask(Why::Request),
            false => Reuse::Fresh,
        };
    }
    if request.min_fresh.is_some() || terms.never_stale {
        return Reuse::Ask(Why::Stale);
    }
    if request.max_stale.is_some_and(|most| staleness <= most) {
        return Reuse::Stale;
    }
    match (staleness < terms.while_revalidating, is_asked_for) {
        (true, true) => Reuse::Stale,
        (true, false) => Reuse::Refresh,
        (false, _) => Reuse::Ask(Why::Stale),
    }
}

/// Whether an answer of this age will do where no upstream gives one.
pub fn will_do_for_error(terms: &Terms, age: Duration, request: &Directives) -> bool {
    let staleness = age.saturating_sub(terms.fresh);
    let most = request.stale_if_error.unwrap_or(terms.if_error);
    !terms.always_ask && !terms.never_stale && !request.no_cache && staleness < most
}

#[cfg(test)]
#[path = "reuse/tests.rs"]
mod tests;
