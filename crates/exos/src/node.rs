//! A stack on a link, and the parts of a program's loop.

mod cutting;
mod several;
pub(crate) mod syn_answers;

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use exos_inet::{Instant, Stack};
use exos_link::{Link, TxMeta};

use crate::attach::pair::Pair;
use crate::clock;
use crate::download::InKernelHandlers;
use crate::early::Early;
use crate::handoff::Handoff;
use crate::host_tables::HostTables;
use crate::requests::{self, Requests};
use crate::share::{Core, Kept, SynsPart};
use crate::via::{News, Via};
use crate::wait::Waiting;
use crate::watch::{Answers, Direction, Offer};
use cutting::{Cutting, Sent};
use exos_host::error::{Error, ErrorKind};
use syn_answers::SynAnswers;

/// Frames sent before the loop looks for arrivals again. On a veth the peer's answers are there when
/// the sending call returns, up to one for each frame: so this is well below what the fill ring
/// holds, and below what a turn takes in.
const SEND_BATCH: usize = 512;

/// The longest sleep. Nothing tells a sleeper that its interface was deleted; the link notices when it
/// is asked whether to sleep.
pub(crate) const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The sleep while the link has no room: nothing tells of chunks that come back from a device.
pub(crate) const BLOCKED_SLEEP: Duration = Duration::from_millis(1);

/// Frames that a relay takes in before the loop goes on, to the end of a batch: what it sends on is not answered by it, so that nobody
/// waits for less than all of it.
pub(crate) const RELAY_FRAMES: usize = 2 * SEND_BATCH;

/// How many frames sent in the turn before have one batch more taken in: as many acknowledgements as come for them, one for
/// every second segment.
const SENT_A_BATCH: usize = 2 * exos_link::RX_BATCH as usize;

/// Batches taken in before the loop goes on and the answers leave, so that the peer need not wait for them: one, and what
/// acknowledges what the turn before has sent.
const fn receive_batches(sent_before: usize) -> usize {
    1 + sent_before / SENT_A_BATCH
}

/// What another event loop waits for between two turns ([`Exos::prepare_sleep`]).
#[derive(Debug)]
pub struct Sleep<'a> {
    /// Descriptors to wait for until they are readable; those with `true` until they are readable or writable.
    pub fds: Vec<(BorrowedFd<'a>, bool)>,
    /// How long to wait at most.
    pub at_most: Duration,
}

/// A stack on a link, the clock, and what keeps both in place.
pub struct Exos {
    /// The protocols; the program gives its commands here.
    pub stack: Stack,
    pub(crate) link: Link,
    pub(crate) tables: Option<HostTables>,
    /// The daemon that lends the link, where one does.
    pub(crate) via: Option<Via>,
    /// Its packets for others to look at.
    pub(crate) offer: Option<Offer>,
    /// Its sockets for others to ask for.
    pub(crate) answers: Option<Answers>,
    /// Our own interface pair, for as long as we run.
    pub(crate) pair: Option<Pair>,
    /// What belongs to an interface and stays as long as we run.
    pub(crate) kept: Kept,
    /// Its place among the program's cores, where there are several.
    pub(crate) handoff: Option<Handoff>,
    /// The other cores, until they are taken.
    pub(crate) cores: Vec<Core>,
    /// What came for us before the link was there.
    pub(crate) early: Early,
    now: Instant,
    waiting: Waiting,
    /// When the link was seen to last.
    looked_around: Instant,
    pub(crate) worked: bool,
    /// Frames sent in the turn before.
    sent: usize,
    cutting: Cutting,
    /// Turns, and those of them that moved frames.
    turns: u64,
    turns_busy: u64,
    /// How long these took.
    busy: Duration,
    /// The link had no room for all that was to be sent.
    blocked: bool,
    /// Turns in which that was so.
    turns_blocked: u64,
    /// Handlers of datagrams in the kernel.
    pub(crate) in_kernel: InKernelHandlers,
    /// What answers SYNs in the kernel.
    pub(crate) syn_answers: Option<SynAnswers>,
    /// Its part of that, which the first core has made, until it listens.
    pub(crate) syns_part: Option<SynsPart>,
    /// What answers requests in the kernel.
    pub(crate) requests: Option<Requests>,
    /// Its part of that, which the first core has made, until it listens.
    pub(crate) requests_part: Option<requests::Part>,
    /// What the daemon's part counted of them, once they are answered here.
    pub(crate) requests_counted: Vec<(&'static str, u64)>,
}

impl Exos {
    /// Join a stack and a link that the caller made.
    pub fn new(stack: Stack, link: Link) -> Self {
        let whole_max = stack.config().offload.segmentation;
        Self {
            offer: Offer::new(&link),
            answers: Answers::new(&link),
            // By its other ways a frame of the stack's own costs this link less than a system call.
            cutting: Cutting::new(whole_max.filter(|_| matches!(link, Link::Xdp(_)))),
            stack,
            link,
            tables: None,
            via: None,
            pair: None,
            kept: Kept::default(),
            handoff: None,
            cores: Vec::new(),
            early: Early::default(),
            now: clock::now(),
            waiting: Waiting::default(),
            looked_around: Instant::START,
            worked: false,
            sent: 0,
            turns: 0,
            turns_busy: 0,
            busy: Duration::ZERO,
            turns_blocked: 0,
            blocked: false,
            in_kernel: InKernelHandlers::default(),
            syn_answers: None,
            syns_part: None,
            requests: None,
            requests_part: None,
            requests_counted: Vec::new(),
        }
    }

