//! Datagrams of one length that leave together, as QUIC's do.
//!
//! They lie one behind the other in one buffer, as their sender has made them, and are cut when they leave: by the link, where that takes
//! several as one frame, or here, a frame each time, whose head is written and whose body stays where it is. Where they go is looked up
//! once for all of them. They are never fragmented (RFC 9000 §14), and so are for those who know how long they may be.
//!
//! Invariants: `waiting` counts the datagrams that have not left; a burst in the queue has some of them, but the first one, which may be
//! lent out.

use std::collections::VecDeque;
use std::net::IpAddr;

use exos_wire::ethernet::{self, EthernetHeader};
use exos_wire::offload::TxChecksum;
use exos_wire::udp::{self, UdpHeader};
use exos_wire::{Sum, ipv6, protocol};

use super::Transmit;
use super::body::Body;
use super::packets::IpHeader;
use crate::limits::DATAGRAMS_WHOLE_MAX;

/// Bytes of the longest head: Ethernet without a tag, IPv6, UDP.
const HEAD_LEN: usize = ethernet::LEN + ipv6::LEN + udp::LEN;

/// Buffers that are kept: for those that there is room for to wait at once, of forty datagrams and so 60 KB each.
const SPARES_MAX: usize = 8;
/// The shortest that are kept: of fewer datagrams, memory costs next to nothing.
const SPARE_LEN_MIN: usize = 16 * 1024;

/// What the link does for them.
#[derive(Clone, Copy, Debug)]
pub(in crate::stack) struct Cut {
    /// It takes several in a frame of up to this many bytes.
    pub whole_max: Option<usize>,
    /// It completes checksums.
    pub checksum: bool,
}

/// Datagrams to one host and port.
pub(in crate::stack) struct Burst {
    pub ethernet: EthernetHeader,
    pub ip: IpHeader,
    pub ends: (IpAddr, IpAddr),
    pub udp: UdpHeader,
    /// All of them, each of which but the last has as many bytes as `segment` says.
    pub payload: Vec<u8>,
    pub segment: usize,
    /// Bytes of those that have left.
    pub left: usize,
}

/// Those that wait to leave.
#[derive(Default)]
pub(in crate::stack) struct Bursts {
    queue: VecDeque<Burst>,
    waiting: usize,
    /// Buffers of those that have left.
    spare: Vec<Vec<u8>>,
    /// The head that was written last.
    head: Head,
}

struct Head {
    bytes: [u8; HEAD_LEN],
    len: usize,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            bytes: [0; HEAD_LEN],
            len: 0,
        }
    }
}

impl Burst {
    /// Datagrams that have not left.
    pub fn count(&self) -> usize {
        (self.payload.len() - self.left).div_ceil(self.segment)
    }

    fn head_len(&self) -> usize {
        ethernet::LEN + self.ip.len() + udp::LEN
    }
}

impl Bursts {
    /// Datagrams.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Queues some.
    pub fn push(&mut self, burst: Burst) {
        self.waiting += burst.count();
        self.queue.push_back(burst);
    }

    /// A buffer for the next ones, which is empty; one whose memory was used before, where there is such.
    pub fn take_spare(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        let is_of_many = buffer.capacity() >= SPARE_LEN_MIN;
        if is_of_many && self.spare.len() < SPARES_MAX {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// The next frame, of no more datagrams than there is `room` for.
    pub fn poll_transmit(&mut self, room: usize, cut: Cut) -> Option<Transmit<'_>> {
        // What was lent out is not looked at any more.
        if let Some(over) = self.queue.pop_front_if(|burst| burst.count() == 0) {
            self.keep(over.payload);
        }
        let Self {
            queue,
            waiting,
            head,
            ..
        } = self;
        let burst = queue.front_mut()?;
        let fit = cut.whole_max.map_or(1, |max| {
            max.saturating_sub(burst.head_len()) / burst.segment
        });
        let fit = fit.min(DATAGRAMS_WHOLE_MAX);
        let most = fit.clamp(1, room.max(1)) * burst.segment;
        let from = burst.left;
        burst.left = burst.payload.len().min(from + most);
        let payload = &burst.payload[from..burst.left];
        let is_several = payload.len() > burst.segment;
        *waiting -= payload.len().div_ceil(burst.segment);
        let checksum = head.write(burst, payload, is_several || cut.checksum);
        Some(Transmit {
            head: &head.bytes[..head.len],
            body: Body::whole(payload),
            checksum,
            segment_size: is_several.then_some(burst.segment as u16),
            ipv6: matches!(burst.ip, IpHeader::V6(_)),
            datagrams: true,
        })
    }
}

impl Head {
    /// Writes the headers of a payload; `by_link` where the link completes the checksum.
    fn write(&mut self, burst: &Burst, payload: &[u8], by_link: bool) -> TxChecksum {
        let datagram_len = udp::LEN + payload.len();
        let start = burst.ethernet.emit(&mut self.bytes);
        let start = start + burst.ip.emit(datagram_len, &mut self.bytes[start..]);
        self.len = start + udp::LEN;
        let header = &mut self.bytes[start..self.len];
        let (src, dst) = burst.ends;
        let pseudo = Sum::pseudo(src, dst, protocol::UDP, datagram_len as u32);
        if by_link {
            burst.udp.emit_partial(payload.len(), pseudo, header);
            return TxChecksum::Partial {
                start: start as u16,
                offset: udp::CHECKSUM_FIELD as u16,
            };
        }
        let sum = pseudo.plus(Sum::of(payload));
        burst.udp.emit(payload.len(), sum, header);
        TxChecksum::Complete
    }
}
