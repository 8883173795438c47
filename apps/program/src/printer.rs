//! Reports on a stream whose reader may be slow or gone.
//!
//! A thread of its own writes them, because anyone who reads a pipe may have stopped, and that is no
//! reason to stop serving.

use std::io::Write as _;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use exos::Error;

/// Reports that may wait for a slow reader; further ones are left out.
const REPORTS_MAX: usize = 4;

/// How often the end looks whether a slow reader has all: a second, or longer where this process does not run. A time of the clock would
/// be over at once for one that has stood still.
const LAST_LOOKS: u32 = 1000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Where reports go.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Writes reports, without making its caller wait for the reader.
pub struct Printer {
    reports: SyncSender<String>,
    writer: JoinHandle<()>,
}

impl Printer {
    /// Reports to this stream.
    pub fn start(stream: Stream) -> Result<Self, Error> {
        let (reports, waiting) = sync_channel(REPORTS_MAX);
        let writer = std::thread::Builder::new()
            .name("statistics".into())
            .spawn(move || write_all(&waiting, stream))
            .map_err(|e| Error::io("cannot start a thread", e))?;
        Ok(Self { reports, writer })
    }

    /// Write this; not when several reports wait for their reader already.
    pub fn print(&self, report: String) {
        let _ = self.reports.try_send(report);
    }

    /// Wait until all is written, but not for a reader that has stopped.
    pub fn finish(self) {
        drop(self.reports);
        for _ in 0..LAST_LOOKS {
            if self.writer.is_finished() {
                return;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}

fn write_all(reports: &Receiver<String>, stream: Stream) {
    for report in reports {
        // Nobody may be reading any more; that is no reason to stop serving.
        let _ = match stream {
            Stream::Output => {
                let mut out = std::io::stdout().lock();
                out.write_all(report.as_bytes()).and_then(|()| out.flush())
            }
            Stream::Error => std::io::stderr().write_all(report.as_bytes()),
        };
    }
}
