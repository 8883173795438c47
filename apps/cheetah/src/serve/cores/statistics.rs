//! What the server says about itself: on SIGUSR1 and at its end.
//!
//! As text on standard error, with the counters that are not zero; or as one line of JSON on
//! standard output, with all of them.

use std::fmt::Write as _;

use exos::clock;
use exos_program::counters;

use super::worker::Worker;
use crate::connections::Carried;
use crate::site::Site;
use crate::status::{Row, Snapshot};

/// The statistics of all cores as they are now, as text or as a line of JSON. What others have shown last is theirs.
pub(super) fn report(served: &impl Carried, worker: &Worker, as_json: bool) -> String {
    worker.show(row(served));
    let snapshot = snapshot(served, worker);
    if as_json {
        format!("{}\n", snapshot.json())
    } else {
        text(&snapshot)
    }
}

/// Brings the status pages up to date, if there are any.
#[inline]
pub(super) fn bring_pages_up_to_date(served: &mut impl Carried, worker: &Worker) {
    let now = served.now();
    let pages = served.cheetah_mut().server_mut().status_pages_mut();
    if pages.is_some_and(|pages| pages.is_due(now)) {
        worker.show(row(served));
        let snapshot = snapshot(served, worker);
        let pages = served.cheetah_mut().server_mut().status_pages_mut();
        pages
            .into_iter()
            .for_each(|pages| pages.update(now, snapshot.clone()));
    }
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
        let _ = writeln!(text, "  core {}: {}", row.place(), columns.join(", "));
    }
    text
}

/// What is known of all cores, by what they have shown.
fn snapshot(served: &impl Carried, worker: &Worker) -> Snapshot {
    let http = served.cheetah().server();
    let acme = http.acme();
    let snapshot = Snapshot {
        uptime: served.now() - served.cheetah().started(),
        link: served.describe(),
        certificate_expires: served.certificate_expires(),
        acme: acme.map_or(Vec::new(), |acme| acme.shown()),
        acme_account: acme.and_then(|acme| acme.account()),
        cpu: clock::process_time(),
        documents: http.sites().iter().map(Site::document_count).sum(),
        content_bytes: http.sites().iter().map(Site::content_len).sum(),
        cache: http.sites().cache_figures(),
        ..Snapshot::default()
    };
    let mut snapshot = snapshot.with(worker.rows());
    // What certificates come by is one for all cores, and so is the cache.
    let acme = acme.into_iter().flat_map(|acme| acme.counters());
    let acme = acme.map(|(name, count)| (name.to_owned(), count));
    snapshot.counters.extend(acme);
    let cache = snapshot.cache.counters().into_iter();
    let cache = cache.map(|(name, count)| (name.to_owned(), count));
    snapshot.counters.extend(cache);
    snapshot
}

/// What is known of one core.
pub(super) fn row(served: &impl Carried) -> Row {
    let cheetah = served.cheetah();
    let http = cheetah.server();
    let log = http.log().into_iter().flat_map(|log| log.counters());
    let own = http.counters().list().into_iter().chain(log);
    let own = own.chain(cheetah.counters());
    let own = own.map(|(name, count)| (name.to_owned(), count));
    Row {
        connections: cheetah.connections(),
        waiting_requests: cheetah.waiting(),
        time_wait: served.time_wait(),
        tunnels: cheetah.applications().open_tunnels(),
        upstreams_out: cheetah.applications().upstreams_out(),
        responses: http.counters().response_count(),
        response_bytes: http.counters().response_bytes,
        counters: served.counters().into_iter().chain(own).collect(),
        ..Row::default()
    }
}
