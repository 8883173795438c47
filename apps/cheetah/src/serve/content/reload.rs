//! SIGHUP: the configuration and its documents once more, while everybody is served what was there.
//!
//! ```text
//!   SIGHUP ──> a thread: read, check, walk, sum ──whole──> on each core: fill tables ──> exchange ──> empty the old
//! ```
//!
//! All that takes long is done on a thread, which hands over nothing before it is whole. What each core has to do, since
//! buffers belong to its thread, is [`exchange`](super::exchange). Until its exchange every request is answered by the old
//! tables, from then on by the new ones; responses under way, and connections, know nothing of it.
//!
//! A configuration that cannot stand, or whose directories or error pages are not there, is refused with all that is
//! wrong with it, and nothing changes. Port, link, TCP, log and status page are what they were
//! at the start.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use exos::Error;
use exos_host::{Waker, affinity};

use super::sites::Fresh;
use crate::site::Tree;

/// Everything that there is to be served, and what tells of its changes; or all that stands in the way.
pub type Outcome = Result<(Fresh, Vec<Tree>), Vec<Error>>;

/// What reads it, on any thread.
pub type Read = Arc<dyn Fn() -> Outcome + Send + Sync>;

/// The reading that is under way, if one is.
pub struct Reload {
    read: Read,
    /// Where the thread may run, for the loop may have a core to itself.
    cores: Vec<usize>,
    reading: Option<Receiver<Outcome>>,
    /// Asked for, and not begun.
    wanted: bool,
    /// It is woken when the thread has read.
    waker: Arc<Waker>,
}

impl Reload {
    /// No reload; `read` is what one reads, on a thread that may run on these cores.
    ///
    /// # Errors
    ///
    /// When there is no descriptor to be had.
    pub fn new(read: Read, cores: Vec<usize>) -> Result<Reload, Error> {
        let waker =
            Waker::new().map_err(|e| Error::io("cannot make a descriptor for reloads", e))?;
        Ok(Reload {
            read,
            cores,
            reading: None,
            wanted: false,
            waker: Arc::new(waker),
        })
    }

    /// Asks for a reload. While one is under way, for another after it: what it has read may be old.
    pub fn request(&mut self) {
        self.wanted = true;
    }

    /// Readable when there is something to do.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// True when the next turn has something to do.
    pub fn is_busy(&self) -> bool {
        self.wanted && self.reading.is_none()
    }

    /// Does what there is to do between two turns; a comparison when there is nothing. Gives what was read, once.
    pub fn turn(&mut self) -> Option<Outcome> {
        match &self.reading {
            None if self.wanted => {
                self.wanted = false;
                self.begin().err().map(Err)
            }
            None => {
                // The thread may have woken us behind what was taken.
                self.waker.clear();
                None
            }
            Some(receiver) => {
                let outcome = match receiver.try_recv() {
                    Err(TryRecvError::Empty) => return None,
                    Ok(outcome) => outcome,
                    Err(TryRecvError::Disconnected) => {
                        let gone = io::Error::from(io::ErrorKind::Other);
                        Err(vec![Error::io("cannot read the sites", gone)])
                    }
                };
                self.reading = None;
                self.waker.clear();
                Some(outcome)
            }
        }
    }

    fn begin(&mut self) -> Result<(), Vec<Error>> {
        let (sender, receiver) = sync_channel(1);
        let (read, waker) = (self.read.clone(), self.waker.clone());
        let thread = affinity::spawn("reload", &self.cores, move || {
            // Nobody may be there to hear it: the program has ended.
            let _ = sender.send(read());
            waker.wake();
        });
        thread.map_err(|e| vec![Error::io("cannot start a thread", e)])?;
        self.reading = Some(receiver);
        Ok(())
    }
}
