//! A server that writes its segments itself, and may write them wrong: it answers what a script says, in virtual time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use exos_wire::ipv4::{self, Ipv4Header};
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use exos_wire::{SeqNumber, Sum, protocol};

use crate::raw::frames::{frame, segment_frame, segment_of};

/// The server and its port, and the clients.
pub const SERVER: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 10, 0, 1)), 80);
pub const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 10, 0, 2));

/// What it offers when nothing else is said.
const WINDOW: u16 = 60_000;
/// Where its sequence numbers begin: near their wrap.
const ISN: SeqNumber = SeqNumber(0xffff_ff00);
/// Where the checksums are in a frame: of the IP header, and of the TCP segment behind it.
const IP_CHECKSUM_AT: usize = 14 + 10;
const TCP_CHECKSUM_AT: usize = 14 + ipv4::LEN + 16;

/// A response that ends its connection.
pub const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

/// A response after which the connection goes on.
pub const GOES_ON: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// What the peer does with each segment that it hears.
pub type Script = fn(&mut Talk<'_>);

/// What is wrong with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    None,
    IpChecksum,
    TcpChecksum,
}

/// A segment from a client.
#[derive(Clone, Debug)]
pub struct Heard {
    pub flags: TcpFlags,
    pub seq: SeqNumber,
    pub data: Vec<u8>,
    /// It says what had been taken before.
    pub is_known: bool,
    /// The window is closed for it.
    pub is_refused: bool,
}

impl Heard {
    pub fn is_syn(&self) -> bool {
        self.flags.contains(TcpFlags::SYN)
    }

    pub fn is_request(&self) -> bool {
        !self.data.is_empty() && !self.is_known && !self.is_refused
    }
}

/// A client's connection, as the peer has it.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// Where the peer is.
    pub next: SeqNumber,
    /// What it expects next, and where the connection began.
    expected: SeqNumber,
    first: SeqNumber,
    /// The end of all that it was sent, taken or not.
    end: SeqNumber,
    /// It takes no data until then.
    opens: Duration,
    /// SYNs that it has heard.
    pub syns: u64,
    pub requests: u64,
}

/// What was counted on the peer's side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments heard, and those of them that said something that had been said before.
    pub heard: u64,
    pub heard_again: u64,
    pub requests: u64,
    /// Segments with data that the window was closed for.
    pub probes: u64,
    /// Whole segments said, those with a wrong sum among them.
    pub said: u64,
}

/// The peer.
pub struct Peer {
    script: Script,
    flows: BTreeMap<u16, Flow>,
    pub counts: Counts,
}

/// A segment that was heard, and what is said to it.
pub struct Talk<'a> {
    /// Time since the load's begin.
    pub now: Duration,
    pub heard: Heard,
    pub flow: &'a mut Flow,
    port: u16,
    counts: &'a mut Counts,
    /// Frames, and after how long they leave.
    out: Vec<(Duration, Vec<u8>)>,
}

