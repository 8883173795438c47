//! A client's end of a connection.

use exos_filter::handler::web::layout;
use exos_wire::Sum;
use std::net::IpAddr;

use super::bench::Bench;
use super::{ACK, ADDRESSES, OURS, PASS, PEERS, PORT, REDIRECT, THEIRS, TX};

/// It, and the segments that it sends.
#[derive(Clone)]
pub struct Client {
    pub ipv6: bool,
    pub peer: IpAddr,
    pub port: u16,
    pub stamped: bool,
    /// It offers what Windows does, without timestamps.
    pub is_windows: bool,
    pub mss: u16,
    /// As it stands in segments.
    pub window: u16,
    pub seq: u32,
    pub ack: u32,
    pub echo: u32,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub struct Got {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub data: Vec<u8>,
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}

impl Client {
    pub fn frame(&self, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut options = Vec::new();
        if flags & 2 != 0 {
            options.extend([2, 4]);
            options.extend(self.mss.to_be_bytes());
            if self.stamped {
                options.extend([4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7]);
            } else if self.is_windows {
                options.extend([1, 3, 3, 8, 1, 1, 4, 2]);
            }
        } else if self.stamped {
            options.extend([1, 1, 8, 10, 0, 0, 0, 10]);
            options.extend(self.echo.to_be_bytes());
        }
        let mut frame = [&OURS.0[..], &THEIRS.0].concat();
        let length = (20 + options.len() + data.len()) as u16;
        if self.ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([6, 64]);
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + length).to_be_bytes());
            frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
        }
        frame.extend(octets(self.peer));
        frame.extend(octets(ADDRESSES[usize::from(self.ipv6)]));
        frame.extend(self.port.to_be_bytes());
        frame.extend(PORT.to_be_bytes());
        frame.extend(self.seq.to_be_bytes());
        let ack = if flags & ACK == 0 { 0 } else { self.ack };
        frame.extend(ack.to_be_bytes());
        let words = 5 + options.len() as u8 / 4;
        frame.extend([words << 4, flags]);
        frame.extend(self.window.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(options);
        frame.extend(data);
        if !self.ipv6 {
            let ip = Sum::of(&frame[14..34]).finish();
            frame[24..26].copy_from_slice(&ip.to_be_bytes());
        }
        let sum = self.sum(&frame).to_be_bytes();
        let at = self.tcp() + 16;
        frame[at..at + 2].copy_from_slice(&sum);
        frame
    }

    /// Where TCP begins in frames.
    pub fn tcp(&self) -> usize {
        if self.ipv6 { 54 } else { 34 }
    }

    /// The sum of a frame's pseudo header.
    pub fn pseudo(&self, frame: &[u8]) -> Sum {
        let addresses = if self.ipv6 { 22..54 } else { 26..34 };
        let length = (frame.len() - self.tcp()) as u64;
        Sum::of(&frame[addresses]).plus(Sum::from_wide(length + 6))
    }

    /// The checksum of a segment, 0 where it has the right one.
    fn sum(&self, frame: &[u8]) -> u16 {
        let segment = Sum::of(&frame[self.tcp()..]);
        self.pseudo(frame).plus(segment).finish()
    }

    /// Its connection's, as slots have them.
    pub fn ends(&self) -> ([u64; 4], u32) {
        let number = usize::from(self.ipv6);
        let ends = layout::ends(ADDRESSES[number], self.peer);
        (ends, u32::from(PORT) << 16 | u32::from(self.port))
    }

    pub fn opened(bench: &Bench, port: u16, stamped: bool) -> Self {
        Self::opened_at(bench, port, stamped, 1000)
    }

    pub fn opened_at(bench: &Bench, port: u16, stamped: bool, seq: u32) -> Self {
        Self::opened_with((port, seq), bench, stamped, 1460)
    }

    pub fn opened_with((port, seq): (u16, u32), bench: &Bench, stamped: bool, mss: u16) -> Self {
        let peer = PEERS[usize::from(bench.ipv6)];
        Self::open(bench, (peer, port), (stamped, mss), seq).expect("a cookie")
    }

    /// None where the SYN is the server's.
    pub fn opened_by(bench: &Bench, end: (IpAddr, u16), stamped: bool, seq: u32) -> Option<Self> {
        Self::open(bench, end, (stamped, 1460), seq)
    }

    fn open(
        bench: &Bench,
        (peer, port): (IpAddr, u16),
        (stamped, mss): (bool, u16),
        seq: u32,
    ) -> Option<Self> {
        let client = Self {
            ipv6: bench.ipv6,
            peer,
            port,
            stamped,
            is_windows: false,
            mss,
            window: 64_240,
            seq,
            ack: 0,
            echo: 0,
        };
        Some(client.opens(bench)?.0)
    }

    /// As Windows does, but for its MSS, and the options of the answer to its SYN.
    pub fn opened_by_windows(bench: &Bench, port: u16, mss: u16) -> (Self, Vec<u8>) {
        let client = Self {
            is_windows: true,
            mss,
            ..Self::opened(bench, port, false)
        };
        client.opens(bench).expect("a cookie")
    }

    fn opens(mut self, bench: &Bench) -> Option<(Self, Vec<u8>)> {
        let client = &mut self;
        let (verdict, answer) = bench.run(&client.frame(2, &[]));
        if verdict == PASS {
            return None;
        }
        assert!([TX, REDIRECT].contains(&verdict));
        client.seq += 1;
        let tcp = client.tcp();
        client.ack = be32(&answer[tcp + 4..]).wrapping_add(1);
        if client.stamped {
            client.echo = be32(&answer[tcp + 28..]);
        }
        let options = answer[tcp + 20..].to_vec();
        Some((self, options))
    }

    pub fn says(&self, bench: &Bench, flags: u8, data: &[u8]) -> Result<Got, u32> {
        let frame = self.frame(flags, data);
        let (verdict, answer) = bench.run(&frame);
        if verdict != TX {
            assert!(verdict != PASS || answer == frame, "it goes up as it came");
            return Err(verdict);
        }
        Ok(self.reads(&answer))
    }

    /// What an answer says, all of which is right.
    pub fn reads(&self, answer: &[u8]) -> Got {
        let (number, tcp) = (usize::from(self.ipv6), self.tcp());
        let header = usize::from(answer[tcp + 12] >> 4) * 4;
        assert_eq!(header, if self.stamped { 32 } else { 20 });
        let (family, length): (&[u8], _) = match self.ipv6 {
            true => (&[0x86, 0xdd, 0x60, 0, 0, 0], 18),
            false => (&[8, 0, 0x45, 0], 16),
        };
        assert_eq!(answer[..length], [&THEIRS.0[..], &OURS.0, family].concat());
        let counted = answer.len() - if self.ipv6 { tcp } else { 14 };
        let length = &answer[length..length + 2];
        assert_eq!(length, (counted as u16).to_be_bytes());
        if self.ipv6 {
            assert_eq!(answer[20..22], [6, 64]);
        } else {
            assert_eq!(answer[22..24], [64, 6]);
            assert_eq!(Sum::of(&answer[14..34]).finish(), 0);
        }
        let ends = [octets(ADDRESSES[number]), octets(self.peer)].concat();
        assert_eq!(answer[tcp - ends.len()..tcp], ends);
        assert_eq!(answer[tcp..tcp + 2], PORT.to_be_bytes());
        assert_eq!(answer[tcp + 2..tcp + 4], self.port.to_be_bytes());
        assert_eq!(self.sum(answer), 0);
        if self.stamped {
            assert_eq!(be32(&answer[tcp + 28..]), 10, "our timestamp comes back");
        }
        Got {
            seq: be32(&answer[tcp + 4..]),
            ack: be32(&answer[tcp + 8..]),
            flags: answer[tcp + 13],
            data: answer[tcp + header..].to_vec(),
        }
    }
}

/// Whether anything tells that a bit behind the Ethernet header is damaged: IPv6 has no checksum over class, flow label and hop limit.
pub fn is_noticed(ipv6: bool, byte: usize, bit: usize) -> bool {
    !ipv6 || !matches!((byte, bit), (14, 0..4) | (15..18 | 21, _))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
