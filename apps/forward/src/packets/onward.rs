//! The last step before a frame leaves: the link addresses of its next hop.

use std::net::IpAddr;

use exos::{Passage, RxMeta, TxMeta};
use exos_inet::{Instant, RxChecksum, Stack};
use exos_wire::offload::TxChecksum;
use exos_wire::udp;

use crate::forwarder::{Forwarder, Verdict};
use crate::packets::packet::{Packet, Transport, Upper};
use crate::packets::rewrite::{begin_checksum, finish};

/// Puts the link addresses on what goes on.
#[inline]
pub fn send_on(
    forwarder: &mut Forwarder,
    verdict: Verdict,
    stack: &mut Stack,
    now: Instant,
    (frame, meta): (&mut [u8], RxMeta),
) -> Passage {
    let to = match verdict {
        Verdict::Onward(to) => to,
        Verdict::Stack => return Passage::Stack,
        Verdict::Drop | Verdict::Generated | Verdict::Answered | Verdict::Held => {
            return Passage::Done;
        }
    };
    let Some(mac) = stack.link_address(now, to) else {
        wait(forwarder, stack, now, to, (frame, meta));
        return Passage::Done;
    };
    frame[..6].copy_from_slice(&mac.0);
    frame[6..12].copy_from_slice(&stack.config().mac.0);
    Passage::Onward
}

/// Has a packet wait for its neighbour as a copy, which leaves as one frame with nothing left undone.
#[cold]
pub fn wait(
    forwarder: &mut Forwarder,
    stack: &mut Stack,
    now: Instant,
    to: IpAddr,
    (frame, meta): (&mut [u8], RxMeta),
) {
    match finish(frame, meta, stack.config().mtu) {
        Some(len) => {
            forwarder.note_late();
            stack.pass(now, to, frame[..len].to_vec());
        }
        None => forwarder.note_uncut(),
    }
}

/// What is left undone of a frame that leaves by another link than it came by: its checksum, and the cutting. `None` for one of
/// which that cannot be said.
#[inline]
pub fn undone(frame: &mut [u8], meta: RxMeta) -> Option<TxMeta> {
    match meta.checksum == RxChecksum::Partial || meta.gso_size.is_some() {
        true => undone_of(frame, meta),
        false => Some(TxMeta::default()),
    }
}

