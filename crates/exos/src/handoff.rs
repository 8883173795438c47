//! Frames that came to another core than the one they are for.
//!
//! A program on several cores has a stack on each, all with the same addresses, and a share of the interface's queues each
//! ([`crate::cores`]). The device keeps the segments of a connection together by a hash, nearly; what comes to the wrong
//! core is handed on here, as [`Stack::handle_frame_among`] says. It is copied, which costs a microsecond, and is rare, but for
//! datagrams of clients that have moved to other addresses (RFC 9000 §9): the counters tell how rare.
//!
//! What waits for a core is bounded ([`WAITING_MAX`]), and of that what datagrams may be ([`DATAGRAMS_WAITING_MAX`]): clients choose
//! how many of these come to the wrong core, and they leave room for segments and for what neighbours say. A frame for which there is
//! no room is lost like one on a wire.
//!
//! Copies of a segment that begins a connection may come to several cores before any of them has begun it: that is left to one
//! (`beginnings.rs`).

mod beginnings;

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use exos_host::{Error, Waker};
use exos_inet::tcp::Flow;
use exos_inet::{Concern, Instant, JoinedSegment, RxChecksum, Stack};
use exos_wire::ethernet::{self, VLAN_TAG_LEN};
use exos_wire::protocol;

use self::beginnings::Beginnings;

/// Frames that wait for one core. Of the longest, super-packets of 64 KiB, that is 16 MiB.
const WAITING_MAX: usize = 256;

/// Of these, datagrams of UDP. As much is left for all else.
const DATAGRAMS_WAITING_MAX: usize = WAITING_MAX / 2;

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
    /// A datagram of UDP, whole.
    fn is_datagram(&self) -> bool {
        match self {
            Self::Frame(frame, _) => is_udp(frame),
            Self::Joined(_) => false,
        }
    }

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
    /// It is for the core that knows it.
    One(Question),
}

/// On its way from each core to the next, to the one where it came.
#[derive(Copy, Clone)]
struct Question {
    /// This many are still to be asked after this one, the last of them where it came.
    left: usize,
    /// The connection that it begins there, if none knows it.
    begins: Option<Flow>,
}

/// Another core.
#[derive(Clone)]
struct Peer {
    frames: SyncSender<Passed>,
    /// How many of those that wait for it are datagrams.
    datagrams: Arc<AtomicUsize>,
    waker: Arc<Waker>,
}

impl Peer {
    /// False where there is no room.
    fn take(&self, passed: Passed) -> bool {
        if !passed.content.is_datagram() {
            return self.frames.try_send(passed).is_ok();
        }
        // Counted first: it may be taken in, and counted as gone, as soon as it is there.
        let has_room = self.datagrams.fetch_add(1, Relaxed) < DATAGRAMS_WAITING_MAX;
        let is_taken = has_room && self.frames.try_send(passed).is_ok();
        if !is_taken {
            self.datagrams.fetch_sub(1, Relaxed);
        }
        is_taken
    }
}

