//! What the server says about itself: on SIGUSR1 and at its end.
//!
//! As text on standard error, with the counters that are not zero; or as one line of JSON on
//! standard output, with all of them. The schema is in docs/json.md.

use exos::{Exos, clock};
use exos_inet::Instant;
use exos_program::counters;

use super::program::Cheetah;
use crate::http::Server;
use crate::site::Site;
use crate::sockets::SocketServer;
use crate::status::Snapshot;

/// The statistics as they are now, as text or as a line of JSON.
pub(super) fn report(exos: &Exos, cheetah: &Cheetah, as_json: bool) -> String {
    let snapshot = snapshot(exos, cheetah);
    if as_json {
        format!("{}\n", snapshot.json())
    } else {
        text(&snapshot)
    }
}

/// Brings the status pages up to date, if there are any.
#[inline]
pub(super) fn show(exos: &Exos, cheetah: &mut Cheetah, now: Instant) {
    let pages = cheetah.server_mut().status_pages_mut();
    if pages.is_some_and(|pages| pages.is_due(now)) {
        let snapshot = snapshot(exos, cheetah);
        let pages = cheetah.server_mut().status_pages_mut();
        pages
            .into_iter()
            .for_each(|pages| pages.update(now, snapshot.clone()));
    }
}

/// The same of a server on sockets.
pub(super) fn report_sockets(server: &SocketServer, as_json: bool) -> String {
    let snapshot = snapshot_sockets(server);
    if as_json {
        format!("{}\n", snapshot.json())
    } else {
        text(&snapshot)
    }
}

/// The same of a server on sockets.
pub(super) fn show_sockets(server: &mut SocketServer) {
    let now = clock::now();
    let pages = server.server_mut().status_pages_mut();
    if pages.is_some_and(|pages| pages.is_due(now)) {
        let snapshot = snapshot_sockets(server);
        let pages = server.server_mut().status_pages_mut();
        pages
            .into_iter()
            .for_each(|pages| pages.update(now, snapshot.clone()));
    }
}

fn snapshot_sockets(server: &SocketServer) -> Snapshot {
    let clients = server.clients();
    let own = clients.counters().into_iter();
    let own = own.map(|(name, count)| (name.to_owned(), count));
    let http = clients.server();
    Snapshot {
        uptime: clock::now() - server.started(),
        link: "the kernel's sockets".to_owned(),
        connections: clients.open(),
        waiting_requests: clients.waiting(),
        counters: http_counters(http).into_iter().chain(own).collect(),
        ..of_http(http)
    }
}

fn text(snapshot: &Snapshot) -> String {
    format!(
        "exos serve: {} connections open, {} in TIME-WAIT\n{}",
        snapshot.connections,
        snapshot.time_wait,
        counters::lines(&snapshot.counters)
    )
}

fn snapshot(exos: &Exos, cheetah: &Cheetah) -> Snapshot {
    let own = cheetah.counters().into_iter();
    let own = own.map(|(name, count)| (name.to_owned(), count));
    let http = cheetah.server();
    let counters = exos.counters().into_iter();
    Snapshot {
        uptime: exos.now() - cheetah.started(),
        link: exos.describe_link(),
        connections: cheetah.connections(),
        waiting_requests: cheetah.waiting(),
        time_wait: exos.stack.tcp.time_wait_connections(),
        counters: counters.chain(http_counters(http)).chain(own).collect(),
        ..of_http(http)
    }
}

/// What the HTTP server knows by itself.
fn of_http(http: &Server) -> Snapshot {
    Snapshot {
        cpu: clock::process_time(),
        documents: http.sites().iter().map(Site::document_count).sum(),
        content_bytes: http.sites().iter().map(Site::content_len).sum(),
        cache: http.sites().cache_figures(),
        responses: http.counters().response_count(),
        response_bytes: http.counters().response_bytes,
        ..Snapshot::default()
    }
}

fn http_counters(http: &Server) -> Vec<(String, u64)> {
    let log = http.log().into_iter().flat_map(|log| log.counters());
    let cache = http.sites().cache_figures().counters();
    let all = http.counters().list().into_iter().chain(cache).chain(log);
    all.map(|(name, count)| (name.to_owned(), count)).collect()
}
