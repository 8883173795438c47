//! Whether an answer is kept (RFC 9111 §3), and for how long it is fresh (§4.2.1).
//!
//! Where the RFC leaves a choice, this is a cache that many share and that nobody has told about its users:
//!
//! | answer | here |
//! |---|---|
//! | to HEAD, or to a request with a body | not kept: it is not whole, or nobody else's |
//! | 206, 304, 1xx, 401, 407, 416, 429 and all but the usual ones | not kept |
//! | with Set-Cookie | not kept, as by nginx: it is one user's |
//! | `private`, with field names too | not kept |
//! | `no-cache`, with field names too | kept if it has a validator, and never used without asking |
//! | to a request with Authorization | kept with `public`, `must-revalidate` or `s-maxage` (§3.5) |
//! | without any time | not kept, unless the rule allows a guess (§4.2.2) |

use std::time::Duration;

use super::rules::CacheRules;
use super::said::{Said, Vary};
use crate::limits::ANSWER_FRESH_TIME_MAX;

/// What of a request decides whether its answer is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// It says `no-store`.
    pub no_store: bool,
    /// It has a password, or another credential.
    pub has_authorization: bool,
}

/// Why an answer is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unkept {
    /// The request says so.
    RequestNoStore,
    /// Its status is none that is kept.
    Status,
    /// It is a part.
    Part,
    /// It says so.
    NoStore,
    /// It is for one user.
    Private,
    /// It sets a cookie.
    Cookie,
    /// It is for those who have the password.
    Authorization,
    /// It depends on more than is known of requests.
    Vary,
    /// It says nothing of a time, or is old already and cannot be asked for again.
    NoTime,
    /// It is too long.
    Length,
}

/// How long an answer may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long it is fresh, from when it was made.
    pub fresh: Duration,
    /// It is not to be used without asking, fresh or not.
    pub always_ask: bool,
    /// It is not to be used any more when it is stale.
    pub never_stale: bool,
    /// How long behind its time it will do while it is asked for.
    pub while_revalidating: Duration,
    /// How long behind its time it will do where there is no other.
    pub if_error: Duration,
}

/// Statuses whose meaning is known, which this server has a counter for, and whose answers are for everybody who asks (RFC 9110 §15).
const KEPT: [u16; 15] = [
    200, 301, 302, 307, 308, 400, 403, 404, 405, 414, 500, 501, 502, 503, 504,
];

/// Those of them that may be kept by a guess (§4.2.2, RFC 9110 §15.1).
const GUESSED: [u16; 7] = [200, 301, 308, 404, 405, 414, 501];

/// When an answer was made, and how old it was when it came.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// When it says so, or else when it came, in seconds since 1970.
    pub date_secs: u64,
    /// [`age_at_arrival`].
    pub age: Duration,
}

/// Whether an answer is kept, and how long it may be used then.
///
/// # Errors
///
/// Why it is not.
pub fn terms(
    asked: Asked,
    code: u16,
    said: &Said,
    made: Made,
    rules: &CacheRules,
) -> Result<Terms, Unkept> {
    let says = &said.directives;
    // §5.2.2.3: who knows the status need not heed no-store.
    let is_understood = says.must_understand && KEPT.contains(&code);
    if asked.no_store {
        return Err(Unkept::RequestNoStore);
    }
    if !KEPT.contains(&code) {
        return Err(Unkept::Status);
    }
    if said.is_part {
        return Err(Unkept::Part);
    }
    if says.no_store && !is_understood {
        return Err(Unkept::NoStore);
    }
    if says.private {
        return Err(Unkept::Private);
    }
    if said.sets_cookie {
        return Err(Unkept::Cookie);
    }
    let is_for_all = says.public || says.must_revalidate || says.shared_max_age.is_some();
    if asked.has_authorization && !is_for_all {
        return Err(Unkept::Authorization);
    }
    if said.vary == Vary::Everything {
        return Err(Unkept::Vary);
    }
    let fresh = fresh_time(code, said, made.date_secs, rules).ok_or(Unkept::NoTime)?;
    let is_old = made.age >= fresh;
    if (is_old || says.no_cache) && !said.has_validator() {
        return Err(Unkept::NoTime);
    }
    // §5.2.2.10: s-maxage says as much as proxy-revalidate.
    let never_stale = says.must_revalidate || says.shared_max_age.is_some();
    let unless = |said: Option<Duration>, else_: Duration| match never_stale || says.no_cache {
        true => Duration::ZERO,
        false => said.unwrap_or(else_).min(ANSWER_FRESH_TIME_MAX),
    };
    Ok(Terms {
        fresh: fresh.min(ANSWER_FRESH_TIME_MAX),
        always_ask: says.no_cache,
        never_stale,
        while_revalidating: unless(says.stale_while_revalidate, rules.stale_while_revalidate),
        if_error: unless(says.stale_if_error, rules.stale_if_error),
    })
}

/// For how long an answer is fresh (§4.2.1); nothing where nobody says, and no guess is allowed.
fn fresh_time(code: u16, said: &Said, date_secs: u64, rules: &CacheRules) -> Option<Duration> {
    let says = &said.directives;
    let until_expiry = |at: u64| Duration::from_secs(at.saturating_sub(date_secs));
    let said_time = says
        .shared_max_age
        .or(says.max_age)
        .or(said.expires.map(until_expiry));
    if let Some(time) = said_time {
        return Some(time);
    }
    if says.no_cache {
        return Some(Duration::ZERO);
    }
    // §4.2.2.
    let most = rules.heuristic?;
    let may_guess = GUESSED.contains(&code) || says.public;
    let (_, modified) = said.modified.as_ref().filter(|_| may_guess)?;
    let tenth = date_secs.saturating_sub(*modified) / 10;
    Some(Duration::from_secs(tenth).min(most))
}

/// How old an answer was when it came (§4.2.3): `begun` and `came` are when it was asked for and when it came.
pub fn age_at_arrival(said: &Said, begun_secs: u64, came_secs: u64) -> Duration {
    let delay = came_secs.saturating_sub(begun_secs);
    let apparent = said.date.map_or(0, |date| came_secs.saturating_sub(date));
    Duration::from_secs(apparent.max(said.age.saturating_add(delay)))
}

#[cfg(test)]
#[path = "storing/tests.rs"]
mod tests;
