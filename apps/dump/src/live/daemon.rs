//! Packets from the daemon: a ring buffer into which the kernel's side writes, names of programs, and what was lost.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use exos::via::control::{AskError, Control, Heard};
use exos_filter::gate::TapRecord;
use exos_host::Error;
use exos_host::bpf::RingbufReader;
use exos_program::status::Status;
use exos_xok::message::{Answer, Notice, Refusal, Request, VERSION};

use super::clock::{monotonic_ns, wall_ahead_ns};
use super::names::{Names, packet};
use crate::cli::DumpArgs;
use crate::limits::BATCH;
use crate::output::Output;

/// How often the daemon is asked again who is behind the slots, when one is not known. Programs come
/// and go seldom; a report costs the daemon a fraction of a millisecond.
const REPORT_PAUSE: Duration = Duration::from_millis(500);

/// How long a report is waited for that is not older than the question, and how often it is asked for. The daemon makes
/// ten a second, fewer when they take long.
const FRESH_TIME: Duration = Duration::from_secs(1);
const FRESH_PAUSE: Duration = Duration::from_millis(20);

/// Copies that the daemon has made.
pub(super) struct Daemon {
    control: Control,
    tap: u32,
    ring: RingbufReader,
    record: Vec<u8>,
    names: Names,
    /// The process whose packets are wanted, of all that are copied.
    pid: Option<u32>,
    /// When the names were asked for last.
    asked: Instant,
}

/// What has come of asking the daemon.
pub(super) enum Opened {
    /// It makes copies.
    Copies(Box<Daemon>),
    /// It does not serve the interface or the process that is asked for: only these interfaces.
    Others(Vec<String>),
}

impl Daemon {
    /// Has copies made.
    pub(super) fn open(mut control: Control, args: &DumpArgs) -> Result<Opened, Error> {
        control.ask(&Request::Hello { version: VERSION })?;
        let names = names(&mut control);
        if args.pid.is_some_and(|pid| !names.has_process(pid)) {
            return Ok(Opened::Others(names.interfaces()));
        }
        let request = Request::Tap {
            interface: args.interface.clone().unwrap_or_default(),
            filter: args.filter_text(),
            snap: args.snaplen(),
            all: args.all || rustix::process::geteuid().is_root(),
        };
        let (answer, fds) = match control.ask_while_busy(&request) {
            Err(AskError::Refused(Refusal::NotFound, _)) => {
                return Ok(Opened::Others(names.interfaces()));
            }
            answered => answered?,
        };
        let (Answer::Tapped { tap }, Some(fd)) = (answer, fds.into_iter().next()) else {
            return Err(Error::new("the daemon gives no ring of packets")
                .mend("use a daemon and a program of the same version of exos"));
        };
        let size = ring_size(&fd)?;
        Ok(Opened::Copies(Box::new(Self {
            control,
            tap,
            ring: RingbufReader::new(fd, size)?,
            record: Vec::new(),
            names,
            pid: args.pid,
            asked: Instant::now(),
        })))
    }

    /// Puts out what the ring holds; true when there may be more.
    pub(super) fn take(&mut self, output: &mut Output) -> Result<ControlFlow<(), bool>, Error> {
        let wall_ns = wall_ahead_ns();
        for _ in 0..BATCH {
            if !self.ring.read(&mut self.record)? {
                return Ok(ControlFlow::Continue(false));
            }
            let record = std::mem::take(&mut self.record);
            let put = match TapRecord::parse(&record) {
                Some((head, bytes)) => {
                    self.learn(&head);
                    match self.pid {
                        Some(pid) if !self.names.is_of_process(&head, pid) => {
                            Ok(ControlFlow::Continue(()))
                        }
                        _ => output.put(&packet(&head, bytes, &self.names, wall_ns)),
                    }
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
        self.names = names(&mut self.control);
    }

    /// What the ring had no room for up to now; `None` when the daemon does not say.
    pub(super) fn lost(&mut self) -> Option<u64> {
        let now = monotonic_ns();
        let until = Instant::now() + FRESH_TIME;
        loop {
            let status = status(&mut self.control).ok()?;
            // One report is for all who ask within a while.
            let is_fresh = status.time_ns.is_none_or(|made| made >= now);
            if is_fresh || Instant::now() >= until {
                let mine = status.taps.iter().find(|tap| tap.tap == self.tap)?;
                return Some(mine.lost);
            }
            std::thread::sleep(FRESH_PAUSE);
        }
    }

    /// What the daemon says unasked.
    pub(super) fn listen(&mut self) -> Result<(), Error> {
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

    /// What is readable when there is something to take, or to listen to.
    pub(super) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.ring.as_fd(), self.control.as_fd()]
    }
}

/// The programs behind the slots. A courtesy: without it they are shown by number.
fn names(control: &mut Control) -> Names {
    let status = status(control);
    status.map(|status| Names::new(&status)).unwrap_or_default()
}

fn status(control: &mut Control) -> Result<Status, AskError> {
    let text = control.report()?;
    Status::parse(&text).map_err(AskError::Failed)
}

/// The data's size of a ring buffer, which anyone who has its descriptor can read in /proc.
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