/// One core's end of what the cores hand to each other.
pub struct Handoff {
    frames: Receiver<Passed>,
    /// How many of them are datagrams.
    datagrams: Arc<AtomicUsize>,
    waker: Arc<Waker>,
    /// The others, from the next one on.
    others: Vec<Peer>,
    beginnings: Beginnings<Content>,
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
                datagrams: Arc::default(),
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
                datagrams: Arc::clone(&peers[n].datagrams),
                waker,
                others,
                beginnings: Beginnings::of_core(n, cores),
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
            Concern::Another => self.ask(content()),
            Concern::Begins(flow) => self.begin(now, flow, content()),
            Concern::Everybody => {
                for n in 0..self.others.len() {
                    self.pass(n, content(), Audience::All);
                }
            }
        }
    }

    /// Has the core that knows its connection take in what this one, which does not, has joined; or this one, where none does.
    pub fn ask_about(&mut self, now: Instant, joined: JoinedSegment) {
        self.begin(now, joined.flow(), Content::Joined(Box::new(joined)));
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
        self.lost += self.beginnings.give_up(now);
        let mut count = 0;
        while count < WAITING_MAX
            && let Ok(Passed { content, audience }) = self.frames.try_recv()
        {
            count += 1;
            if content.is_datagram() {
                self.datagrams.fetch_sub(1, Relaxed);
            }
            before(stack);
            match audience {
                Audience::All => drop(content.take_in_among(stack, now)),
                Audience::One(Question { left: 0, begins }) => {
                    self.take_in_at_last(stack, now, content, begins)
                }
                Audience::One(question) => match content.take_in_among(stack, now) {
                    Concern::Another => drop(self.pass_on(content, question)),
                    Concern::Begins(flow) => self.meet(flow, content, question),
                    Concern::Nobody | Concern::Everybody => {}
                },
            }
        }
        count
    }

    /// Here it came, and all others do not know it: it is nobody's, or begins a connection, of which others' copies may have waited.
    fn take_in_at_last(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        content: Content,
        begins: Option<Flow>,
    ) {
        let copies = begins.map(|flow| self.beginnings.end(&flow));
        for content in [content].into_iter().chain(copies.into_iter().flatten()) {
            let concern = content.take_in_among(stack, now);
            if matches!(concern, Concern::Another | Concern::Begins(_)) {
                content.take_in(stack, now);
            }
        }
    }

    /// Asks the others about what begins a connection here if none of them has it.
    fn begin(&mut self, now: Instant, flow: Flow, content: Content) {
        let is_asked = self.beginnings.is_asked(&flow);
        if !self.beginnings.begin(now, flow) {
            self.lost += 1;
            return;
        }
        let (left, begins) = (self.others.len() + 1, Some(flow));
        if !self.pass_on(content, Question { left, begins }) && !is_asked {
            self.beginnings.end(&flow);
        }
    }

    /// What begins a connection if none has it has come from another core: it goes on, unless this one begins that.
    fn meet(&mut self, flow: Flow, content: Content, question: Question) {
        let Question { left, begins } = question;
        let goes_on = begins.is_some() && self.beginnings.is_of_an_earlier_core(left);
        if self.beginnings.is_asked(&flow) && !goes_on {
            self.lost += u64::from(!self.beginnings.keep(&flow, content));
            return;
        }
        self.pass_on(content, question);
        let behind = self.beginnings.end(&flow);
        behind.into_iter().for_each(|copy| self.ask(copy));
    }

    /// Asks all others.
    fn ask(&mut self, content: Content) {
        let (left, begins) = (self.others.len() + 1, None);
        self.pass_on(content, Question { left, begins });
    }

    /// Asks the next one. False where there is no room.
    fn pass_on(&mut self, content: Content, question: Question) -> bool {
        let left = question.left - 1;
        self.pass(0, content, Audience::One(Question { left, ..question }))
    }

    fn pass(&mut self, to: usize, content: Content, audience: Audience) -> bool {
        let peer = &self.others[to];
        let is_passed = peer.take(Passed { content, audience });
        if is_passed {
            self.handed_on += 1;
            peer.waker.wake();
        } else {
            self.lost += 1;
        }
        is_passed
    }

    /// Frames handed on and lost, by name.
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        [
            ("cores_frames_handed_on", self.handed_on),
            ("cores_frames_lost", self.lost),
        ]
    }
}

/// A frame of UDP, without extension headers of IPv6: those are few, and count as others.
fn is_udp(frame: &[u8]) -> bool {
    let tag_len = match frame.get(12..14) {
        Some([0x81, 0]) => VLAN_TAG_LEN,
        _ => 0,
    };
    let ethertype = frame.get(12 + tag_len..ethernet::LEN + tag_len);
    let at = match ethertype {
        Some([8, 0]) => 9,
        Some([0x86, 0xdd]) => 6,
        _ => return false,
    };
    frame.get(ethernet::LEN + tag_len + at) == Some(&protocol::UDP)
}

#[cfg(test)]
mod tests {
    use exos_inet::Config;
    use exos_wire::Mac;

    use super::*;

    fn frame(protocol: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[14 + 9] = protocol;
        frame
    }

    #[test]
    fn datagrams_are_told_from_others() {
        let (udp, tcp) = (frame(protocol::UDP), frame(protocol::TCP));
        assert!(is_udp(&udp) && !is_udp(&tcp) && !is_udp(&udp[..23]) && !is_udp(&[]));
        let tagged = [&udp[..12], &[0x81, 0, 0, 7], &udp[12..]].concat();
        assert!(is_udp(&tagged));
        let mut of_ipv6 = vec![0; 60];
        of_ipv6[12..14].copy_from_slice(&[0x86, 0xdd]);
        of_ipv6[14 + 6] = protocol::UDP;
        assert!(is_udp(&of_ipv6));
    }

    /// However many datagrams come to the wrong core, there is room for others; and for datagrams again when those are taken in.
    #[test]
    fn datagrams_leave_room_for_others() {
        let mut ends = Handoff::between(2).unwrap();
        let mut stack = Stack::new(Config::new(Mac([2; 6]), 1500), 1, Instant::START).unwrap();
        for _ in 0..2 {
            let lost = ends[0].lost;
            let mut pass = |protocol, count| {
                for _ in 0..count {
                    let content = Content::Frame(frame(protocol).into(), RxChecksum::Unknown);
                    ends[0].pass(0, content, Audience::All);
                }
                ends[0].lost - lost
            };
            assert_eq!(pass(protocol::UDP, DATAGRAMS_WAITING_MAX), 0);
            assert_eq!(pass(protocol::UDP, 1000), 1000);
            let room = WAITING_MAX - DATAGRAMS_WAITING_MAX;
            assert_eq!(pass(protocol::TCP, room), 1000);
            assert_eq!(pass(protocol::TCP, 1), 1001);
            let taken = ends[1].receive(&mut stack, Instant::START, |_| {});
            assert_eq!(taken, WAITING_MAX);
        }
    }
}
