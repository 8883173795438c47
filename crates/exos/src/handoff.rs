//! Frames that came to another core than the one they are for.
//!
//! A program on several cores has a stack on each, all with the same addresses, and a share of the interface's queues each
//! ([`crate::cores`]). The device keeps the segments of a connection together by a hash, nearly; what comes to the wrong
//! core is handed on here, as [`Stack::handle_frame_among`] says. It is copied, which costs a microsecond, and is rare:
//! the counters tell how rare.
//!
//! What waits for a core is bounded ([`WAITING_MAX`]). A frame for which there is no room is lost like one on a wire.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use exos_host::{Error, Waker};
use exos_inet::{Concern, Instant, JoinedSegment, RxChecksum, Stack};

/// Frames that wait for one core. Of the longest, super-packets of 64 KiB, that is 16 MiB.
const WAITING_MAX: usize = 256;

/// A frame on its way from core to core.
struct Passed {
    content: Content,
    audience: Audience,
}

enum Content {
    Frame(Box<[u8]>, RxChecksum),
    /// What fragments came to be, each of which every core has had.
    Joined(Box<JoinedSegment>),
}

impl Content {
    fn take_in_among(&self, stack: &mut Stack, now: Instant) -> Concern {
        match self {
            Self::Frame(frame, checksum) => stack.handle_frame_among(now, frame, *checksum),
            Self::Joined(joined) => stack.handle_joined_among(now, joined),
        }
    }

    fn take_in(&self, stack: &mut Stack, now: Instant) {
        match self {
            Self::Frame(frame, checksum) => stack.handle_frame(now, frame, *checksum),
            Self::Joined(joined) => stack.handle_joined(now, joined),
        }
    }
}

#[derive(Copy, Clone)]
enum Audience {
    /// Every core gets one.
    All,
    /// It is for the core that knows it. This many are still to be asked after this one, the last of them where it came.
    One(usize),
}

/// Another core.
#[derive(Clone)]
struct Peer {
    frames: SyncSender<Passed>,
    waker: Arc<Waker>,
}

/// One core's end of what the cores hand to each other.
pub struct Handoff {
    frames: Receiver<Passed>,
    waker: Arc<Waker>,
    /// The others, from the next one on.
    others: Vec<Peer>,
    /// It may have been woken by its descriptor, which is to be read then.
    slept: bool,
    handed_on: u64,
    lost: u64,
}

impl Handoff {
    /// An end for each of this many cores.
    pub fn between(cores: usize) -> Result<Vec<Self>, Error> {
        let ends = (0..cores).map(|_| {
            let (sender, receiver) = sync_channel(WAITING_MAX);
            let waker =
                Waker::new().map_err(|e| Error::io("cannot make an event descriptor", e))?;
            let waker = Arc::new(waker);
            let peer = Peer {
                frames: sender,
                waker: Arc::clone(&waker),
            };
            Ok((receiver, waker, peer))
        });
        let ends: Vec<_> = ends.collect::<Result<_, Error>>()?;
        let peers: Vec<Peer> = ends.iter().map(|(_, _, peer)| peer.clone()).collect();
        let all = ends.into_iter().enumerate().map(|(n, (frames, waker, _))| {
            let others = [&peers[n + 1..], &peers[..n]].concat();
            Self {
                frames,
                waker,
                others,
                slept: false,
                handed_on: 0,
                lost: 0,
            }
        });
        Ok(all.collect())
    }

    /// Readable when a frame waits. To be asked for before each sleep.
    pub fn fd_to_sleep_on(&mut self) -> BorrowedFd<'_> {
        self.slept = true;
        self.waker.as_fd()
    }

    /// Takes in a frame that came by the link.
    pub fn take_in(&mut self, stack: &mut Stack, now: Instant, frame: &[u8], checksum: RxChecksum) {
        let content = || Content::Frame(frame.into(), checksum);
        match stack.handle_frame_among(now, frame, checksum) {
            Concern::Nobody => {}
            Concern::Another => self.ask(content(), self.others.len() + 1),
            Concern::Everybody => {
                for n in 0..self.others.len() {
                    self.pass(n, content(), Audience::All);
                }
            }
        }
    }

    /// Has the core that knows its connection take in what this one, which does not, has joined; or this one, where none does.
    pub fn ask_about(&mut self, joined: JoinedSegment) {
        self.ask(Content::Joined(Box::new(joined)), self.others.len() + 1);
    }

    /// Takes in what others have handed on, each after what `before` does; returns how many frames.
    pub fn receive(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        mut before: impl FnMut(&mut Stack),
    ) -> usize {
        if std::mem::take(&mut self.slept) {
            // Before the frames are taken: anyone who hands one on after this wakes us again.
            self.waker.clear();
        }
        let mut count = 0;
        while count < WAITING_MAX
            && let Ok(Passed { content, audience }) = self.frames.try_recv()
        {
            count += 1;
            before(stack);
            match audience {
                Audience::All => drop(content.take_in_among(stack, now)),
                Audience::One(0) => {
                    // Here it came, and all others do not know it: it is nobody's, or begins a connection.
                    if content.take_in_among(stack, now) == Concern::Another {
                        content.take_in(stack, now);
                    }
                }
                Audience::One(left) => {
                    if content.take_in_among(stack, now) == Concern::Another {
                        self.ask(content, left);
                    }
                }
            }
        }
        count
    }

    /// Asks the next of `left`, this one not counted.
    fn ask(&mut self, content: Content, left: usize) {
        self.pass(0, content, Audience::One(left - 1));
    }

    fn pass(&mut self, to: usize, content: Content, audience: Audience) {
        let peer = &self.others[to];
        match peer.frames.try_send(Passed { content, audience }) {
            Ok(()) => {
                self.handed_on += 1;
                peer.waker.wake();
            }
            Err(_) => self.lost += 1,
        }
    }

    /// Frames handed on and lost, by name.
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        [
            ("cores_frames_handed_on", self.handed_on),
            ("cores_frames_lost", self.lost),
        ]
    }
}
