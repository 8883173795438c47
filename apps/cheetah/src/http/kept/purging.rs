//! An operator has what is kept forgotten: `PURGE` of a target, or of all that begin as one whose path ends with a star.
//!
//! No standard has the method; caches have agreed on it. Who may is told by the address of the connection. So nothing is forgotten for a
//! request that a proxy has passed on, whose client is somebody else, nor for one that a browser sends for a page (Origin; what it
//! asks before, the upstream may answer).

use std::sync::Arc;

use exos::wire::Prefix;
use exos_buf::Slice;

use crate::applications::Asked;
use crate::applications::proxy::Proxy;
use crate::caching::CacheRules;
use crate::caching::key::{self, How};
use crate::http::exchange::Exchange;
use crate::http::outcome::Response;
use crate::http::server::Server;
use crate::message::Status;
use crate::site::{SitePath, page};

/// The method.
const METHOD: &str = "PURGE";

/// Whether a request wants something forgotten that a rule keeps, where the rule lets anybody want that.
pub(super) fn is_purge(method: &str, rules: &CacheRules) -> bool {
    method == METHOD && !rules.purgers.is_empty()
}

/// Whether a field says that a request is another one's than its connection's.
fn is_of_another(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "forwarded",
        "origin",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-real-ip",
    ];
    NAMES.iter().any(|it| name.eq_ignore_ascii_case(it))
}

impl Server {
    /// Has what is kept of a request's target be forgotten, if its client may have that, and answers it.
    pub(super) fn purge(
        &mut self,
        exchange: &Exchange<'_, '_, '_>,
        site: usize,
        (asked, proxy): (&Asked, &Proxy),
        rules: &Arc<CacheRules>,
        out: &mut Vec<Slice>,
    ) -> Response {
        let peer = exchange.attempt.peer.to_canonical();
        let is_of = |all: &[Prefix]| all.iter().any(|it| it.contains(peer));
        let mut fields = exchange.request.fields.iter();
        let may = is_of(&rules.purgers)
            && !is_of(&proxy.trusted)
            && !fields.any(|field| is_of_another(field.name));
        let status = match may {
            false => self.refuse_with(Status::Forbidden, None, exchange, out),
            true => {
                for is_encrypted in [false, true] {
                    let how = How {
                        is_encrypted,
                        is_trusted: false,
                    };
                    let mut key = Vec::with_capacity(128);
                    if key::push(&mut key, exchange.request, asked, proxy, how) {
                        self.purge_key(site, &key);
                    }
                }
                let said = page::plain("forgotten\n");
                self.send_page(Status::Ok, &said, exchange, out)
            }
        };
        Response {
            status,
            answered: exchange.answered,
            tail: None,
        }
    }

    fn purge_key(&mut self, site: usize, key: &[u8]) {
        // As it is written, or as it is encoded where the target was.
        let below = key.strip_suffix(b"*").or(key.strip_suffix(b"%2A"));
        let is_below = below.is_some();
        let key = SitePath::from(below.unwrap_or(key));
        self.answers.purge(site, key, is_below);
    }
}
