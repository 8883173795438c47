//! One connection as a script sees it: its ends, where its numbers begin, what its program heard.

use std::net::{IpAddr, SocketAddr};

use exos_inet::tcp::{ConnectionId, EventSet, Reason};

use super::segment::{ACK, Opt, SYN, Spec, flags_text};
use super::value::Value;
use super::wire::Raw;

/// What the peer's sequence numbers begin with, unless a script says otherwise.
const ISN_PEER: u32 = 1_000_000;

/// The byte of a stream at a place. Each direction and connection has a stream of its own.
pub fn content(stream: usize, at: i64) -> u8 {
    ((at as u64).wrapping_mul(2_654_435_761) >> 16) as u8 ^ (stream as u8).wrapping_mul(37)
}

/// A connection.
pub struct Flow {
    pub number: usize,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub id: Option<ConnectionId>,
    /// The sequence number of our SYN, once seen.
    pub ours: Option<u32>,
    pub theirs: u32,
    /// Our first timestamp.
    pub clock: Option<u32>,
    /// The peer's window field in what it sent last.
    pub window: i64,
    /// Events not asked for yet.
    pub heard: EventSet,
    pub closed: Option<Reason>,
    /// Bytes that the program has queued, and taken.
    pub sent: i64,
    pub read: i64,
    /// What was left to read when the connection ended.
    pub leftover: Vec<u8>,
}

impl Flow {
    /// The numbered connection; we listen at 80, and open from 5000.
    pub fn new(number: usize, us: IpAddr, peer: IpAddr, active: bool, isn: Option<i64>) -> Self {
        let n = number as u16 - 1;
        let (local, remote) = if active {
            (5000 + n, 80)
        } else {
            (80, 4000 + n)
        };
        Self {
            number,
            local: SocketAddr::new(us, local),
            remote: SocketAddr::new(peer, remote),
            id: None,
            ours: None,
            theirs: isn.map_or(ISN_PEER, |isn| isn as u32),
            clock: None,
            window: 65_535,
            heard: EventSet::NONE,
            closed: None,
            sent: 0,
            read: 0,
            leftover: Vec::new(),
        }
    }

    /// The streams of what we send and what the peer sends.
    pub fn streams(&self) -> (usize, usize) {
        (2 * self.number, 2 * self.number + 1)
    }

    /// An absolute number of ours. Before our SYN was seen, zero is zero.
    pub fn ours_at(&self, relative: i64) -> u32 {
        self.ours.unwrap_or(0).wrapping_add(relative as u32)
    }

    pub fn theirs_at(&self, relative: i64) -> u32 {
        self.theirs.wrapping_add(relative as u32)
    }

    fn ours_from(&self, absolute: u32) -> i64 {
        i64::from(absolute.wrapping_sub(self.ours.unwrap_or(0)) as i32)
    }

    fn theirs_from(&self, absolute: u32) -> i64 {
        i64::from(absolute.wrapping_sub(self.theirs) as i32)
    }

    /// The segment that a script's line describes.
    pub fn arriving(&mut self, spec: &Spec) -> Raw {
        let seq = spec.seq.number().unwrap_or(0);
        if let Some(window) = spec.window.and_then(Value::number) {
            self.window = window;
        }
        let (_, stream) = self.streams();
        let first = seq + i64::from(spec.flags & SYN != 0) - 1;
        let byte = |n| content(stream, first + n) ^ if spec.forged { 0xff } else { 0 };
        let ack = spec.ack.and_then(Value::number);
        Raw {
            src_port: self.remote.port(),
            dst_port: self.local.port(),
            seq: self.theirs_at(seq),
            ack: ack.map_or(0, |ack| self.ours_at(ack)),
            flags: spec.flags,
            window: self.window as u16,
            urgent: spec.urgent.and_then(Value::number).unwrap_or(0) as u16,
            options: spec
                .options
                .iter()
                .flat_map(|o| self.option_bytes(o))
                .collect(),
            payload: (0..spec.len.number().unwrap_or(0)).map(byte).collect(),
            ecn: spec.ecn,
            dont_fragment: true,
        }
    }

