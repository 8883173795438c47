//! What the server says about itself: on SIGUSR1 and at its end.
//!
//! As text on standard error, with the counters that are not zero; or as one line of JSON on
//! standard output, with all of them. The schema is in docs/json.md.
//!
//! A thread of its own writes them, because whoever reads a pipe may be slow or have stopped, and
//! that is no reason to stop serving.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exos::{Error, Exos};
use serde_json::{Map, Value, json};

use super::program::Cheetah;

/// Reports that may wait for a slow reader; further ones are left out.
const REPORTS_MAX: usize = 4;

/// How long the end waits for a slow reader.
const LAST_REPORT_TIME: Duration = Duration::from_secs(1);

/// Writes reports, without making its caller wait for the reader.
pub(super) struct Printer {
    reports: SyncSender<String>,
    writer: JoinHandle<()>,
    as_json: bool,
}

impl Printer {
    /// JSON goes to standard output, text to standard error.
    pub(super) fn start(as_json: bool) -> Result<Self, Error> {
        let (reports, waiting) = sync_channel(REPORTS_MAX);
        let writer = std::thread::Builder::new()
            .name("statistics".into())
            .spawn(move || write_all(&waiting, as_json))
            .map_err(|e| Error::io("cannot start a thread", e))?;
        Ok(Self {
            reports,
            writer,
            as_json,
        })
    }

    /// Print the statistics as they are now; not when several reports wait for their reader already.
    pub(super) fn print(&self, exos: &Exos, cheetah: &Cheetah) {
        let report = if self.as_json {
            format!("{}\n", value(exos, cheetah))
        } else {
            text(exos, cheetah)
        };
        let _ = self.reports.try_send(report);
    }

    /// Wait until all is written, but not for a reader that has stopped.
    pub(super) fn finish(self) {
        drop(self.reports);
        let until = Instant::now() + LAST_REPORT_TIME;
        while !self.writer.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn write_all(reports: &Receiver<String>, as_json: bool) {
    for report in reports {
        // Nobody may be reading any more; that is no reason to stop serving.
        let _ = if as_json {
            let mut out = std::io::stdout().lock();
            out.write_all(report.as_bytes()).and_then(|()| out.flush())
        } else {
            std::io::stderr().write_all(report.as_bytes())
        };
    }
}

fn text(exos: &Exos, cheetah: &Cheetah) -> String {
    let counters = counters(exos, cheetah);
    let width = counters
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    let mut text = format!(
        "exos serve: {} connections open, {} in TIME-WAIT\n",
        cheetah.connections(),
        exos.stack.tcp.time_wait_connections()
    );
    for (name, count) in counters.iter().filter(|(_, count)| *count > 0) {
        let _ = writeln!(text, "  {name:width$}  {count}");
    }
    text
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
