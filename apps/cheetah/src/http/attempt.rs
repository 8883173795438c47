//! What is known of requests when they are presented: who asks, since when, and what of them has waited.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use exos_inet::Instant;
use exos_tls::About;

use crate::message::Version;
use crate::site::{SitePath, Wanted};

/// What is known of the requests that are presented.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Who asks.
    pub peer: IpAddr,
    /// Nobody reads it on its way: it came by HTTPS.
    pub is_encrypted: bool,
    /// What is known of the session of TLS that it came by.
    pub tls: Option<&'a Arc<About>>,
    /// It came before the handshake of TLS was over: somebody may have sent it again.
    pub is_early: bool,
    /// It came on a stream of this version, whatever its text says.
    pub on_stream: Option<Version>,
    /// HTTP/2 may be spoken instead: nothing was said yet.
    pub may_be_http2: bool,
    /// It is answered only with what anyone would get whatever its address is.
    pub is_for_all: bool,
    /// When the first bytes of the first of them came. Each of the others begins when the one ahead of it is answered.
    pub begun: Instant,
    /// The time of this turn.
    pub now: Instant,
    /// The first of them has waited for its document: that was a miss, not a hit.
    pub has_waited: bool,
    /// This document could not be read: requests for it are refused rather than kept waiting.
    pub failed: Option<&'a Wanted>,
}

impl Default for Attempt<'_> {
    /// The first time, of nobody in particular, at the beginning of time.
    fn default() -> Self {
        Attempt {
            peer: Ipv4Addr::UNSPECIFIED.into(),
            is_encrypted: false,
            tls: None,
            is_early: false,
            on_stream: None,
            may_be_http2: false,
            is_for_all: false,
            begun: Instant::START,
            now: Instant::START,
            has_waited: false,
            failed: None,
        }
    }
}

impl<'a> Attempt<'a> {
    /// After the first request has waited; `failed` is what could not be read.
    pub fn after_waiting(failed: Option<&'a Wanted>) -> Attempt<'a> {
        Attempt {
            has_waited: true,
            failed,
            ..Attempt::default()
        }
    }

    /// Asked by this client: the first of them since `begun`, and it is `now`.
    #[must_use]
    pub fn of(self, peer: IpAddr, begun: Instant, now: Instant) -> Attempt<'a> {
        Attempt {
            peer,
            begun,
            now,
            ..self
        }
    }

    /// Whether nobody reads the requests on their way.
    #[must_use]
    pub fn by_https(self, is_encrypted: bool) -> Attempt<'a> {
        Attempt {
            is_encrypted,
            ..self
        }
    }

    /// The version of whose streams the requests came on, if they came on streams.
    #[must_use]
    pub fn on_stream(self, version: Option<Version>) -> Attempt<'a> {
        let on_stream = version.filter(|version| version.has_streams());
        Attempt { on_stream, ..self }
    }

    pub(super) fn has_failed(&self, site: usize, path: &SitePath) -> bool {
        let failed = self.failed;
        failed.is_some_and(|(of, failed)| *of == site && failed == path)
    }
}
