//! Packets from the daemon, as they come.
//!
//! The loop takes records from the ring buffer, hands on what it put out when there are none, and then
//! sleeps over the ring, the daemon's socket and the signals. It ends by a signal, after `--count`
//! packets, when nobody reads the output any more, or when the daemon goes.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use exos::signals::Signals;
use exos::via::control::{AskError, Control, Heard};
use exos_filter::gate::TapRecord;
use exos_host::Error;
use exos_host::bpf::RingbufReader;
use exos_program::status::Status;
use exos_xok::message::{Answer, Notice, Request, VERSION};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::cli::DumpArgs;
use crate::run::Dump;
use crate::tap::{Names, packet};

/// Records taken before the output is handed on and signals are looked at.
const BATCH: usize = 256;

/// How often the daemon is asked again who is behind the slots, when one is not known. Programs come
/// and go seldom; a report costs the daemon a fraction of a millisecond.
const REPORT_PAUSE: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &DumpArgs, mut dump: Dump) -> Result<ExitCode, Error> {
    let signals = Signals::catch()?;
    let mut live = Live::open(args)?;
    exos_program::info!(
        "exos dump: listening on {}, snap length {} bytes",
        args.interface
            .as_deref()
            .unwrap_or("all of the daemon's interfaces"),
        args.snaplen()
    );
    let ended = live.turns(&mut dump, &signals);
    let lost = live.lost();
    dump.finish(lost.unwrap_or(0))?;
    exos_program::info!("exos dump: {}", counts(dump.captured, lost));
    ended.map(|()| ExitCode::SUCCESS)
}

/// How it went, in tcpdump's manner.
fn counts(captured: u64, lost: Option<u64>) -> String {
    let plural = if captured == 1 { "" } else { "s" };
    match lost {
        Some(lost) => format!("{captured} packet{plural} captured, {lost} lost by the ring"),
        None => format!("{captured} packet{plural} captured, it is not known how many were lost"),
    }
}

struct Live {
    control: Control,
    tap: u32,
    ring: RingbufReader,
    record: Vec<u8>,
    names: Names,
    /// When the names were asked for last.
    asked: Instant,
}

impl Live {
    fn open(args: &DumpArgs) -> Result<Self, Error> {
        let path: PathBuf = args.xokd.clone().unwrap_or_else(exos::via::socket_path);
        let mut control = Control::connect(&path).map_err(without_daemon)?;
        control.ask(&Request::Hello { version: VERSION })?;
        let request = Request::Tap {
            interface: args.interface.clone().unwrap_or_default(),
            filter: args.filter_text(),
            snap: args.snaplen(),
            all: args.all,
        };
        let (answer, fds) = control.ask_while_busy(&request)?;
        let (Answer::Tapped { tap }, Some(fd)) = (answer, fds.into_iter().next()) else {
            return Err(Error::new("the daemon gives no ring of packets")
                .mend("use a daemon and a program of the same version of exos"));
        };
        let size = ring_size(&fd)?;
        let mut live = Self {
            control,
            tap,
            ring: RingbufReader::new(fd, size)?,
            record: Vec::new(),
            names: Names::default(),
            asked: Instant::now(),
        };
        live.names = live
            .status()
            .map(|status| Names::new(&status))
            .unwrap_or_default();
        Ok(live)
    }

    fn turns(&mut self, dump: &mut Dump, signals: &Signals) -> Result<(), Error> {
        while !signals.stop_requested() {
            match self.take(dump)? {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(true) => continue,
                ControlFlow::Continue(false) => {}
            }
            if dump.flush()?.is_break() {
                return Ok(());
            }
            if signals.take_report_request() {
                exos_program::info!("exos dump: {}", counts(dump.captured, self.lost()));
            }
            self.listen()?;
            self.sleep(signals)?;
        }
        Ok(())
    }

