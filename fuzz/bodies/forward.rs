//! What is checked of `exos-forward`: any frames go on changed as they should be, or are left alone.

use std::net::{IpAddr, SocketAddr};

use exos_forward::forwarder::{Forwarder, Verdict};
use exos_forward::packets::packet::{Packet, Transport, Upper};
use exos_forward::packets::reach::Reach;
use exos_forward::service::{Listen, Services};
use exos_inet::{Duration, Instant, RxChecksum};
use exos_wire::{Mac, Sum};

/// The forwarder's own, which every frame is sent to.
const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

/// So few that they are fought for.
const FLOWS: u32 = 8;

/// Frames, each behind a byte that says how many seconds later it comes and two of its length.
pub fn frames(data: &[u8]) {
    Reach::ALL
        .into_iter()
        .for_each(|reach| frames_by(reach, data));
}

fn frames_by(reach: Reach, data: &[u8]) {
    let mut forwarder = forwarder(reach);
    let mut now = Instant::from_millis(1_000_000);
    let mut rest = data;
    while let Some((&[seconds, high, low], after)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes([high, low])).min(after.len());
        let (frame, after) = after.split_at(len);
        now += Duration::from_secs(seconds.into());
        forwarder.handle_timeout(now);
        give(&mut forwarder, reach, now, frame);
        assert!(forwarder.flows().len() <= FLOWS);
        rest = after;
    }
    // All that has begun ends, and gives back what it had.
    now += Duration::from_secs(10_000);
    forwarder.handle_timeout(now);
    assert_eq!(forwarder.flows().len(), 0);
    let servers = &forwarder.services().servers;
    assert!(
        servers
            .iter()
            .all(|s| s.ports.taken() == 0 && (s.flows, s.open) == (0, 0))
    );
}

/// One listener of each protocol and family, one server each.
fn forwarder(reach: Reach) -> Forwarder {
    let mut wanted = Vec::new();
    for transport in [Transport::Tcp, Transport::Udp] {
        for (at, to, ours) in [
            ("10.0.0.20:80", "10.0.0.11:8080", "10.0.0.19"),
            ("[fd00::20]:80", "[fd00::11]:8080", "fd00::19"),
        ] {
            let ours: IpAddr = ours.parse().expect("constant");
            let at: SocketAddr = at.parse().expect("constant");
            let mut to: SocketAddr = to.parse().expect("constant");
            if !reach.may_change_port() {
                to.set_port(at.port());
            }
            wanted.push(Listen {
                transport,
                at,
                reach,
                to: vec![(to, 1, if reach.hears_servers() { at.ip() } else { ours })],
            });
        }
    }
    let services = Services::new(&wanted).expect("it fits together");
    Forwarder::new(services, MAC, FLOWS, 1)
}

fn give(forwarder: &mut Forwarder, reach: Reach, now: Instant, frame: &[u8]) {
    let mut before = frame.to_vec();
    if let Some(to) = before.get_mut(..6) {
        to.copy_from_slice(&MAC.0);
    }
    let mut after = before.clone();
    match forwarder.handle_frame(now, &mut after, RxChecksum::Unknown) {
        Verdict::Onward(to) => {
            check(reach, &before, &after, to);
            // Fragments that have waited for this one go where it goes.
            let ends = |frame: &[u8]| {
                let packet = read(frame);
                (packet.src, packet.dst)
            };
            while let Some((host, made)) = forwarder.poll_made() {
                assert_eq!((host, ends(&made)), (to, ends(&after)));
            }
        }
        Verdict::Stack | Verdict::Drop | Verdict::Held => assert_eq!(before, after),
        Verdict::Generated | Verdict::Answered => check_made(forwarder, &before),
    }
}

/// A packet goes to a server in others, between the ends that it has; or its sender is answered.
fn check_made(forwarder: &mut Forwarder, before: &[u8]) {
    let packet = read(before);
    // Bytes of the header, where its addresses and its protocol are, and the number of ICMP.
    let (around, ends, protocol_at, icmp) = match packet.src.is_ipv6() {
        true => (40, 8..40, 6, 58),
        false => (20, 12..20, 9, 1),
    };
    let mut count = 0;
    while let Some((_, made)) = forwarder.poll_made() {
        let is_answer = made[14 + protocol_at] == icmp;
        let at = 14 + around + if is_answer { 8 } else { 0 };
        let old = usize::from(packet.ip_at);
        assert_eq!(
            made[at + ends.start..at + ends.end],
            before[old + ends.start..old + ends.end]
        );
        count += 1;
    }
    assert!(count > 0, "something was made");
}

/// The packet goes between those that it should, to where it was said, is otherwise the same, and its checksum is as right
/// as it was.
fn check(reach: Reach, before: &[u8], after: &[u8], to: IpAddr) {
    let (old, new) = (read(before), read(after));
    let constant = |ip: &str| ip.parse::<IpAddr>().expect("constant");
    let is_ours = |ip| ["10.0.0.20", "fd00::20"].map(constant).contains(&ip);
    let is_server = |ip| ["10.0.0.11", "fd00::11"].map(constant).contains(&ip);
    let goes_to = IpAddr::from(new.dst) == to;
    let is_kept = (old.src, old.dst) == (new.src, new.dst);
    assert!(match reach {
        Reach::Nat => is_ours(new.src.into()) && goes_to,
        // One end is kept: the client.
        Reach::Transparent if old.dst == new.dst => is_ours(new.src.into()) && goes_to,
        Reach::Transparent => old.src == new.src && is_server(to) && goes_to,
        Reach::Direct => is_kept && is_server(to),
        Reach::Tunnel => false,
    });
    assert_eq!(
        (old.hops, old.end, old.upper_at),
        (new.hops + 1, new.end, new.upper_at)
    );
    assert_eq!(before.len(), after.len());
    assert_eq!(
        before[usize::from(old.end)..],
        after[usize::from(new.end)..]
    );
    let Upper::Transport { transport, .. } = old.upper else {
        return;
    };
    let changed = |at: usize| {
        let sum_at = transport.checksum_at();
        at < 4 || (sum_at..sum_at + 2).contains(&at)
    };
    let upper = |packet: &Packet, frame: &[u8]| frame[packet.upper_range()].to_vec();
    let (was, is) = (upper(&old, before), upper(&new, after));
    assert!((0..was.len()).all(|at| changed(at) || was[at] == is[at]));
    assert_eq!(
        is_right(&old, transport, &was),
        is_right(&new, transport, &is)
    );
}

fn read(frame: &[u8]) -> Packet {
    Packet::read(frame, MAC).expect("what goes on is a packet")
}

/// Of a fragment, whether the part that is there sums up to nothing is as good a question.
fn is_right(packet: &Packet, transport: Transport, upper: &[u8]) -> bool {
    let (src, dst) = (packet.src.into(), packet.dst.into());
    let pseudo = Sum::pseudo(src, dst, transport.number(), upper.len() as u32);
    let at = transport.checksum_at();
    let none = transport == Transport::Udp && upper[at..at + 2] == [0, 0];
    none || pseudo.plus(Sum::of(upper)).is_intact()
}
