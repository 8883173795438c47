//! What the server says about itself: on SIGUSR1 and at its end.
//!
//! As text on standard error, with the counters that are not zero; or as one line of JSON on
//! standard output, with all of them. The schema is in docs/json.md.

use exos::Exos;
use exos_program::counters;
use serde_json::json;

use super::program::Cheetah;

/// The statistics as they are now, as text or as a line of JSON.
pub(super) fn report(exos: &Exos, cheetah: &Cheetah, as_json: bool) -> String {
    if as_json {
        format!("{}\n", value(exos, cheetah))
    } else {
        text(exos, cheetah)
    }
}

fn text(exos: &Exos, cheetah: &Cheetah) -> String {
    format!(
        "exos serve: {} connections open, {} in TIME-WAIT\n{}",
        cheetah.connections(),
        exos.stack.tcp.time_wait_connections(),
        counters::lines(&all_counters(exos, cheetah))
    )
}

fn value(exos: &Exos, cheetah: &Cheetah) -> serde_json::Value {
    json!({
        "schema": "exos.serve.statistics/1",
        "connections": cheetah.connections(),
        "time_wait_connections": exos.stack.tcp.time_wait_connections(),
        "counters": counters::object(all_counters(exos, cheetah)),
    })
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
