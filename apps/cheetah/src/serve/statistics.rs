//! What the server says about itself: on SIGUSR1 and at its end.
//!
//! As text on standard error, with the counters that are not zero; or as one line of JSON on
//! standard output, with all of them. The schema is in docs/json.md.

use std::io::Write as _;

use exos::Exos;
use serde_json::{Map, Value, json};

use super::program::Cheetah;

/// Print the statistics.
pub(super) fn print(exos: &Exos, cheetah: &Cheetah, as_json: bool) {
    if as_json {
        let mut out = std::io::stdout().lock();
        // Nobody may be reading any more; that is no reason to stop serving.
        let _ = writeln!(out, "{}", value(exos, cheetah)).and_then(|()| out.flush());
        return;
    }
    let counters = counters(exos, cheetah);
    let width = counters
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    eprintln!(
        "exos serve: {} connections open, {} in TIME-WAIT",
        cheetah.connections(),
        exos.stack.tcp.time_wait_connections()
    );
    for (name, count) in counters.iter().filter(|(_, count)| *count > 0) {
        eprintln!("  {name:width$}  {count}");
    }
}

fn value(exos: &Exos, cheetah: &Cheetah) -> Value {
    let counters: Map<String, Value> = counters(exos, cheetah)
        .into_iter()
        .map(|(n, c)| (n, c.into()))
        .collect();
    json!({
        "schema": "exos.serve.statistics/1",
        "connections": cheetah.connections(),
        "time_wait_connections": exos.stack.tcp.time_wait_connections(),
        "counters": counters,
    })
}

fn counters(exos: &Exos, cheetah: &Cheetah) -> Vec<(String, u64)> {
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
    exos.counters()
        .into_iter()
        .chain(http)
        .chain(program)
        .collect()
}