    fn option_bytes(&self, option: &Opt) -> Vec<u8> {
        let number = |v: &Value| v.number().unwrap_or(0);
        match option {
            Opt::Mss(mss) => [&[2, 4][..], &(number(mss) as u16).to_be_bytes()].concat(),
            Opt::Scale(shift) => vec![3, 3, number(shift) as u8],
            Opt::SackPermitted => vec![4, 2],
            Opt::Sack(blocks) => {
                let mut bytes = vec![5, 2 + 8 * blocks.len() as u8];
                for (left, right) in blocks {
                    bytes.extend(self.ours_at(number(left)).to_be_bytes());
                    bytes.extend(self.ours_at(number(right)).to_be_bytes());
                }
                bytes
            }
            Opt::Timestamps(value, echo) => {
                let echo = self
                    .clock
                    .map_or(0, |c| c.wrapping_add(number(echo) as u32));
                let value = number(value) as u32;
                [&[8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat()
            }
            Opt::Nop => vec![1],
            Opt::Eol => vec![0],
            Opt::Raw(bytes) => bytes.clone(),
        }
    }

    /// Remember where our numbers begin.
    pub fn observe(&mut self, raw: &Raw) {
        if self.ours.is_none() && raw.flags & SYN != 0 {
            self.ours = Some(raw.seq);
        }
        let list = raw.option_list().unwrap_or_default();
        if let Some((_, value)) = list.iter().find(|(kind, v)| *kind == 8 && v.len() == 8)
            && self.clock.is_none()
        {
            self.clock = Some(u32::from_be_bytes([value[0], value[1], value[2], value[3]]));
        }
    }

    /// How a segment of ours differs from what a script's line says; empty when it does not.
    pub fn differences(&mut self, spec: &Spec, raw: &Raw) -> Vec<String> {
        if spec.seq == Value::New {
            (self.ours, self.clock) = (Some(raw.seq), None);
        }
        self.observe(raw);
        let mut found = Vec::new();
        if spec.flags != raw.flags {
            found.push(format!(
                "flags are {}, not {}",
                flags_text(raw.flags),
                flags_text(spec.flags)
            ));
        }
        let seq = self.ours_from(raw.seq);
        let acked = (raw.flags & ACK != 0).then(|| self.theirs_from(raw.ack));
        let numbers = [
            ("seq", spec.seq, seq),
            (
                "ack",
                spec.ack.unwrap_or(Value::Is(0)),
                acked.unwrap_or(i64::from(raw.ack)),
            ),
            ("len", spec.len, raw.payload.len() as i64),
            (
                "win",
                spec.window.unwrap_or(Value::Any),
                i64::from(raw.window),
            ),
            (
                "urg",
                spec.urgent.unwrap_or(Value::Is(0)),
                i64::from(raw.urgent),
            ),
        ];
        for (name, want, got) in numbers {
            if !want.admits(got) {
                found.push(format!("{name} is {got}, not {want}"));
            }
        }
        if spec.ecn != raw.ecn {
            found.push(format!(
                "the ECN field is {}, not {}",
                ecn_text(raw.ecn),
                ecn_text(spec.ecn)
            ));
        }
        if !raw.dont_fragment {
            found.push("the packet may be fragmented (RFC 1191 §3)".into());
        }
        let (stream, _) = self.streams();
        let first = seq + i64::from(raw.flags & SYN != 0) - 1;
        let wrong = (0..)
            .zip(&raw.payload)
            .find(|&(n, &b)| b != content(stream, first + n));
        if let Some((n, _)) = wrong {
            found.push(format!("the data is wrong from byte {n} of the segment on"));
        }
        found.extend(self.option_differences(spec, raw));
        found
    }

    fn option_differences(&self, spec: &Spec, raw: &Raw) -> Vec<String> {
        let list = match raw.option_list() {
            Ok(list) => list,
            Err(e) => return vec![e],
        };
        let mut left: Vec<_> = list;
        let mut found = Vec::new();
        for want in &spec.options {
            match left
                .iter()
                .position(|&(kind, value)| self.option_fits(want, kind, value))
            {
                Some(at) => {
                    left.remove(at);
                }
                None => found.push(format!("there is no option {}", option_text(want))),
            }
        }
        if !spec.more_options {
            let extra = left
                .iter()
                .map(|&(kind, value)| self.seen_text(kind, value));
            found.extend(extra.map(|text| format!("there is an option {text}")));
        }
        found
    }

    fn option_fits(&self, want: &Opt, kind: u8, value: &[u8]) -> bool {
        let be16 = || i64::from(u16::from_be_bytes([value[0], value[1]]));
        let be32 = |at: usize| {
            u32::from_be_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]])
        };
        match (want, kind, value.len()) {
            (Opt::Mss(mss), 2, 2) => mss.admits(be16()),
            (Opt::Scale(shift), 3, 1) => shift.admits(value[0].into()),
            (Opt::SackPermitted, 4, 0) => true,
            (Opt::Sack(blocks), 5, len) => {
                len == 8 * blocks.len()
                    && blocks.iter().enumerate().all(|(n, (left, right))| {
                        left.admits(self.theirs_from(be32(8 * n)))
                            && right.admits(self.theirs_from(be32(8 * n + 4)))
                    })
            }
            (Opt::Timestamps(ours, echo), 8, 8) => {
                let elapsed = be32(0).wrapping_sub(self.clock.unwrap_or(0)) as i32;
                ours.admits(elapsed.into()) && echo.admits(be32(4).into())
            }
            (Opt::Raw(bytes), ..) => bytes.first() == Some(&kind) && bytes.get(2..) == Some(value),
            _ => false,
        }
    }

    /// An option of ours, as a script would write it.
    fn seen_text(&self, kind: u8, value: &[u8]) -> String {
        let word = |at: usize| {
            u32::from_be_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]])
        };
        match (kind, value.len()) {
            (2, 2) => format!("mss {}", u16::from_be_bytes([value[0], value[1]])),
            (3, 1) => format!("wscale {}", value[0]),
            (4, 0) => "sackok".into(),
            (5, len) if len % 8 == 0 => {
                let block = |n: usize| {
                    let at = |at| self.theirs_from(word(at));
                    format!("{}:{}", at(8 * n), at(8 * n + 4))
                };
                format!(
                    "sack {}",
                    (0..len / 8).map(block).collect::<Vec<_>>().join(",")
                )
            }
            (8, 8) => {
                let elapsed = word(0).wrapping_sub(self.clock.unwrap_or(word(0))) as i32;
                format!("ts {elapsed} {}", word(4))
            }
            _ => format!("opt {:02x}{:02x}{}", kind, value.len() + 2, hex(value)),
        }
    }

    /// A segment of ours, as a script would write it.
    pub fn text(&self, raw: &Raw) -> String {
        let mut text = format!("{} seq {}", flags_text(raw.flags), self.ours_from(raw.seq));
        if raw.flags & ACK != 0 {
            text += &format!(" ack {}", self.theirs_from(raw.ack));
        }
        text += &format!(" win {}", raw.window);
        if !raw.payload.is_empty() {
            text += &format!(" len {}", raw.payload.len());
        }
        match raw.option_list() {
            Ok(list) => {
                for (kind, value) in list {
                    text = text + " " + &self.seen_text(kind, value);
                }
            }
            Err(e) => text = text + " " + &e,
        }
        if raw.ecn != 0 {
            text = text + " " + ecn_text(raw.ecn);
        }
        if self.number > 1 {
            text = format!("#{} {text}", self.number);
        }
        text
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn ecn_text(bits: u8) -> &'static str {
    ["not-ect", "ect1", "ect0", "ce"][usize::from(bits & 3)]
}

fn option_text(option: &Opt) -> String {
    match option {
        Opt::Mss(v) => format!("mss {v}"),
        Opt::Scale(v) => format!("wscale {v}"),
        Opt::SackPermitted => "sackok".into(),
        Opt::Sack(blocks) => {
            let blocks: Vec<_> = blocks.iter().map(|(l, r)| format!("{l}:{r}")).collect();
            format!("sack {}", blocks.join(","))
        }
        Opt::Timestamps(value, echo) => format!("ts {value} {echo}"),
        Opt::Nop => "nop".into(),
        Opt::Eol => "eol".into(),
        Opt::Raw(bytes) => format!("opt {}", hex(bytes)),
    }
}
