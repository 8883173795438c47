//! What the server says about itself: on SIGUSR1 and at its end.
//!
//! As text on standard error, with the counters that are not zero; or as one line of JSON on
//! standard output, with all of them. The schema is in docs/json.md.

use exos::{Exos, clock};
use exos_inet::Instant;
use exos_program::counters;

use super::program::Cheetah;
use crate::site::Site;
use crate::status::{Rates, Snapshot};

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

fn text(snapshot: &Snapshot) -> String {
    format!(
        "exos serve: {} connections open, {} in TIME-WAIT\n{}",
        snapshot.connections,
        snapshot.time_wait,
        counters::lines(&snapshot.counters)
    )
}

fn snapshot(exos: &Exos, cheetah: &Cheetah) -> Snapshot {
    let http = cheetah.server();
    Snapshot {
        uptime: exos.now() - cheetah.started(),
        cpu: clock::process_time(),
        link: exos.describe_link(),
        connections: cheetah.connections(),
        time_wait: exos.stack.tcp.time_wait_connections(),
        documents: http.sites().iter().map(Site::document_count).sum(),
        content_bytes: http.sites().iter().map(Site::content_len).sum(),
        responses: http.counters().response_count(),
        response_bytes: http.counters().response_bytes,
        counters: all_counters(exos, cheetah),
        rates: Rates::default(),
    }
}

fn all_counters(exos: &Exos, cheetah: &Cheetah) -> Vec<(String, u64)> {
    let http = cheetah
        .server()
        .counters()
        .list()
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count));
    let program = cheetah
        .counters()
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count));
    let log = cheetah.server().log();
    let log = log.into_iter().flat_map(|log| log.counters());
    let log = log.map(|(name, count)| (name.to_owned(), count));
    exos.counters()
        .into_iter()
        .chain(http)
        .chain(program)
        .chain(log)
        .collect()
}
