//! One client's TCP, without I/O: the few states that a visit goes through.
//!
//! ```text
//!  Idle ── open ──> Connecting ── SYN-ACK ──> Ready ── ask ──> Asked ── whole answer ──> Ready
//!                                                                └── whole answer and FIN ──> Idle
//! ```
//!
//! - The ACK that ends the handshake is the segment with the request.
//! - With a connection for each request the server finishes; our acknowledgement carries our FIN, and the tuple is given
//!   up. What the server still sends is answered by [`closing_reply`], which needs no state.
//! - What comes before its turn is kept ([`early`](super::early)), and what is next is asked for at once. Slow readers, whose
//!   window is what they are about, throw it away.
//! - What is not answered is sent again after [`RESEND_NS`], later each time.

use super::early::EarlySegments;
use super::response::{Expected, Fault, Progress};
use super::segment::Segment;
use super::tuples::Tuple;
use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

const ACK: TcpFlags = TcpFlags::ACK;
const FIN_ACK: TcpFlags = TcpFlags(TcpFlags::FIN.0 | TcpFlags::ACK.0);

/// The least time after which Linux sends data again, and we.
const RESEND_NS: u64 = 200_000_000;
/// The first time for a SYN (RFC 6298 §2.1).
const SYN_RESEND_NS: u64 = 1_000_000_000;
/// After this many times a server is taken not to answer.
const TRIES_MAX: u32 = 4;

/// Where a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// There is none.
    Idle,
    /// A SYN is under way.
    Connecting,
    /// It stands, and nothing was asked.
    Ready,
    /// A request is under way, or its answer.
    Asked,
}

/// A segment to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reply {
    pub tuple: Tuple,
    pub seq: SeqNumber,
    pub ack: SeqNumber,
    pub flags: TcpFlags,
    pub window: u16,
    pub echo: u32,
    /// The request is its data.
    pub request: bool,
}

/// What became of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News {
    /// Nothing that its user would want to know.
    None,
    /// It stands.
    Open,
    /// The answer is whole; with a connection for each request this one is over.
    Answered,
    /// The server has finished it, between requests.
    Closed,
    /// The server has reset it.
    Reset,
    /// The answer is not what was asked for.
    Wrong(Fault),
    /// The server has not answered for long.
    TimedOut,
}

/// A connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub state: State,
    pub tuple: Tuple,
    /// When the request was meant to begin.
    pub begun_ns: u64,
    /// What we can take now; constant for who takes everything at once.
    pub window: u16,
    /// Takes what comes only as fast as the window is opened.
    slow: bool,
    /// Finish with the answer.
    once: bool,
    snd_nxt: SeqNumber,
    rcv_nxt: SeqNumber,
    echo: u32,
    progress: Progress,
    whole: bool,
    early: EarlySegments,
    /// Segments of an answer that is not whole, not acknowledged yet.
    owed: u32,
    resend_ns: u64,
    tries: u32,
}

impl Connection {
    pub fn new(window: u16, slow: bool, once: bool) -> Self {
        Self {
            state: State::Idle,
            tuple: Tuple(0),
            begun_ns: 0,
            window,
            slow,
            once,
            snd_nxt: SeqNumber(0),
            rcv_nxt: SeqNumber(0),
            echo: 0,
            progress: Progress::default(),
            whole: false,
            early: EarlySegments::default(),
            owed: 0,
            resend_ns: u64::MAX,
            tries: 0,
        }
    }

    // Commands.

    /// Connects from a tuple, with an initial sequence number.
    pub fn open(&mut self, tuple: Tuple, initial: u32, now_ns: u64) -> Reply {
        self.state = State::Connecting;
        self.tuple = tuple;
        self.snd_nxt = SeqNumber(initial.wrapping_add(1));
        self.rcv_nxt = SeqNumber(0);
        self.echo = 0;
        (self.owed, self.tries) = (0, 0);
        self.resend_ns = now_ns + SYN_RESEND_NS;
        self.syn()
    }

    /// Asks; the request takes this many bytes.
    pub fn ask(&mut self, request_len: usize, now_ns: u64) -> Reply {
        let reply = Reply {
            request: true,
            ..self.reply(ACK)
        };
        self.state = State::Asked;
        self.snd_nxt = SeqNumber(self.snd_nxt.0.wrapping_add(request_len as u32));
        (self.progress, self.whole) = (Progress::default(), false);
        (self.owed, self.tries) = (0, 0);
        self.resend_ns = now_ns + RESEND_NS;
        reply
    }

