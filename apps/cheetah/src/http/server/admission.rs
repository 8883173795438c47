//! Whether a client may have what it asks for, by the rules of the site ([`crate::access`]).

use exos_buf::{Buffer, Slice};

use super::{Exchange, Server};
use crate::access::{Asks, Verdict};
use crate::http::Status;
use crate::http::missing::Missing;

/// What becomes of a request.
pub(super) enum Admitted {
    Yes,
    /// It is answered when its password has been verified.
    Waits(Box<Missing>),
    /// It is answered with this, and with fields that say why, and that caches keep none of it, whatever the rules about
    /// fields say.
    No(Status, Slice),
}

impl Server {
    /// Asks the rules of the site that answers.
    pub(super) fn admit(&mut self, path: &[u8], exchange: &Exchange) -> Admitted {
        let (site, request) = (exchange.resource.site, exchange.request);
        let settings = self.sites.get(site).settings();
        if settings.access.is_empty() {
            return Admitted::Yes;
        }
        let is_password = |name: &str| name.eq_ignore_ascii_case("authorization");
        let field = request.fields.iter().find(|field| is_password(field.name));
        let asks = Asks {
            path,
            peer: self.peer,
            now: self.begun,
            is_new: !exchange.attempt.has_waited,
            authorization: field.map(|field| field.value),
        };
        let verdict = settings.access.judge(&asks, &settings.index);
        let no = |status, why: String| {
            let fields = why + "Cache-Control: no-store\r\n";
            Admitted::No(status, Buffer::from(fields).into())
        };
        match verdict {
            Verdict::Pass => Admitted::Yes,
            Verdict::Denied => {
                self.counters.access_denied += 1;
                no(Status::Forbidden, String::new())
            }
            Verdict::Limited(secs) => {
                self.counters.rate_limited += 1;
                no(Status::TooManyRequests, retry_after(secs))
            }
            Verdict::NeedsLogin(challenge) => {
                self.counters.logins_refused += u64::from(asks.authorization.is_some());
                no(Status::Unauthorized, challenge)
            }
            // Too many others are being verified.
            Verdict::Verify(wanted) if exchange.attempt.has_failed(site, &wanted) => {
                no(Status::ServiceUnavailable, retry_after(1))
            }
            Verdict::Verify(wanted) => Admitted::Waits(Missing::document(site, wanted)),
        }
    }
}

fn retry_after(secs: u64) -> String {
    format!("Retry-After: {secs}\r\n")
}