    /// Puts out what the ring holds; true when there may be more.
    fn take(&mut self, dump: &mut Dump) -> Result<ControlFlow<(), bool>, Error> {
        let wall_ns = wall_ahead_ns();
        for _ in 0..BATCH {
            if !self.ring.read(&mut self.record)? {
                return Ok(ControlFlow::Continue(false));
            }
            let record = std::mem::take(&mut self.record);
            let put = match TapRecord::parse(&record) {
                Some((head, bytes)) => {
                    self.learn(&head);
                    dump.put(&packet(&head, bytes, &self.names, wall_ns))
                }
                // A daemon of another version; nothing else writes here.
                None => Err(Error::new("a record of a packet is not understood")
                    .mend("use a daemon and a program of the same version of exos")),
            };
            self.record = record;
            if put?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(true))
    }

    /// Asks who a slot is, but not for every packet of one that nobody knows.
    fn learn(&mut self, record: &TapRecord) {
        if self.names.lacks(record) && self.asked.elapsed() >= REPORT_PAUSE {
            self.refresh();
        }
    }

    fn refresh(&mut self) {
        self.asked = Instant::now();
        // Names are a courtesy: without them slots are shown by number.
        if let Ok(status) = self.status() {
            self.names = Names::new(&status);
        }
    }

    fn status(&mut self) -> Result<Status, AskError> {
        let text = self.control.report()?;
        Status::parse(&text).map_err(AskError::Failed)
    }

    /// What the ring had no room for; `None` when the daemon does not say.
    fn lost(&mut self) -> Option<u64> {
        let status = self.status().ok()?;
        let mine = status.taps.iter().find(|tap| tap.tap == self.tap)?;
        Some(mine.lost)
    }

    /// What the daemon says unasked.
    fn listen(&mut self) -> Result<(), Error> {
        loop {
            match self.control.receive()? {
                Heard::Nothing => return Ok(()),
                Heard::Notice(Notice::Changed { .. }) => self.refresh(),
                Heard::Notice(Notice::Goodbye(_)) | Heard::Closed => {
                    return Err(Error::new("the daemon has gone, and the copies with it")
                        .mend("run it again when the daemon is back"));
                }
                Heard::Notice(Notice::Revoke { reason, .. }) => {
                    return Err(Error::new(format!(
                        "the daemon takes the copies back: {reason}"
                    )));
                }
                // To something that nobody waits for any more.
                Heard::Answer(..) => {}
            }
        }
    }

    fn sleep(&self, signals: &Signals) -> Result<(), Error> {
        let (ring, control, signals) = (self.ring.as_fd(), self.control.as_fd(), signals.fd());
        let mut fds =
            [ring, control, signals].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(Error::io("cannot wait for packets", e)),
        }
    }
}

/// There is no daemon: then XDP takes nothing and AF_XDP sends nothing that it would know of.
fn without_daemon(error: Error) -> Error {
    let mend = "start the daemon (exos daemon --interface NAME) or name its socket with --xokd; \
                what passes the host's own stack is seen by tcpdump, files are read with -r";
    error.mend(mend)
}

/// The data's size of a ring buffer, which whoever has its descriptor can read in /proc.
fn ring_size(fd: &OwnedFd) -> Result<usize, Error> {
    use std::os::fd::AsRawFd as _;
    let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
    let text =
        std::fs::read_to_string(&path).map_err(|e| Error::io(format!("cannot read {path}"), e))?;
    let size = text
        .lines()
        .find_map(|line| line.strip_prefix("max_entries:"));
    size.and_then(|size| size.trim().parse().ok())
        .ok_or_else(|| Error::new("the daemon's ring of packets is no BPF map"))
}

/// Nanoseconds that the wall clock is ahead of the monotonic one.
fn wall_ahead_ns() -> u64 {
    let ns = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    // Both are positive, and the wall clock counts from 1970.
    (ns(ClockId::Realtime) - ns(ClockId::Monotonic))
        .max(0)
        .cast_unsigned()
}