    /// Gives it up.
    pub fn forget(&mut self) {
        self.state = State::Idle;
        self.early.clear();
        self.resend_ns = u64::MAX;
    }

    /// Resets it, where the server has one: the client ends. Of one that was not answered yet no server has more than half, or
    /// a cookie: a reset of that would be of no connection that it knows, and asked for on each of its cores.
    pub fn abort(&mut self) -> Option<Reply> {
        let reset = self.reply(TcpFlags(TcpFlags::RST.0 | ACK.0));
        let stands = matches!(self.state, State::Ready | State::Asked);
        self.forget();
        stands.then_some(reset)
    }

    /// Opens the window of a slow reader by this many bytes, and says so.
    pub fn read(&mut self, bytes: u16, most: u16) -> Reply {
        self.window = self.window.saturating_add(bytes).min(most);
        self.reply(ACK)
    }

    /// Segments of the answer that were not acknowledged yet.
    pub fn owes(&self) -> u32 {
        self.owed
    }

    /// An acknowledgement of what has come, where one is owed for this many segments.
    pub fn acknowledge(&mut self, least: u32) -> Option<Reply> {
        if self.owed < least {
            return None;
        }
        self.owed = 0;
        Some(self.reply(ACK))
    }

    // What arrives.

    /// Takes in a segment of the server.
    pub fn handle(
        &mut self,
        segment: Segment<'_>,
        expected: &mut Expected,
        now_ns: u64,
    ) -> (News, Option<Reply>) {
        match self.state {
            State::Idle => (News::None, None),
            State::Connecting => self.handle_connecting(segment),
            State::Ready | State::Asked => self.handle_open_and_early(segment, expected, now_ns),
        }
    }

    /// Takes in a segment, and then those that came before it and whose turn it is now.
    fn handle_open_and_early(
        &mut self,
        segment: Segment<'_>,
        expected: &mut Expected,
        now_ns: u64,
    ) -> (News, Option<Reply>) {
        let (mut news, mut reply) = self.handle_open(segment, expected, now_ns);
        while news == News::None
            && let Some(early) = self.early.take(self.rcv_nxt)
        {
            let later = self.handle_open(early.segment(), expected, now_ns);
            (news, reply) = (later.0, later.1.or(reply));
        }
        (news, reply)
    }

    /// RFC 9293 §3.10.7.3.
    fn handle_connecting(&mut self, segment: Segment<'_>) -> (News, Option<Reply>) {
        let (syn, rst) = (TcpFlags::SYN.0, TcpFlags::RST.0);
        let flags = segment.flags.0;
        if flags & ACK.0 == 0 || segment.ack != self.snd_nxt {
            // First: an acknowledgement of something else is of an older connection, and is reset.
            let reset = Reply {
                seq: segment.ack,
                flags: TcpFlags::RST,
                ..self.reply(ACK)
            };
            return (News::None, (flags & rst == 0).then_some(reset));
        }
        if flags & rst != 0 {
            self.forget();
            return (News::Reset, None);
        }
        if flags & syn == 0 {
            return (News::None, None);
        }
        self.rcv_nxt = SeqNumber(segment.seq.0.wrapping_add(1));
        self.echo = segment.timestamp;
        self.state = State::Ready;
        self.resend_ns = u64::MAX;
        (News::Open, None)
    }

    fn handle_open(
        &mut self,
        segment: Segment<'_>,
        expected: &mut Expected,
        now_ns: u64,
    ) -> (News, Option<Reply>) {
        if segment.flags.0 & TcpFlags::RST.0 != 0 {
            // RFC 5961 §3.2: only the reset that is next in order counts.
            if segment.seq != self.rcv_nxt {
                return (News::None, Some(self.reply(ACK)));
            }
            self.forget();
            return (News::Reset, None);
        }
        let ahead = self.rcv_nxt.distance(segment.seq);
        let data = usize::try_from(ahead).ok();
        let Some(data) = data.and_then(|known| segment.data.get(known..)) else {
            // Something before it is missing, or it is a repetition; its FIN too, if it has one.
            if self.rcv_nxt.lt(segment.seq) && !self.slow {
                self.early.keep(self.rcv_nxt, self.window, segment);
            }
            return (News::None, Some(self.reply(ACK)));
        };
        if segment.flags.0 & TcpFlags::SYN.0 != 0 || (self.slow && data.len() > self.window.into())
        {
            return (News::None, Some(self.reply(ACK)));
        }
        if ahead == 0 || !data.is_empty() {
            self.echo = segment.timestamp;
        }
        if !data.is_empty()
            && let Err(fault) = self.take(data, expected, now_ns)
        {
            self.forget();
            return (News::Wrong(fault), None);
        }
        self.after(
            segment.flags.0 & TcpFlags::FIN.0 != 0,
            segment.data.is_empty(),
        )
    }