impl Peer {
    pub fn new(script: Script) -> Self {
        Self {
            script,
            flows: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// A client's frame has come: what is answered, and after how long.
    pub fn hear(&mut self, now: Duration, frame: &[u8]) -> Vec<(Duration, Vec<u8>)> {
        let segment = segment_of(frame, CLIENT, SERVER.0);
        let port = segment.src_port();
        let flow = self.flows.entry(port).or_default();
        let (flags, seq) = (segment.flags(), segment.seq());
        let end = seq + segment.seq_len();
        let is_syn = flags.contains(TcpFlags::SYN);
        let is_new = is_syn && (flow.syns == 0 || seq != flow.first);
        if is_new {
            *flow = Flow {
                next: ISN,
                expected: seq,
                first: seq,
                end: seq,
                ..Flow::default()
            };
        }
        let is_again = segment.seq_len() > 0 && flow.end.gt(seq);
        let is_known = flow.expected.gt(seq);
        flow.end = flow.end.max(end);
        let is_refused = now < flow.opens && !segment.payload().is_empty();
        if is_refused {
            self.counts.probes += 1;
        } else if end.gt(flow.expected) && !flags.contains(TcpFlags::RST) {
            flow.expected = end;
        }
        let heard = Heard {
            flags,
            seq,
            data: segment.payload().to_vec(),
            is_known,
            is_refused,
        };
        flow.syns += u64::from(is_syn);
        flow.requests += u64::from(heard.is_request());
        self.counts.heard += 1;
        self.counts.heard_again += u64::from(is_again);
        self.counts.requests += u64::from(heard.is_request());
        let mut talk = Talk {
            now,
            heard,
            flow,
            port,
            counts: &mut self.counts,
            out: Vec::new(),
        };
        (self.script)(&mut talk);
        talk.out
    }
}

impl Talk<'_> {
    /// What a good server says.
    pub fn well(&mut self) {
        if self.heard.is_syn() {
            self.take(WINDOW);
        } else if self.heard.is_refused {
            self.offer(Duration::ZERO, 0);
        } else if self.heard.is_request() {
            self.answer(Duration::ZERO, OK);
        } else if self.heard.flags.contains(TcpFlags::FIN) {
            self.say(
                Duration::ZERO,
                TcpFlags::ACK,
                self.flow.next,
                "",
                Damage::None,
            );
        }
    }

    /// The SYN is taken, and a window offered.
    fn take(&mut self, window: u16) {
        let flags = TcpFlags::SYN | TcpFlags::ACK;
        self.segment(Duration::ZERO, flags, ISN, window, "", Damage::None);
        self.flow.next = ISN + 1;
    }

    /// Says this, and that it is the last.
    pub fn answer(&mut self, after: Duration, text: &str) {
        let flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN;
        self.say(after, flags, self.flow.next, text, Damage::None);
        self.flow.next += text.len() as u32 + 1;
    }

    /// Says this and goes on.
    pub fn say_some(&mut self, after: Duration, text: &str) {
        let flags = TcpFlags::ACK | TcpFlags::PSH;
        self.say(after, flags, self.flow.next, text, Damage::None);
        self.flow.next += text.len() as u32;
    }

    /// A segment as it is said.
    pub fn say(
        &mut self,
        after: Duration,
        flags: TcpFlags,
        seq: SeqNumber,
        text: &str,
        damage: Damage,
    ) {
        self.segment(after, flags, seq, WINDOW, text, damage);
    }

    /// The SYN is taken, and the window opens later.
    pub fn take_and_open(&mut self, after: Duration) {
        self.take(0);
        self.flow.opens = self.now + after;
        self.offer(after, WINDOW);
    }

    /// Acknowledges what has come, and offers this window.
    fn offer(&mut self, after: Duration, window: u16) {
        self.segment(
            after,
            TcpFlags::ACK,
            self.flow.next,
            window,
            "",
            Damage::None,
        );
    }

    /// Acknowledges what has come, and says nothing.
    pub fn acknowledge(&mut self) {
        self.offer(Duration::ZERO, WINDOW);
    }

    fn segment(
        &mut self,
        after: Duration,
        flags: TcpFlags,
        seq: SeqNumber,
        window: u16,
        text: &str,
        damage: Damage,
    ) {
        let header = TcpHeader {
            src_port: SERVER.1,
            dst_port: self.port,
            seq,
            ack: self.flow.expected,
            flags,
            window,
            urgent: 0,
        };
        let ends = (SERVER.0, CLIENT);
        let mut frame = segment_frame(ends, &header, &TcpOptions::NONE, text.bytes());
        match damage {
            Damage::None => (),
            Damage::IpChecksum => frame[IP_CHECKSUM_AT] ^= 0x40,
            Damage::TcpChecksum => frame[TCP_CHECKSUM_AT] ^= 0x40,
        }
        self.counts.said += 1;
        self.out.push((after, frame));
    }

    /// A router says that what was heard did not arrive, for this reason (RFC 792, RFC 1812 §5.2.7.1).
    pub fn unreachable(&mut self, code: u8) {
        let (IpAddr::V4(us), IpAddr::V4(peer)) = (CLIENT, SERVER.0) else {
            unreachable!("both are of IPv4")
        };
        let mut message = vec![3, code, 0, 0, 0, 0, 0, 0];
        let mut quoted = vec![0; ipv4::LEN];
        Ipv4Header {
            src: us,
            dst: peer,
            protocol: protocol::TCP,
            ttl: 60,
            tos: 0,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
        }
        .emit(60, &mut quoted);
        message.extend(quoted);
        message.extend(self.port.to_be_bytes());
        message.extend(SERVER.1.to_be_bytes());
        message.extend(self.heard.seq.0.to_be_bytes());
        let checksum = Sum::of(&message).finish();
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        let frame = frame(SERVER.0, CLIENT, protocol::ICMP, &message);
        self.out.push((Duration::ZERO, frame));
    }
}