    /// The link is a part of a daemon's interface. The daemon shows others what comes by it, and what leaves past its gate.
    pub(crate) fn lent(&mut self, via: Via) {
        match &self.offer {
            Some(offer) if via.is_direct() => offer.sent_only(),
            _ => self.offer = None,
        }
        self.via = Some(via);
    }

    /// Sleeps at once when there is nothing to do: another loop of the program runs on this core.
    pub fn share_core(&mut self) {
        self.waiting = Waiting::without_spinning();
    }

    /// Sleeps at once when there is nothing to do, for as long as it is held: others of this host are waited for, who may want
    /// this core.
    pub fn hold_spins(&mut self, is_held: bool) {
        self.waiting.hold(is_held);
    }

    /// The time of this turn: taken when `receive` began.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Time in turns that moved frames, those that are over.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// The link.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Our own interface pair, where there is one.
    pub fn pair(&self) -> Option<&Pair> {
        self.pair.as_ref()
    }

    /// The daemon that lends the link, where one does.
    pub fn via(&mut self) -> Option<&mut Via> {
        self.via.as_mut()
    }

    /// The stack, and beside it the daemon that lends the link, where one does: to claim ports while connections open.
    pub fn stack_and_via(&mut self) -> (&mut Stack, Option<&mut Via>) {
        (&mut self.stack, self.via.as_mut())
    }

    /// From where to connect to `to`: by a port of ours that others do not get, where a daemon lends the
    /// link and `port` says none; `None` leaves it to the stack.
    ///
    /// # Errors
    ///
    /// No route leads there, or the daemon refuses.
    pub fn source(
        &mut self,
        to: SocketAddr,
        port: Option<u16>,
    ) -> Result<Option<SocketAddr>, Error> {
        match (port, &mut self.via) {
            (Some(port), _) => {
                let ours = self.stack.source_for(to.ip());
                let ours = ours.ok_or_else(|| {
                    Error::new(format!("no route leads to {to}")).of_kind(ErrorKind::NoRoute)
                })?;
                Ok(Some(SocketAddr::new(ours, port)))
            }
            (None, Some(via)) if !self.stack.has_address(to.ip()) => {
                via.claim_ephemeral(to).map(Some)
            }
            // Of what comes back within the stack no other program hears.
            (None, _) => Ok(None),
        }
    }

    /// What has happened to the link that the daemon lends. After [`News::Revoked`] with
    /// [`Lost::Link`](crate::via::Lost::Link) the program should end.
    pub fn poll_news(&mut self) -> Option<News> {
        self.via.as_mut()?.poll_news()
    }

    /// Leave with the daemon, where one lends the link, what must be answered for after our end: the
    /// connections in TIME-WAIT. To be called last.
    pub fn leave(&mut self) {
        if let Some(via) = &mut self.via {
            via.leave(clock::now(), &mut self.stack);
        }
    }

