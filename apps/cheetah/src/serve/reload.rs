//! SIGHUP: the configuration and its documents once more, while everybody is served what was there.
//!
//! ```text
//!   SIGHUP ──> a thread: read, check, walk, sum ──whole──> turns: fill tables ──> exchange ──> turns: empty the old
//! ```
//!
//! All that takes long is done on a thread, which hands over nothing before it is whole. What the loop has to do,
//! since buffers belong to its thread, is done in slices between turns of no more than [`SLICE_TIME`] and a few
//! documents. Until the exchange every request is answered by the old tables, from then on by the new ones; responses
//! under way, and connections, know nothing of it.
//!
//! A configuration that cannot stand, or whose directories or error pages are not there, is refused with all that is
//! wrong with it, and nothing changes. Port, link, TCP, log and status page are what they were
//! at the start.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Instant;

use exos::Error;
use rustix::event::{EventfdFlags, eventfd};

use super::sites::{Filling, Fresh, Live};
use crate::http::Server;
use crate::limits::{CHANGES_AT_ONCE, SLICE_TIME};
use crate::site::{Entry, Tree};

/// What reads everything that there is to be served, on any thread.
pub type Read = Arc<dyn Fn() -> Result<Fresh, Vec<Error>> + Send + Sync>;

/// The reload that is under way, if one is.
pub struct Reload {
    read: Read,
    /// Where the thread may run, for the loop may have a core to itself.
    cores: Vec<usize>,
    state: State,
    /// Asked for while one was under way.
    again: bool,
    /// Readable when the thread has read.
    wake: Arc<OwnedFd>,
}

enum State {
    Idle,
    Reading(Receiver<Result<Fresh, Vec<Error>>>),
    Filling(Box<Filling>),
    Emptying(Box<dyn Iterator<Item = Entry>>),
}

/// What came of a turn's work.
pub enum Progress {
    /// Nothing that anybody has to know of.
    None,
    /// The sites have been exchanged; these tell of changes of the new ones, by their numbers.
    Exchanged(Vec<Tree>),
    /// What was read cannot be served, for these reasons; nothing has changed.
    Refused(Vec<Error>),
}

impl Reload {
    /// No reload; `read` is what one reads, on a thread that may run on these cores.
    ///
    /// # Errors
    ///
    /// When there is no descriptor to be had.
    pub fn new(read: Read, cores: Vec<usize>) -> Result<Reload, Error> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wake = wake.map_err(|e| Error::io("cannot make a descriptor for reloads", e))?;
        Ok(Reload {
            read,
            cores,
            state: State::Idle,
            again: false,
            wake: Arc::new(wake),
        })
    }

    /// Asks for a reload. While one is under way, for another after it: what it has read may be old.
    pub fn request(&mut self) {
        self.again = true;
    }

    /// Readable when there is something to do.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// True when the next turn has something to do.
    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Filling(_) | State::Emptying(_))
            || self.again && matches!(self.state, State::Idle)
    }

    /// Does what there is to do between two turns; a comparison when there is nothing.
    pub fn turn(&mut self, server: &mut Server) -> Progress {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle if self.again => {
                self.again = false;
                self.begin()
            }
            State::Idle => Progress::None,
            State::Reading(receiver) => self.look(receiver),
            State::Filling(filling) => self.fill(filling, server),
            State::Emptying(mut rest) => {
                if !in_a_slice(|| rest.by_ref().take(CHANGES_AT_ONCE).count() < CHANGES_AT_ONCE) {
                    self.state = State::Emptying(rest);
                }
                Progress::None
            }
        }
    }

    fn begin(&mut self) -> Progress {
        let (sender, receiver) = sync_channel(1);
        let (read, wake, cores) = (self.read.clone(), self.wake.clone(), self.cores.clone());
        let thread = std::thread::Builder::new().name("reload".into());
        let thread = thread.spawn(move || {
            // Where it may not, it shares a core.
            let _ = exos_host::affinity::set(&cores);
            // Nobody may be there to hear it: the program has ended.
            let _ = sender.send(read());
            let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
        });
        match thread {
            Ok(_) => {
                self.state = State::Reading(receiver);
                Progress::None
            }
            Err(e) => refused("cannot start a thread", e),
        }
    }

    fn look(&mut self, receiver: Receiver<Result<Fresh, Vec<Error>>>) -> Progress {
        match receiver.try_recv() {
            Err(TryRecvError::Empty) => {
                self.state = State::Reading(receiver);
                return Progress::None;
            }
            Ok(Ok(fresh)) => self.state = State::Filling(Box::new(Filling::new(fresh))),
            Ok(Err(errors)) => {
                self.drain();
                return Progress::Refused(errors);
            }
            Err(TryRecvError::Disconnected) => {
                self.drain();
                return refused("cannot read the sites", io::ErrorKind::Other.into());
            }
        }
        self.drain();
        Progress::None
    }

    fn fill(&mut self, mut filling: Box<Filling>, server: &mut Server) -> Progress {
        if !in_a_slice(|| filling.step(CHANGES_AT_ONCE)) {
            self.state = State::Filling(filling);
            return Progress::None;
        }
        let (sites, trees): Live = filling.finish();
        let old = server.set_sites(sites);
        self.state = State::Emptying(Box::new(old.take_apart()));
        Progress::Exchanged(trees)
    }

    fn drain(&self) {
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
    }
}

fn refused(what: &str, error: io::Error) -> Progress {
    Progress::Refused(vec![Error::io(what, error)])
}

/// Repeats a step until it says that it was the last one, or a slice of time is over; true after the last.
fn in_a_slice(mut step: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !step() {
        if begun.elapsed() >= SLICE_TIME {
            return false;
        }
    }
    true
}
