//! A packet's ends changed in place: addresses, ports, and the checksums over them.
//!
//! This is what forwarding does to a packet, and all of it; link addresses are the link's. What changes:
//!
//! | field | becomes |
//! |---|---|
//! | source and destination address, source and destination port | those of the [`Rewrite`] |
//! | hops that it may go on (TTL, hop limit) | one less |
//! | IPv4 header checksum | follows (RFC 1624) |
//! | checksum of TCP or UDP | follows, without a look at the payload |
//! | identification, of a fragment | [`Rewrite::ident`]: two clients may have chosen the same one, and now have the same address |
//!
//! A checksum follows by the difference of what it covers, so that it is afterwards as right or as wrong as it was
//! before. Two cases are different: a UDP checksum of zero says that there is none, and stays; and a kernel on the other
//! side of a virtual link may have left the pseudo header's sum there, for a device to complete. Where no device comes
//! after us, the checksum is made then ([`Sums::MaybePartial`]). Where the link says that it is so, and has it completed
//! behind us, the pseudo header's sum follows ([`Sums::Unfinished`]); such a packet may be up to 64 KiB long.
//!
//! A packet that keeps its ends ([`keep_ends`]) changes only in its hops, and in such a checksum.

use exos::RxMeta;
use exos_inet::RxChecksum;
use exos_wire::{Sum, checksum};

use crate::packets::endpoint::{Address, Endpoint};
use crate::packets::packet::{Packet, Transport, Upper};

/// What the link says of checksums of TCP and UDP in the frames that it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// They are as they were sent.
    Complete,
    /// They may be, or stand for the pseudo header alone.
    MaybePartial,
    /// They stand for the pseudo header alone, and stay so: the link has them completed when the packet leaves as it came.
    Unfinished,
}