    /// Take in the frames that are there, up to a bound, and see to what is due; returns how many
    /// frames.
    pub fn receive(&mut self) -> usize {
        let now = self.begin_turn();
        let stack = &mut self.stack;
        stack.tcp.give_room_back();
        let mut offer = self.offer.as_mut().filter(|offer| offer.is_watched());
        let mut show = |frame: &[u8]| {
            if let Some(offer) = &mut offer {
                offer.copy(Direction::In, frame, &[]);
            }
        };
        let mut requests = self.requests.as_mut();
        // A frame may be of a connection that was handed up with it, and be the last of fragments.
        let mut take_on = |stack: &mut Stack| {
            if let Some(requests) = &mut requests {
                requests.take_on(now, stack);
            }
        };
        let mut count = match &mut self.handoff {
            Some(handoff) => handoff.receive(stack, now, &mut take_on),
            None => 0,
        };
        for _ in 0..receive_batches(self.sent) {
            let batch = match &mut self.handoff {
                None => self.link.receive(|frame, meta| {
                    show(frame);
                    take_on(stack);
                    stack.handle_frame(now, frame, meta.checksum);
                }),
                Some(handoff) => self.link.receive(|frame, meta| {
                    show(frame);
                    take_on(stack);
                    handoff.take_in(stack, now, frame, meta.checksum);
                }),
            };
            count += batch;
            if batch < exos_link::RX_BATCH_MIN as usize {
                break;
            }
        }
        take_on(stack);
        if let (Some(handoff), Some(requests)) = (&mut self.handoff, &mut self.requests) {
            let asked_about = requests.take_asked_about();
            let ask = |it| handoff.ask_about(now, it);
            asked_about.into_iter().for_each(ask);
        }
        // What is due is news too: the program hears of it in this turn.
        self.stack.handle_timeout(self.now);
        self.worked = count > 0;
        count
    }

    /// The turn before is over, and this one's time taken.
    pub(crate) fn begin_turn(&mut self) -> Instant {
        let now = clock::now();
        if self.worked {
            self.busy += now - self.now;
        }
        self.now = now;
        if let Some(offer) = &mut self.offer {
            offer.look(now);
        }
        if let Some(answers) = &mut self.answers {
            answers.look(now, &self.stack);
        }
        now
    }

    /// Send what there is to send. Errors are those of an interface that has gone.
    pub fn send(&mut self) -> Result<usize, Error> {
        if let Some(tables) = &mut self.tables {
            tables.serve(self.now, &mut self.stack)?;
        }
        if let Some(via) = &mut self.via {
            via.serve(self.now, &mut self.stack);
        }
        let began = self.cutting.is_open().then(|| {
            let has_batches = self.cutting.matters() && self.link.has_batches();
            self.stack
                .set_segmentation(self.cutting.choose(has_batches));
            clock::now()
        });
        let mut offer = self.offer.as_mut().filter(|offer| offer.is_watched());
        self.stack
            .set_datagram_segmentation(self.link.cuts_datagrams());
        let mut sent = 0;
        let mut all = Sent::nothing(self.stack.config().offload.segmentation.is_some());
        self.blocked = false;
        while sent < SEND_BATCH {
            let room = self.link.room();
            if room == 0 {
                self.blocked = true;
                self.turns_blocked += 1;
                break;
            }
            let room = room.min(SEND_BATCH - sent);
            let Some(t) = self.stack.poll_transmit_within(self.now, room) else {
                break;
            };
            let meta = TxMeta {
                checksum: t.checksum,
                segment_size: t.segment_size,
                ipv6: t.ipv6,
                datagrams: t.datagrams,
                header_len: t.head.len() as u16,
            };
            // There is room: what the link does not take all the same it has counted, and TCP repairs.
            let queued = self.link.transmit(t.head, t.body.parts(), meta);
            if let Some(offer) = &mut offer
                && queued
            {
                offer.copy(Direction::Out, t.head, t.body.parts());
            }
            // A super-packet counts for as many as the wire will see.
            let data: usize = t.body.parts().iter().map(|part| part.len()).sum();
            sent += t
                .segment_size
                .map_or(1, |size| data.div_ceil(usize::from(size)));
            all.add(t.head.len() + data, t.segment_size.is_some(), queued);
        }
        self.worked |= sent > 0;
        self.sent = sent;
        self.link.flush().map_err(|e| {
            Error::io("cannot send", e)
                .mend("the interface is down or gone; bring it up and start again")
        })?;
        if let Some(began) = began.filter(|_| sent > 0) {
            self.cutting.learn(all, clock::now() - began);
        }
        Ok(sent)
    }