#[inline(never)]
fn undone_of(frame: &mut [u8], meta: RxMeta) -> Option<TxMeta> {
    let packet = Packet::read_again(frame)?;
    let Upper::Transport { transport, .. } = packet.upper else {
        return None;
    };
    if meta.checksum != RxChecksum::Partial {
        // A device has merged it, of segments that it has verified. Each gets another checksum.
        begin_checksum(&packet, frame);
    }
    let at = usize::from(packet.upper_at);
    let header_len = match transport {
        Transport::Tcp => usize::from(frame[at + 12] >> 4) * 4,
        Transport::Udp => udp::LEN,
    };
    Some(TxMeta {
        checksum: TxChecksum::Partial {
            start: packet.upper_at,
            offset: transport.checksum_at() as u16,
        },
        segment_size: meta.gso_size,
        ipv6: packet.src.is_ipv6(),
        datagrams: transport == Transport::Udp,
        // Their sender's word for TCP.
        header_len: (at + header_len).min(frame.len()) as u16,
    })
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use exos_inet::{Config, RxChecksum};
    use exos_wire::{Mac, ethernet};

    use super::*;
    use crate::packets::packet::Transport;
    use crate::service::Services;

    const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const TO: [u8; 4] = [10, 0, 0, 2];
    const MTU: usize = 1500;

    /// A packet with this much data, its checksum right.
    fn packet(transport: Transport, data: usize) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2(THEIRS.0, OURS.0).ipv4([10, 9, 0, 1], TO, 9);
        let (mut frame, data) = (Vec::new(), vec![0x5a; data]);
        match transport {
            Transport::Tcp => builder.tcp(7, 80, 1, 1000).write(&mut frame, &data),
            Transport::Udp => builder.udp(7, 80).write(&mut frame, &data),
        }
        .unwrap();
        frame
    }

    /// What leaves of a frame that had to wait for its neighbour, and how often the forwarder has counted one that could not.
    fn after_waiting(mut frame: Vec<u8>, meta: RxMeta) -> (Vec<Vec<u8>>, u64) {
        let mut config = Config::new(OURS, MTU);
        config.addresses = vec![([10, 0, 0, 1].into(), 24)];
        let now = Instant::from_millis(1);
        let mut stack = Stack::new(config, 1, now).unwrap();
        let mut forwarder = Forwarder::new(Services::default(), OURS, 10, 1);
        let verdict = Verdict::Onward(TO.into());
        let passage = send_on(&mut forwarder, verdict, &mut stack, now, (&mut frame, meta));
        assert_eq!(passage, Passage::Done);
        while stack.poll_transmit(now).is_some() {}
        let answer = etherparse::ArpPacket::new(
            etherparse::ArpHardwareId::ETHERNET,
            etherparse::EtherType::IPV4,
            etherparse::ArpOperation::REPLY,
            &THEIRS.0,
            &TO,
            &OURS.0,
            &[10, 0, 0, 1],
        );
        let mut arp = Vec::new();
        let builder = PacketBuilder::ethernet2(THEIRS.0, OURS.0);
        builder.arp(answer.unwrap()).write(&mut arp).unwrap();
        stack.handle_frame(now, &arp, RxChecksum::Unknown);
        let next = || Some(stack.poll_transmit(now)?.head.to_vec());
        let left: Vec<_> = std::iter::from_fn(next).collect();
        let uncut = forwarder.counters().drop_uncut;
        assert_eq!(left.len() as u64 + uncut, 1);
        (left, uncut)
    }

    fn meta(checksum: RxChecksum, gso_size: Option<u16>) -> RxMeta {
        RxMeta {
            checksum,
            gso_size,
            ..RxMeta::default()
        }
    }

    /// A frame as it leaves to the neighbour.
    fn addressed(mut frame: Vec<u8>) -> Vec<u8> {
        frame[..6].copy_from_slice(&THEIRS.0);
        frame[6..12].copy_from_slice(&OURS.0);
        frame
    }

    /// Where the checksum lies in a frame.
    const fn sum_at(transport: Transport) -> usize {
        ethernet::LEN + 20 + transport.checksum_at()
    }

    /// A link sends no longer frame, and takes it for a bug of ours to be asked.
    #[test]
    fn what_is_longer_than_its_link_sends_does_not_wait() {
        use RxChecksum::{Partial, Unknown, Verified};
        use Transport::{Tcp, Udp};
        for (transport, data, checksum, gso_size) in [
            // A card has merged it, or a kernel has not cut it.
            (Tcp, 60_000, Verified, Some(1448)),
            (Tcp, 60_000, Unknown, Some(1448)),
            (Tcp, 60_000, Partial, Some(1448)),
            (Udp, 60_000, Verified, Some(1000)),
            // The driver takes longer packets in than it sends.
            (Tcp, 1461, Unknown, None),
            (Udp, 4000, Verified, None),
        ] {
            let (left, uncut) = after_waiting(packet(transport, data), meta(checksum, gso_size));
            let lens: Vec<_> = left.iter().map(Vec::len).collect();
            assert_eq!(
                (lens, uncut),
                (vec![], 1),
                "{transport:?} {data} {checksum:?}"
            );
        }
        assert_eq!(
            after_waiting(packet(Tcp, 1460), meta(Unknown, None)).0[0].len(),
            ethernet::LEN + MTU
        );
    }

    /// Several datagrams would become one.
    #[test]
    fn datagrams_that_are_to_be_cut_do_not_wait() {
        for checksum in [RxChecksum::Partial, RxChecksum::Verified] {
            let frame = packet(Transport::Udp, 1000);
            assert_eq!(after_waiting(frame, meta(checksum, Some(500))).1, 1);
        }
    }

    /// Checksums that are left undone are made: also that of merged segments, whose own is that of none of them. Others stay as
    /// they are, and wrong if they were.
    #[test]
    fn what_waits_leaves_with_its_checksum() {
        let at = sum_at(Transport::Tcp);
        let wanted = packet(Transport::Tcp, 1000);
        let mut unfinished = wanted.clone();
        let pseudo = exos_wire::Sum::pseudo(
            IpAddr::from([10, 9, 0, 1]),
            TO.into(),
            Transport::Tcp.number(),
            1020,
        );
        unfinished[at..at + 2].copy_from_slice(&pseudo.value().to_be_bytes());
        let mut stale = wanted.clone();
        stale[at] ^= 0x55;
        for (frame, checksum, gso_size, leaves) in [
            (&unfinished, RxChecksum::Partial, None, &wanted),
            (&unfinished, RxChecksum::Partial, Some(500), &wanted),
            (&stale, RxChecksum::Verified, Some(500), &wanted),
            (&stale, RxChecksum::Unknown, None, &stale),
            (&wanted, RxChecksum::Unknown, None, &wanted),
        ] {
            let (left, _) = after_waiting(frame.clone(), meta(checksum, gso_size));
            assert!(
                left == [addressed(leaves.clone())],
                "{checksum:?} {gso_size:?}"
            );
        }
    }

    /// The link by which it leaves may have no room for it.
    #[test]
    fn padding_does_not_wait() {
        let frame = packet(Transport::Tcp, 100);
        let mut padded = frame.clone();
        padded.resize(4000, 0);
        let (left, _) = after_waiting(padded, RxMeta::default());
        assert!(left == [addressed(frame)]);
    }

    /// By another link it leaves as it came: with the checksum of the pseudo header alone, which a card that has merged it did not
    /// leave, and to be cut into what was merged.
    #[test]
    fn what_is_undone_is_so_on_another_link() {
        use RxChecksum::{Partial, Verified};
        let pseudo = |transport: Transport, len: u32| {
            let (from, to) = ([10, 9, 0, 1].into(), TO.into());
            exos_wire::Sum::pseudo(from, to, transport.number(), len)
                .value()
                .to_be_bytes()
        };
        for (transport, checksum, gso_size, header_len) in [
            (Transport::Tcp, Partial, Some(1448), 20),
            (Transport::Tcp, Verified, Some(1448), 20),
            (Transport::Tcp, Partial, None, 20),
            (Transport::Udp, Partial, Some(1000), 8),
            (Transport::Udp, Verified, Some(1000), 8),
        ] {
            let (mut frame, at) = (packet(transport, 50_000), sum_at(transport));
            let sum = pseudo(transport, 50_000 + header_len);
            if checksum == Partial {
                frame[at..at + 2].copy_from_slice(&sum);
            }
            let undone = undone(&mut frame, meta(checksum, gso_size)).unwrap();
            assert_eq!(frame[at..at + 2], sum, "{transport:?} {checksum:?}");
            let start = ethernet::LEN as u16 + 20;
            let wanted = TxMeta {
                checksum: TxChecksum::Partial {
                    start,
                    offset: transport.checksum_at() as u16,
                },
                segment_size: gso_size,
                ipv6: false,
                datagrams: transport == Transport::Udp,
                header_len: start + header_len as u16,
            };
            assert_eq!(undone, wanted);
        }
        let mut frame = packet(Transport::Tcp, 1000);
        let before = frame.clone();
        let complete = undone(&mut frame, meta(Verified, None));
        assert_eq!((complete, frame), (Some(TxMeta::default()), before));
    }

    /// A header may lie about its own length; what is neither TCP nor UDP nobody can cut.
    #[test]
    fn what_cannot_be_cut_leaves_by_no_other_link() {
        let cut = meta(RxChecksum::Partial, Some(1448));
        let mut frame = packet(Transport::Tcp, 20);
        frame[ethernet::LEN + 20 + 12] = 0xf0;
        let undone_of_lie = undone(&mut frame, cut).unwrap();
        assert_eq!(usize::from(undone_of_lie.header_len), frame.len());
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2(THEIRS.0, OURS.0).ipv4([10, 9, 0, 1], TO, 9);
        let echo = builder.icmpv4_echo_request(1, 1);
        echo.write(&mut frame, &[0; 50_000]).unwrap();
        assert_eq!(undone(&mut frame, cut), None);
    }
}