impl Sums {
    /// What is to be known of a copy, which leaves without a word about its checksum.
    pub const fn of_copy(self) -> Self {
        match self {
            Self::Complete => Self::Complete,
            Self::MaybePartial | Self::Unfinished => Self::MaybePartial,
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Its new sender.
    pub src: Endpoint,
    /// Its new receiver.
    pub dst: Endpoint,
    /// Its new identification, if it is a fragment.
    pub ident: u32,
}

impl Rewrite {
    /// Changes the packet in `frame`, which `packet` was read from.
    ///
    /// # Panics
    ///
    /// If the new addresses are of another family, or no hop is left.
    #[inline]
    pub fn apply(&self, packet: &Packet, frame: &mut [u8], sums: Sums) {
        let partial = sums == Sums::MaybePartial && is_partial(packet, frame);
        let mut change = self.src.address.sum().plus(self.dst.address.sum());
        change = change.minus(packet.src.sum()).minus(packet.dst.sum());
        let ip = &mut frame[packet.ip_at.into()..packet.upper_at.into()];
        self.write_ip(packet, ip, change);
        if let Some(fragment) = packet.fragment {
            self.write_ident(packet, fragment.ident_at.into(), frame);
        }
        if let Upper::Transport {
            transport,
            src_port,
            dst_port,
        } = packet.upper
        {
            let upper = &mut frame[packet.upper_range()];
            put16(upper, 0, self.src.port);
            put16(upper, 2, self.dst.port);
            if partial {
                let (src, dst) = (self.src.address, self.dst.address);
                complete(transport, upper, src, dst);
            } else if sums == Sums::Unfinished {
                let at = transport.checksum_at();
                let pseudo = Sum::from_value(get16(upper, at)).plus(change);
                put16(upper, at, pseudo.value());
            } else {
                let ports = Sum::ZERO.plus_word(self.src.port).plus_word(self.dst.port);
                let ports = ports.plus_word(!src_port).plus_word(!dst_port);
                follow(transport, upper, change.plus(ports));
            }
        }
    }

    /// Addresses and hops. `change` is the difference of the addresses' sums.
    #[inline]
    fn write_ip(&self, packet: &Packet, ip: &mut [u8], change: Sum) {
        let hops = packet.hops.checked_sub(1).expect("a hop is left");
        if packet.src.is_ipv6() {
            ip[7] = hops;
            self.src.address.put(&mut ip[8..24]);
            self.dst.address.put(&mut ip[24..40]);
            return;
        }
        // The hops are the high half of their word.
        let change = change.plus_word(u16::from(hops) << 8);
        let change = change.plus_word(!(u16::from(packet.hops) << 8));
        ip[8] = hops;
        self.src.address.put(&mut ip[12..16]);
        self.dst.address.put(&mut ip[16..20]);
        put16(ip, 10, changed(get16(ip, 10), change));
    }

    fn write_ident(&self, packet: &Packet, at: usize, frame: &mut [u8]) {
        if packet.src.is_ipv6() {
            frame[at..at + 4].copy_from_slice(&self.ident.to_be_bytes());
            return;
        }
        let (old, new) = (get16(frame, at), self.ident as u16);
        put16(frame, at, new);
        let at = usize::from(packet.ip_at) + 10;
        put16(frame, at, checksum::update16(get16(frame, at), old, new));
    }
}

/// Has a packet go on with the ends that it has: with one hop less, and a checksum that a kernel left unfinished made.
///
/// # Panics
///
/// If no hop is left.
#[inline]
pub fn keep_ends(packet: &Packet, frame: &mut [u8], sums: Sums) {
    if sums == Sums::MaybePartial
        && is_partial(packet, frame)
        && let Upper::Transport { transport, .. } = packet.upper
    {
        let upper = &mut frame[packet.upper_range()];
        complete(transport, upper, packet.src, packet.dst);
    }
    let hops = packet.hops.checked_sub(1).expect("a hop is left");
    let ip = &mut frame[packet.ip_at.into()..packet.upper_at.into()];
    if packet.src.is_ipv6() {
        ip[7] = hops;
        return;
    }
    let (old, new) = (get16(ip, 8), u16::from_be_bytes([hops, ip[9]]));
    ip[8] = hops;
    put16(ip, 10, checksum::update16(get16(ip, 10), old, new));
}

/// Makes a checksum that was left undone, of a frame that leaves without a word about it. How long the frame is without padding;
/// `None` for one that cannot leave so: it is too long, or stands for several datagrams.
pub fn finish(frame: &mut [u8], meta: RxMeta, mtu: usize) -> Option<usize> {
    let packet = Packet::read_again(frame)?;
    // Of what a device has merged, each segment's checksum was verified, and none is there of all together.
    let is_merged = meta.gso_size.is_some();
    if packet.ip_len() > mtu as u64 {
        return None;
    }
    if let Upper::Transport { transport, .. } = packet.upper {
        if is_merged && transport == Transport::Udp {
            return None;
        }
        if is_merged || meta.checksum == RxChecksum::Partial && is_partial(&packet, frame) {
            let upper = &mut frame[packet.upper_range()];
            complete(transport, upper, packet.src, packet.dst);
        }
    }
    Some(packet.end.into())
}

/// Leaves the checksum of a segment or datagram to the one that cuts it: the sum of the pseudo header is in its field then.
pub fn begin_checksum(packet: &Packet, frame: &mut [u8]) {
    if let Upper::Transport { transport, .. } = packet.upper {
        let pseudo = pseudo_sum(packet, transport);
        let upper = &mut frame[packet.upper_range()];
        put16(upper, transport.checksum_at(), pseudo.value());
    }
}

fn pseudo_sum(packet: &Packet, transport: Transport) -> Sum {
    let addresses = packet.src.sum().plus(packet.dst.sum());
    addresses.plus_u32(u32::from(transport.number()) + packet.upper_range().len() as u32)
}

/// Makes the checksum of a packet between these.
#[cold]
fn complete(transport: Transport, upper: &mut [u8], src: Address, dst: Address) {
    let pseudo = Sum::pseudo(
        src.into(),
        dst.into(),
        transport.number(),
        upper.len() as u32,
    );
    put16(upper, transport.checksum_at(), 0);
    let sum = pseudo.plus(Sum::of(upper)).finish();
    put16(upper, transport.checksum_at(), some(transport, sum));
}

/// True when the checksum's field holds the sum of the pseudo header. One of 65,536 complete checksums does too: made again
/// it is the same, if it was right.
#[inline]
fn is_partial(packet: &Packet, frame: &[u8]) -> bool {
    let Upper::Transport { transport, .. } = packet.upper else {
        return false;
    };
    let upper = &frame[packet.upper_range()];
    let pseudo = pseudo_sum(packet, transport);
    packet.fragment.is_none() && get16(upper, transport.checksum_at()) == pseudo.value()
}

/// Has the checksum of a segment or datagram follow a change of what it covers.
#[inline]
fn follow(transport: Transport, upper: &mut [u8], change: Sum) {
    let old = get16(upper, transport.checksum_at());
    // RFC 768: zero says that there is none.
    if transport == Transport::Tcp || old != 0 {
        let new = some(transport, changed(old, change));
        put16(upper, transport.checksum_at(), new);
    }
}

/// RFC 768: a computed zero is sent as all ones, because zero says "none".
#[inline]
pub(crate) fn some(transport: Transport, sum: u16) -> u16 {
    match (transport, sum) {
        (Transport::Udp, 0) => 0xffff,
        _ => sum,
    }
}

/// The checksum after a change of what it covers by so much (RFC 1624 §3, equation 3).
#[inline]
pub(crate) fn changed(checksum: u16, by: Sum) -> u16 {
    Sum::from_value(!checksum).plus(by).finish()
}

#[inline]
pub(crate) fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