    /// Wait for frames, for one of `others` to be readable, or for the time `until` or the
    /// stack's next deadline, whichever comes first. Returns at once after a turn that moved
    /// frames, and for a while after it: see [`crate::wait`].
    pub fn wait(&mut self, until: Option<Instant>, others: &[BorrowedFd<'_>]) -> Result<(), Error> {
        Self::wait_for_any(std::slice::from_mut(self), until, others)
    }

    /// For a program that waits in an event loop of its own (epoll, mio, tokio) in place of [`wait`](Self::wait): what to
    /// wait for before the next turn. `None` says to begin the next turn at once.
    pub fn prepare_sleep(&mut self) -> Option<Sleep<'_>> {
        if self.worked {
            self.waiting.worked();
            return None;
        }
        let now = clock::now();
        let deadline = self.deadline(now);
        let is_due = deadline.is_some_and(|at| at <= now);
        if is_due || self.waiting.should_spin(now) || !self.link.prepare_wait() {
            return None;
        }
        self.waiting.sleeps += 1;
        let latest = self.latest(now);
        let at_most = deadline.map_or(latest, |at| at.min(latest)) - now;
        let mut fds = self.link.fds();
        let own = descriptors(self.tables.as_ref(), self.via.as_ref());
        let other_cores = self.handoff.as_mut().map(Handoff::fd_to_sleep_on);
        fds.extend(own.chain(other_cores).map(|fd| (fd, false)));
        Some(Sleep { fds, at_most })
    }

    /// When the stack or the daemon's client has something to do.
    fn deadline(&self, now: Instant) -> Option<Instant> {
        let daemon = self.via.as_ref().and_then(|via| via.poll_timeout(now));
        self.stack.poll_timeout(now).into_iter().chain(daemon).min()
    }

    /// The end of the longest sleep from now on.
    fn latest(&self, now: Instant) -> Instant {
        let is_asked = self.answers.as_ref().is_some_and(|a| a.expects_more(now));
        now + if self.blocked || is_asked {
            BLOCKED_SLEEP
        } else {
            SLEEP_MAX
        }
    }

    /// In place of [`wait`](Self::wait), for a program that has a core to itself and that loses more by waking than by
    /// looking again: returns at once. It waits only while the link has no room, or has not sent all.
    pub fn look_on(
        &mut self,
        until: Option<Instant>,
        others: &[BorrowedFd<'_>],
    ) -> Result<(), Error> {
        Self::look_on_any(std::slice::from_mut(self), until, others)
    }

    /// Every counter with its name: the link's, then the stack's.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let requests = match &self.requests {
            Some(requests) => requests.counters(),
            None => self.requests_counted.clone(),
        };
        let link = self.link.counters().into_iter().chain(requests);
        let link = link.map(|(name, value)| (format!("link_{name}"), value));
        let turns = [
            ("turns", self.turns),
            ("turns_busy", self.turns_busy),
            ("turns_blocked", self.turns_blocked),
            ("busy_micros", self.busy.as_micros() as u64),
            ("sleeps", self.waiting.sleeps),
        ];
        let stack = self.stack.counters().list().into_iter();
        let handoff = self.handoff.iter().flat_map(Handoff::counters);
        let others = stack.chain(handoff).chain(self.cutting.counters());
        let others = others.chain(turns);
        let others = others.map(|(name, value)| (name.to_owned(), value));
        link.chain(others).collect()
    }
}

/// Descriptors beside the link's that are readable when there is something to do.
fn descriptors<'a>(
    tables: Option<&'a HostTables>,
    via: Option<&'a Via>,
) -> impl Iterator<Item = BorrowedFd<'a>> {
    let tables = tables.map(HostTables::fd);
    tables.into_iter().chain(via.and_then(Via::fd))
}

#[cfg(test)]
mod tests;
