//! What the server says about itself: on SIGUSR1 and at its end.
//!
//! As text on standard error, with the counters that are not zero; or as one line of JSON on
//! standard output, with all of them. The schema is in docs/json.md.

use std::fmt::Write as _;

use exos::{Exos, clock};
use exos_inet::Instant;
use exos_program::counters;

use super::connections::Cheetah;
use super::station::Station;
use super::worker::Worker;
use crate::http::Server;
use crate::site::Site;
use crate::sockets::SocketServer;
use crate::status::{Row, Snapshot};

/// The statistics of all cores as they are now, as text or as a line of JSON. What others have shown last is theirs.
pub(super) fn report(station: &Station, as_json: bool) -> String {
    station.show();
    written(
        &snapshot(&station.exos, &station.cheetah, &station.worker),
        as_json,
    )
}

/// Brings the status pages up to date, if there are any.
#[inline]
pub(super) fn bring_pages_up_to_date(exos: &Exos, cheetah: &mut Cheetah, worker: &Worker) {
    let now = exos.now();
    if pages_are_due(now, cheetah.server_mut()) {
        worker.show(row(exos, cheetah));
        let snapshot = snapshot(exos, cheetah, worker);
        update_pages(now, cheetah.server_mut(), &snapshot);
    }
}

#[inline]
fn pages_are_due(now: Instant, http: &mut Server) -> bool {
    http.status_pages_mut()
        .is_some_and(|pages| pages.is_due(now))
}

fn update_pages(now: Instant, http: &mut Server, snapshot: &Snapshot) {
    if let Some(pages) = http.status_pages_mut() {
        pages.update(now, snapshot.clone());
    }
}

fn written(snapshot: &Snapshot, as_json: bool) -> String {
    if as_json {
        format!("{}\n", snapshot.json())
    } else {
        text(snapshot)
    }
}

/// The statistics of a server on sockets.
pub(super) fn report_sockets(server: &SocketServer, as_json: bool) -> String {
    written(&snapshot_sockets(server), as_json)
}

/// Brings the status pages of a server on sockets up to date, if there are any.
pub(super) fn show_sockets(server: &mut SocketServer) {
    let now = clock::now();
    if pages_are_due(now, server.server_mut()) {
        let snapshot = snapshot_sockets(server);
        update_pages(now, server.server_mut(), &snapshot);
    }
}

fn snapshot_sockets(server: &SocketServer) -> Snapshot {
    let cheetah = server.cheetah();
    let snapshot = Snapshot {
        uptime: clock::now() - cheetah.started(),
        link: "the kernel's sockets".to_owned(),
        ..of_http(cheetah.server())
    };
    with_cache(snapshot.with(vec![row_of(cheetah, server.counters())]))
}

fn text(snapshot: &Snapshot) -> String {
    let mut text = format!(
        "exos serve: {} connections open, {} in TIME-WAIT\n{}",
        snapshot.connections,
        snapshot.time_wait,
        counters::lines(&snapshot.counters)
    );
    for row in &snapshot.cores {
        let columns = row.columns().map(|(name, count)| format!("{name} {count}"));
        let _ = writeln!(text, "  core {}: {}", row.core, columns.join(", "));
    }
    text
}

/// What is known of all cores, by what they have shown.
fn snapshot(exos: &Exos, cheetah: &Cheetah, worker: &Worker) -> Snapshot {
    let snapshot = Snapshot {
        uptime: exos.now() - cheetah.started(),
        link: exos.describe_link(),
        ..of_http(cheetah.server())
    };
    with_cache(snapshot.with(worker.rows()))
}

/// With the counters of the cache, which is one for all cores.
fn with_cache(mut snapshot: Snapshot) -> Snapshot {
    let cache = snapshot.cache.counters().into_iter();
    let cache = cache.map(|(name, count)| (name.to_owned(), count));
    snapshot.counters.extend(cache);
    snapshot
}

/// What is known of one core.
pub(super) fn row(exos: &Exos, cheetah: &Cheetah) -> Row {
    let row = row_of(cheetah, cheetah.counters());
    let counters = exos.counters().into_iter();
    Row {
        time_wait: exos.stack.tcp.time_wait_connections(),
        counters: counters.chain(row.counters).collect(),
        ..row
    }
}

/// What is known of a server on whatever carries it; `own` is what its connections count.
fn row_of(cheetah: &Cheetah, own: Vec<(&'static str, u64)>) -> Row {
    let http = cheetah.server();
    let log = http.log().into_iter().flat_map(|log| log.counters());
    let counters = http.counters().list().into_iter().chain(log).chain(own);
    Row {
        connections: cheetah.connections(),
        waiting_requests: cheetah.waiting(),
        responses: http.counters().response_count(),
        response_bytes: http.counters().response_bytes,
        counters: counters
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
        ..Row::default()
    }
}

/// What each core has the same of.
fn of_http(http: &Server) -> Snapshot {
    Snapshot {
        cpu: clock::process_time(),
        documents: http.sites().iter().map(Site::document_count).sum(),
        content_bytes: http.sites().iter().map(Site::content_len).sum(),
        cache: http.sites().cache_figures(),
        ..Snapshot::default()
    }
}