    fn take(&mut self, data: &[u8], expected: &mut Expected, now_ns: u64) -> Result<(), Fault> {
        if self.state != State::Asked || self.whole {
            return Err(Fault::Content);
        }
        self.whole = expected.take(&mut self.progress, data)?;
        self.rcv_nxt = SeqNumber(self.rcv_nxt.0.wrapping_add(data.len() as u32));
        self.owed += 1;
        self.tries = 0;
        if self.slow {
            self.window -= data.len() as u16;
            self.resend_ns = u64::MAX;
        } else {
            self.resend_ns = now_ns + RESEND_NS;
        }
        Ok(())
    }

    /// What follows of what has come by now.
    fn after(&mut self, fin: bool, empty: bool) -> (News, Option<Reply>) {
        if fin {
            return self.finish();
        }
        if self.whole && !self.once && self.state == State::Asked {
            self.state = State::Ready;
            self.resend_ns = u64::MAX;
            return (News::Answered, None);
        }
        // A window probe has no data beyond what is known: it wants an answer.
        let probe = self.slow && empty && self.window == 0;
        (News::None, probe.then(|| self.reply(ACK)))
    }

    /// The server has finished: so do we, with one segment.
    fn finish(&mut self) -> (News, Option<Reply>) {
        self.rcv_nxt = SeqNumber(self.rcv_nxt.0.wrapping_add(1));
        let reply = self.reply(FIN_ACK);
        let news = match (self.state, self.whole) {
            (State::Asked, true) => News::Answered,
            (State::Asked, false) => News::Wrong(Fault::Content),
            _ => News::Closed,
        };
        self.forget();
        (news, Some(reply))
    }

    /// Sends again what was not answered, when it is time; the request takes this many bytes.
    pub fn handle_timeout(
        &mut self,
        request_len: usize,
        now_ns: u64,
    ) -> Option<(News, Option<Reply>)> {
        if now_ns < self.resend_ns {
            return None;
        }
        self.tries += 1;
        if self.tries > TRIES_MAX {
            self.forget();
            return Some((News::TimedOut, None));
        }
        if self.state == State::Connecting {
            self.resend_ns = now_ns + (SYN_RESEND_NS << self.tries);
            return Some((News::None, Some(self.syn())));
        }
        self.resend_ns = now_ns + (RESEND_NS << self.tries);
        let asked = self.snd_nxt.0.wrapping_sub(request_len as u32);
        let again = Reply {
            seq: SeqNumber(asked),
            request: true,
            ..self.reply(ACK)
        };
        Some((News::None, Some(again)))
    }

    // What leaves.

    fn syn(&self) -> Reply {
        Reply {
            seq: SeqNumber(self.snd_nxt.0.wrapping_sub(1)),
            ..self.reply(TcpFlags::SYN)
        }
    }

    fn reply(&self, flags: TcpFlags) -> Reply {
        Reply {
            tuple: self.tuple,
            seq: self.snd_nxt,
            ack: self.rcv_nxt,
            flags,
            window: self.window,
            echo: self.echo,
            request: false,
        }
    }
}

/// The answer to a segment for a tuple that was given up. To a FIN it is ours: the server has not heard it, or would not
/// send its own again. Data of a connection that was given up early is reset.
pub(super) fn closing_reply(tuple: Tuple, segment: Segment<'_>) -> Option<Reply> {
    let has = |flag: TcpFlags| segment.flags.0 & flag.0 != 0;
    let next = segment.seq.0.wrapping_add(segment.data.len() as u32 + 1);
    let reply = |flags| Reply {
        tuple,
        seq: segment.ack,
        ack: SeqNumber(next),
        flags,
        window: 0,
        echo: segment.timestamp,
        request: false,
    };
    if has(TcpFlags::RST) {
        None
    } else if has(TcpFlags::FIN) {
        Some(reply(FIN_ACK))
    } else {
        (!segment.data.is_empty()).then(|| reply(TcpFlags::RST))
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
