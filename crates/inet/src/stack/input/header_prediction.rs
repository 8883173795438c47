//! Header prediction (Van Jacobson's): a segment of a connection, with the headers that nearly all segments have.
//!
//! They look alike: no IP options or extension headers, no fragment, timestamps and nothing else in TCP's
//! options, no flags but ACK, PSH and FIN; and they come in runs of one connection. Such a
//! frame is recognised by a few comparisons at fixed places. Whatever differs in anything, a wrong checksum included,
//! is parsed header by header (`input`), which says what is wrong with it. What was checked when the connection began
//! (whose addresses these are) is not checked again: not for a connection within the stack, of which no frame comes by the link.

use exos_wire::tcp::{TcpFlags, TcpOptions};
use exos_wire::{SeqNumber, Sum, protocol};

use exos_wire::offload::RxChecksum;

use crate::stack::state::Stack;
use crate::tcp::{ConnectionId, Ecn, FlowKey, Segment};
use crate::time::Instant;

/// Ethernet, IPv4 without options, TCP with timestamps.
const V4: usize = 14 + 20 + 32;

/// Ethernet, IPv6, TCP with timestamps.
const V6: usize = 14 + 40 + 32;

/// Where the TCP header begins.
const TCP_V4: usize = 34;
const TCP_V6: usize = 54;

/// Two no-operations and a timestamps option (RFC 7323 appendix A).
const TIMESTAMPS: u32 = 0x0101_080a;

impl Stack {
    /// Take a frame in if its headers are the expected ones. `looped`: it comes from ourselves.
    #[inline]
    pub(in crate::stack) fn handle_expected(
        &mut self,
        now: Instant,
        frame: &[u8],
        checksum: RxChecksum,
        looped: bool,
    ) -> bool {
        if !self.predicts_headers {
            return false;
        }
        let Some((id, seg)) = self.expected(frame, checksum) else {
            return false;
        };
        if !looped && !self.tcp.leaves_by_link(id) {
            return false;
        }
        self.fast_paths.predicted += u64::from(cfg!(debug_assertions));
        self.counters.frames_received += 1;
        let progress = self.tcp.handle_known(now, id, &seg, &mut self.counters);
        if progress && self.neighbors.is_verifying() {
            let peer = self.tcp.connection(id).map(|c| c.flow().remote().ip());
            peer.into_iter()
                .for_each(|peer| self.confirm_neighbor(now, peer));
        }
        true
    }

    #[inline(always)]
    fn expected<'a>(
        &self,
        frame: &'a [u8],
        checksum: RxChecksum,
    ) -> Option<(ConnectionId, Segment<'a>)> {
        let (head, _) = frame.split_first_chunk::<V4>()?;
        if head[..6] != self.config.mac.0 {
            return None;
        }
        match word(head, 12) >> 16 {
            0x0800 => self.expected_v4(head, frame, checksum),
            0x86dd => {
                let (head, _) = frame.split_first_chunk::<V6>()?;
                self.expected_v6(head, frame, checksum)
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn expected_v4<'a>(
        &self,
        head: &[u8; V4],
        frame: &'a [u8],
        checksum: RxChecksum,
    ) -> Option<(ConnectionId, Segment<'a>)> {
        // No options, no congestion mark; no fragment; TCP.
        let plain = head[14] == 0x45 && head[15] & 3 != 3 && word(head, 20) >> 16 & 0xbfff == 0;
        if !plain || head[23] != protocol::TCP {
            return None;
        }
        let tcp = frame.get(TCP_V4..14 + usize::from(half(head, 16)))?;
        let seg = segment(head.last_chunk()?, tcp)?;
        // Written out: a loop here is a call for each word, so large is the function already.
        let sum = u64::from(word(head, 14))
            + u64::from(word(head, 18))
            + u64::from(word(head, 22))
            + u64::from(word(head, 26))
            + u64::from(word(head, 30));
        if Sum::from_wide(sum).value() != 0xffff {
            return None;
        }
        let key = FlowKey::v4(word(head, 26), word(head, 30), word(head, TCP_V4));
        let id = self.tcp.find_key(&key)?;
        let pseudo = || {
            let addresses = u64::from(word(head, 26)) + u64::from(word(head, 30));
            Sum::from_wide(addresses + u64::from(protocol::TCP) + tcp.len() as u64)
        };
        sums_up(checksum, half(head, TCP_V4 + 16), pseudo, tcp).then_some((id, seg))
    }

    #[inline]
    fn expected_v6<'a>(
        &self,
        head: &[u8; V6],
        frame: &'a [u8],
        checksum: RxChecksum,
    ) -> Option<(ConnectionId, Segment<'a>)> {
        // Version 6, no congestion mark; TCP follows.
        let mark = word(head, 14) >> 20 & 3;
        if head[14] >> 4 != 6 || mark == 3 || head[20] != protocol::TCP {
            return None;
        }
        let tcp = frame.get(TCP_V6..TCP_V6 + usize::from(half(head, 18)))?;
        let addresses: &[u8; 32] = head[22..54].try_into().expect("32 bytes");
        let key = FlowKey::v6(addresses, word(head, TCP_V6));
        let seg = segment(head.last_chunk()?, tcp)?;
        let id = self.tcp.find_key(&key)?;
        let pseudo =
            || Sum::of(addresses).plus(Sum::from_wide(u64::from(protocol::TCP) + tcp.len() as u64));
        sums_up(checksum, half(head, TCP_V6 + 16), pseudo, tcp).then_some((id, seg))
    }
}

/// The segment, if its header is the usual one.
#[inline(always)]
fn segment<'a>(head: &[u8; 32], tcp: &'a [u8]) -> Option<Segment<'a>> {
    // Eight words of header, no flags but ACK, PSH and FIN.
    let flags = half(head, 12);
    let usual = flags & 0xfff6 == 0x8010 && word(head, 20) == TIMESTAMPS;
    if !usual {
        return None;
    }
    Some(Segment {
        seq: SeqNumber(word(head, 4)),
        ack: SeqNumber(word(head, 8)),
        flags: TcpFlags((flags & 0xff) as u8),
        window: half(head, 14),
        options: TcpOptions::with_timestamps(word(head, 24), word(head, 28)),
        // Of a mark alone anything follows.
        ecn: Ecn::NotEct,
        payload: tcp.get(32..)?,
    })
}

/// True when the checksum is known to be right, or is.
#[inline(always)]
fn sums_up(checksum: RxChecksum, field: u16, pseudo: impl Fn() -> Sum, tcp: &[u8]) -> bool {
    match checksum {
        RxChecksum::Verified | RxChecksum::Partial => true,
        RxChecksum::MaybePartial if field == pseudo().value() => true,
        _ => pseudo().plus(Sum::of(tcp)).is_intact(),
    }
}

#[inline(always)]
fn word<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
fn half<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
