//! What the peer and the wire do to a live connection: segments, ICMP errors, time.

use std::net::IpAddr;

use exos_inet::{Duration, RxChecksum};
use exos_wire::ipv4::{self, Ipv4Header};
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use exos_wire::{SeqNumber, Sum, protocol};

use super::{ISN_PEER, Script, THEIR_STREAM, World, address, content};
use crate::frames::{frame, segment_frame};

impl World {
    /// Data and perhaps a FIN, in order or not.
    pub(super) fn data(&mut self, script: &mut Script<'_>) {
        let (how, len) = (script.byte(), script.len().min(1400));
        let away = script.len() as u32;
        let seq = match how % 8 {
            0..=3 => self.next,
            4 | 5 => self.next + away,
            6 => self.next - away,
            _ => self.next + u32::from(script.word()) * 8,
        };
        let mut flags = TcpFlags::ACK;
        if how & 0x18 == 0x18 && away.is_multiple_of(8) {
            flags |= TcpFlags::FIN;
        }
        let ack = self.ack_number(how >> 5, script);
        if how % 8 < 4 {
            self.next += len as u32;
        }
        let window = self.window(script);
        self.arrive(flags, seq, ack, window, len, &[]);
    }

    /// An acknowledgement, with blocks if they were agreed on.
    pub(super) fn acknowledgement(&mut self, script: &mut Script<'_>) {
        let how = script.byte();
        let ack = self.ack_number(how & 7, script);
        let window = self.window(script);
        let mut blocks = Vec::new();
        for _ in 0..usize::from(how >> 3 & 3) * usize::from(self.peer.sack) {
            let left = self.acknowledged + script.len() as u32;
            blocks.push((left, left + script.len() as u32));
        }
        let repeats = 1 + usize::from(how >> 5 & 3);
        for _ in 0..repeats {
            self.arrive(TcpFlags::ACK, self.next, ack, window, 0, &blocks);
        }
    }

    /// Resets, SYNs, segments without ACK and with marks, near the right numbers.
    pub(super) fn stray(&mut self, script: &mut Script<'_>) {
        let (flags, how) = (TcpFlags(script.byte()), script.byte());
        let away = script.len() as u32;
        let seq = if how & 1 == 1 {
            self.next + away
        } else {
            self.next - away
        };
        let ack = self.ack_number(how >> 1 & 7, script);
        self.arrive(flags, seq, ack, script.word(), usize::from(how >> 4), &[]);
    }

    pub(super) fn ack_number(&mut self, how: u8, script: &mut Script<'_>) -> SeqNumber {
        let flight = (self.our_end - self.acknowledged).max(0) as u32;
        match how {
            0..=2 => self.our_end,
            3 | 4 => self.acknowledged,
            5 => self.acknowledged + (flight / 256) * u32::from(script.byte()),
            6 => self.our_end + script.len() as u32,
            _ => self.acknowledged - script.len() as u32,
        }
    }

    pub(super) fn window(&mut self, script: &mut Script<'_>) -> u16 {
        match script.byte() {
            0 => 0,
            255 => script.word(),
            n => u16::from(n) * 257,
        }
    }

    pub(super) fn arrive(
        &mut self,
        flags: TcpFlags,
        seq: SeqNumber,
        ack: SeqNumber,
        window: u16,
        len: usize,
        blocks: &[(SeqNumber, SeqNumber)],
    ) {
        let header = TcpHeader {
            src_port: self.ports.1,
            dst_port: self.ports.0,
            seq,
            ack,
            flags,
            window,
            urgent: 0,
        };
        let options = self.options(flags, blocks);
        let first = seq + u32::from(flags.contains(TcpFlags::SYN));
        let place = first.0.wrapping_sub(ISN_PEER + 1);
        let data = (0..len as u32).map(|n| content(THEIR_STREAM, place.wrapping_add(n)));
        self.note(&header);
        self.came += 1;
        let ends = (address(self.ipv6, 2), address(self.ipv6, 1));
        let frame = segment_frame(ends, &header, &options, data);
        let now = self.now;
        self.stack.handle_frame(now, &frame, RxChecksum::Verified);
    }

    pub(super) fn options(&self, flags: TcpFlags, blocks: &[(SeqNumber, SeqNumber)]) -> TcpOptions {
        let mut options = TcpOptions::NONE;
        if flags.contains(TcpFlags::SYN) {
            options.mss = self.peer.mss;
            options.window_scale = self.peer.scale;
            options.sack_permitted = self.peer.sack;
        }
        if self.peer.timestamps {
            options.timestamps = Some(Timestamps {
                value: self.now.millis() as u32,
                echo: self.our_timestamp,
            });
        }
        for &(left, right) in blocks {
            options.sack.push(left, right);
        }
        options
    }

    /// What the peer offers and acknowledges with a segment, if it is taken.
    pub(super) fn note(&mut self, header: &TcpHeader) {
        if !header.flags.contains(TcpFlags::ACK) || self.ours.is_none() {
            return;
        }
        let scaled = !header.flags.contains(TcpFlags::SYN) && self.peer.scale.is_some();
        let shift = if scaled {
            self.peer.scale.unwrap_or(0)
        } else {
            0
        };
        let edge = header.ack + (u32::from(header.window) << shift);
        // A window of a SYN to a listener counts from the SYN-ACK's number, which is before this.
        self.offered = self.offered.max(edge);
        let acceptable = header.ack.gt(self.acknowledged) && header.ack.le(self.our_end);
        if acceptable {
            self.acknowledged = header.ack;
        }
    }

    /// A router says that something of ours was too big, or did not arrive (IPv4: its message is short).
    pub(super) fn icmp(&mut self, script: &mut Script<'_>) {
        let (kind, mtu, at) = (script.byte(), script.word(), script.len() as u32);
        let (IpAddr::V4(us), IpAddr::V4(peer)) = (address(self.ipv6, 1), address(self.ipv6, 2))
        else {
            return;
        };
        let seq = self.acknowledged + at;
        let code = if kind & 1 == 1 { 4 } else { kind >> 1 & 15 };
        let mut message = vec![3, code, 0, 0, 0, 0];
        message.extend(mtu.to_be_bytes());
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
        .emit(1000, &mut quoted);
        message.extend(quoted);
        message.extend(self.ports.0.to_be_bytes());
        message.extend(self.ports.1.to_be_bytes());
        message.extend(seq.0.to_be_bytes());
        let checksum = Sum::of(&message).finish();
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        let (peer, us) = (address(self.ipv6, 2), address(self.ipv6, 1));
        let frame = frame(peer, us, protocol::ICMP, &message);
        let now = self.now;
        self.stack.handle_frame(now, &frame, RxChecksum::Verified);
    }

    pub(super) fn wait(&mut self, script: &mut Script<'_>) {
        let how = script.byte();
        match how {
            0..=99 => self.now += Duration::from_millis(u64::from(how)),
            100..=199 => self.pass_to_next_deadline(),
            _ => self.now += Duration::from_secs(u64::from(how - 199)),
        }
    }

    pub(super) fn pass_to_next_deadline(&mut self) {
        if let Some(at) = self.stack.poll_timeout(self.now) {
            self.now = self.now.max(at);
        }
    }
}
