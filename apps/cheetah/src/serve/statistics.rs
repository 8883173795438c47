//! What the server says about itself: on SIGUSR1 and at its end.
//!
//! As text on standard error, with the counters that are not zero; or as one line of JSON on
//! standard output, with all of them.

use std::fmt::Write as _;

use exos::{Exos, clock};
use exos_program::counters;

use super::program::Cheetah;
use super::station::Station;
use super::team::Seat;
use crate::http::Server;
use crate::site::Site;
use crate::sockets::SocketServer;
use crate::status::{Row, Snapshot};

/// The statistics of all cores as they are now, as text or as a line of JSON. What others have shown last is theirs.
pub(super) fn report(station: &Station, as_json: bool) -> String {
    station.show();
    written(
        &snapshot(&station.exos, &station.cheetah, &station.seat),
        as_json,
    )
}

/// Brings the status pages up to date, if there are any.
#[inline]
pub(super) fn bring_pages_up_to_date(exos: &Exos, cheetah: &mut Cheetah, seat: &Seat) {
    let now = exos.now();
    let pages = cheetah.server_mut().status_pages_mut();
    if pages.is_some_and(|pages| pages.is_due(now)) {
        seat.show(row(exos, cheetah));
        let snapshot = snapshot(exos, cheetah, seat);
        let pages = cheetah.server_mut().status_pages_mut();
        pages
            .into_iter()
            .for_each(|pages| pages.update(now, snapshot.clone()));
    }
}

fn written(snapshot: &Snapshot, as_json: bool) -> String {
    if as_json {
        format!("{}\n", snapshot.json())
    } else {
        text(snapshot)
    }
}

/// What a server on sockets reports.
pub(super) fn report_sockets(server: &SocketServer, as_json: bool) -> String {
    written(&snapshot_sockets(server), as_json)
}

/// Gives a server on sockets its status pages, when they are due.
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
    let row = Row {
        connections: clients.open(),
        waiting_requests: clients.waiting(),
        counters: http_counters(http).into_iter().chain(own).collect(),
        ..row_of_http(http)
    };
    let snapshot = Snapshot {
        uptime: clock::now() - server.started(),
        link: "the kernel's sockets".to_owned(),
        ..of_http(http)
    };
    with_cache(snapshot.with(vec![row]))
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
fn snapshot(exos: &Exos, cheetah: &Cheetah, seat: &Seat) -> Snapshot {
    let snapshot = Snapshot {
        uptime: exos.now() - cheetah.started(),
        link: exos.describe_link(),
        ..of_http(cheetah.server())
    };
    with_cache(snapshot.with(seat.rows()))
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
    let own = cheetah.counters().into_iter();
    let own = own.map(|(name, count)| (name.to_owned(), count));
    let http = cheetah.server();
    let counters = exos.counters().into_iter();
    Row {
        connections: cheetah.connections(),
        waiting_requests: cheetah.waiting(),
        time_wait: exos.stack.tcp.time_wait_connections(),
        counters: counters.chain(http_counters(http)).chain(own).collect(),
        ..row_of_http(http)
    }
}

fn row_of_http(http: &Server) -> Row {
    Row {
        responses: http.counters().response_count(),
        response_bytes: http.counters().response_bytes,
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

fn http_counters(http: &Server) -> Vec<(String, u64)> {
    let log = http.log().into_iter().flat_map(|log| log.counters());
    let all = http.counters().list().into_iter().chain(log);
    all.map(|(name, count)| (name.to_owned(), count)).collect()
}
