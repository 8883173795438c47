//! What all connections of a loop share: the server and what it sends of, limits, and what is counted.

use exos_buf::Slice;
use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use super::bounds::Bounds;
use super::http2::counters::Counters as Http2Counters;
use super::in_kernel::InKernel;
use super::refreshing::Refreshing;
use super::sent::SentByKernel;
use super::wait::Ends;
use crate::applications::Applications;
use crate::applications::heads::Heads;
use crate::http::Server;
use crate::stream::Streams;

/// Who was sent away, by name.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) fetch_failures: u64,
    pub(super) peer_refusals: u64,
    pub(super) slow_readers: u64,
    pub(super) slow_heads: u64,
    pub(super) broken_off: u64,
    pub(super) application_failures: u64,
    pub(super) upstream_failures: u64,
    /// Requests that went to another upstream, or once more to one.
    pub(super) upstream_retries: u64,
    /// Changes of protocol.
    pub(super) tunnels: u64,
    /// Fields behind bodies that were not passed on.
    pub(super) trailers_left_out: u64,
    pub(super) http2: Http2Counters,
}

impl Counters {
    /// All of them but those of HTTP/2, by name.
    pub(super) fn list(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let Counters {
            fetch_failures,
            peer_refusals,
            slow_readers,
            slow_heads,
            broken_off,
            application_failures,
            upstream_failures,
            upstream_retries,
            tunnels,
            trailers_left_out,
            http2: _,
        } = *self;
        let all = [
            ("http_fetch_failures", fetch_failures),
            ("http_peer_refusals", peer_refusals),
            ("http_slow_readers", slow_readers),
            ("http_slow_heads", slow_heads),
            ("http_broken_off", broken_off),
            ("fastcgi_failures", application_failures),
            ("proxy_failures", upstream_failures),
            ("proxy_retries", upstream_retries),
            ("proxy_tunnels", tunnels),
            ("proxy_trailers_left_out", trailers_left_out),
        ];
        all.into_iter()
    }
}

/// What all connections of a loop share.
pub(super) struct Shared {
    pub(super) server: Server,
    pub(super) streams: Streams,
    pub(super) applications: Applications,
    /// Heads of applications' answers that come again.
    pub(super) heads: Heads,
    pub(super) refreshing: Refreshing,
    pub(super) bounds: Bounds,
    pub(super) ends: Ends,
    pub(super) counters: Counters,
    /// No further requests are wanted.
    pub(super) stopping: bool,
    pub(super) out: Vec<Slice>,
    /// Connections that have had their turn, and of whose requests more are there.
    pub(super) unread: Vec<ConnectionId>,
    /// Frames of HTTP/2 that are put together.
    pub(super) frames: Vec<u8>,
    /// HTTP/2 is spoken to clients that want it.
    pub(super) speaks_http2: bool,
    /// Where the kernel answers, too.
    pub(super) in_kernel: Option<InKernel>,
    pub(super) sent_by_kernel: SentByKernel,
}

impl Shared {
    /// For connections to a server, without limits.
    pub(super) fn new(server: Server, now: Instant) -> Shared {
        let mut applications = Applications::default();
        let rules = server.sites().iter();
        applications.check(rules.map(|site| &site.settings().applications), now);
        Shared {
            server,
            streams: Streams::default(),
            applications,
            heads: Heads::default(),
            refreshing: Refreshing::default(),
            bounds: Bounds::default(),
            ends: Ends::default(),
            counters: Counters::default(),
            stopping: false,
            out: Vec::new(),
            unread: Vec::new(),
            frames: Vec::new(),
            speaks_http2: true,
            in_kernel: None,
            sent_by_kernel: SentByKernel::default(),
        }
    }
}
