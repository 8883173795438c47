//! Segments and errors that somebody forged: nothing panics, nothing spins, and what cannot be told
//! from the truth does no more harm than it must.

use crate::forge;

use exos_sim::prelude::*;
use exos_wire::icmpv4::{self, Icmpv4};
use exos_wire::icmpv6::Icmpv6;
use forge::{Overheard, icmp_about, mend, overhear, port_unreachable, set_source, tcp_at};

/// An overheard segment, changed somewhere in its TCP header or cut short, with a right checksum.
fn forged(random: &mut Random, heard: &Overheard) -> Option<(usize, Vec<u8>)> {
    let heard = heard.borrow();
    let recent = heard.len().saturating_sub(20);
    let (from, frame) = heard.get(recent + random.below(20) as usize)?;
    if !is_tcp(frame) {
        return None;
    }
    let mut frame = frame.clone();
    let at = tcp_at(&frame);
    for _ in 0..1 + random.below(3) {
        let header_len = (usize::from(frame[at + 12] >> 4) * 4).clamp(20, frame.len() - at);
        // Ports are left alone: a stranger's connection is no attack on this one.
        let byte = at + 4 + random.below(header_len as u64 - 4) as usize;
        frame[byte] = match random.below(3) {
            0 => frame[byte] ^ (1 << random.below(8)),
            1 => frame[byte].wrapping_add(1),
            _ => random.below(256) as u8,
        };
    }
    mend(&mut frame);
    Some((1 - *from, frame))
}

/// Random changes of headers on the way, checksums mended. The connection may break, nobody else
/// may.
#[test]
fn forged_headers_never_panic() {
    for seed in 0..100 {
        let mut sim = Sim::new(Seed(seed)).ipv6(seed % 2 == 1).latency(ms(5));
        sim.server.listen(80, Plan::serve(200_000));
        let heard = overhear(&mut sim);
        sim.client
            .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
        let mut random = Random::new(Seed(seed), 99);
        for _ in 0..200 {
            sim.run_for(Duration::from_micros(random.below(2000)));
            if let Some((to, frame)) = forged(&mut random, &heard) {
                sim.inject(to, &frame);
            }
        }
        sim.run_for(secs(100));
        // Whatever became of that connection, the next one works.
        let next = sim
            .client
            .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
        sim.run_until(|s| s.client.endpoint(next).peer_finished, at_most(secs(10)));
        assert_eq!(sim.client.endpoint(next).received.len(), 200_000);
        assert!(sim.client.endpoint(next).received_pattern());
    }
}

/// RFC 5961: someone who knows the four-tuple but not the numbers cannot end or stall a connection.
#[test]
fn blind_attacks_do_not_break_a_connection() {
    for seed in 0..50 {
        let mut sim = Sim::new(Seed(seed)).ipv6(seed % 2 == 1).latency(ms(5));
        sim.server.listen(80, Plan::MANUAL);
        let heard = overhear(&mut sim);
        let conn = sim.client.connect(sim.server.addr());
        sim.run_for(ms(100));
        let mut random = Random::new(Seed(seed), 98);
        let template = heard
            .borrow()
            .iter()
            .rev()
            .find(|(from, _)| *from == SERVER)
            .unwrap()
            .1
            .clone();
        let at = tcp_at(&template);
        // SYN, RST, RST ACK, FIN ACK, ACK, data: each with random numbers.
        for flags in [0x02, 0x04, 0x14, 0x11, 0x10, 0x18].repeat(100) {
            let mut frame = template.clone();
            frame[at + 4..at + 8].copy_from_slice(&random.next_u64().to_be_bytes()[..4]);
            frame[at + 8..at + 12].copy_from_slice(&random.next_u64().to_be_bytes()[..4]);
            frame[at + 13] = flags;
            mend(&mut frame);
            sim.inject(CLIENT, &frame);
        }
        assert_eq!(sim.client.closed(conn), None);
        sim.client.send_pattern(conn, 50_000);
        sim.run_until(
            |s| s.server.endpoint(s.server.nth(0)).received.len() == 50_000,
            at_most(secs(5)),
        );
        assert!(sim.server.endpoint(sim.server.nth(0)).received_pattern());
    }
}

fn too_big(frame: &[u8], mtu: u16) -> Vec<u8> {
    icmp_about(frame, |quoted| {
        let mut out = vec![0; 8 + quoted.len()];
        if tcp_at(frame) == 34 {
            let code = icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED;
            Icmpv4::Unreachable {
                code,
                mtu: Some(mtu),
                quoted,
            }
            .emit(&mut out);
        } else {
            // The addresses of the packet that it is about, turned round.
            let address = |at: usize| <[u8; 16]>::try_from(&quoted[at..at + 16]).unwrap().into();
            Icmpv6::PacketTooBig {
                mtu: mtu.into(),
                quoted,
            }
            .emit(&address(24), &address(8), &mut out);
        }
        out
    })
}

/// RFC 1191, RFC 8201: a link on the way has a smaller MTU and says so; what was lost goes again in
/// smaller pieces.
#[test]
fn path_mtu_is_found() {
    for (ipv6, mtu) in [(false, 1400), (false, 600), (true, 1300)] {
        let mut sim = Sim::new(Seed(4)).ipv6(ipv6).latency(ms(5));
        sim.server.listen(80, Plan::LISTEN);
        let conn = sim.client.connect(sim.server.addr());
        sim.run_for(secs(1));
        let dropped = Overheard::default();
        let sink = dropped.clone();
        sim.link().drop_if(move |from, frame| {
            let large = frame.len() > 14 + usize::from(mtu);
            if large {
                sink.borrow_mut().push((from, frame.to_vec()));
            }
            large
        });
        sim.client.send_pattern(conn, 100_000);
        for _ in 0..500 {
            sim.run_for(ms(10));
            let lost = std::mem::take(&mut *dropped.borrow_mut());
            for (from, frame) in lost {
                sim.inject(from, &too_big(&frame, mtu));
            }
        }
        let server = sim.server.endpoint(sim.server.nth(0));
        assert_eq!(server.received.len(), 100_000, "MTU {mtu}");
        assert!(server.received_pattern());
        assert_eq!(sim.client.stack.counters().tcp_black_holes, 0);
        // RFC 1191 §6.3: ten minutes later larger segments are tried, and the path is wide again.
        let reduced = sim.client.info(conn).unwrap().mss;
        sim.link().drop_none();
        sim.run_for(secs(550));
        sim.client.send_pattern(conn, 50_000);
        sim.run_for(secs(10));
        assert_eq!(sim.client.info(conn).unwrap().mss, reduced);
        sim.run_for(secs(50));
        sim.client.send_pattern(conn, 50_000);
        sim.run_for(secs(10));
        let full = 1500 - if ipv6 { 72 } else { 52 };
        assert_eq!(sim.client.info(conn).unwrap().mss, full);
    }
}

/// RFC 5927 §4.1: an error whose sequence number is not in flight is no news; and none ends a
/// connection that stands.
#[test]
fn forged_errors_are_ignored() {
    for ipv6 in [false, true] {
        let mut sim = Sim::new(Seed(4)).ipv6(ipv6).latency(ms(5));
        sim.server.listen(80, Plan::LISTEN);
        let heard = overhear(&mut sim);
        let conn = sim.client.connect(sim.server.addr());
        sim.run_for(secs(1));
        let mut frame = heard
            .borrow()
            .iter()
            .rev()
            .find(|(from, _)| *from == CLIENT)
            .unwrap()
            .1
            .clone();
        let mss = sim.client.info(conn).unwrap().mss;
        let at = tcp_at(&frame);
        for sequence in [0u32, 1, u32::MAX / 2, u32::MAX] {
            frame[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
            sim.inject(CLIENT, &too_big(&frame, 1280));
        }
        assert_eq!(
            sim.client.info(conn).unwrap().mss,
            mss,
            "believed a forged MTU"
        );
        sim.client.send_pattern(conn, 5000);
        sim.run_for(ms(1));
        let in_flight = heard.borrow().last().unwrap().1.clone();
        sim.inject(CLIENT, &port_unreachable(&in_flight));
        sim.run_for(secs(1));
        assert_eq!(sim.client.stack.counters().icmp_errors_received, 5);
        assert_eq!(sim.server.endpoint(sim.server.nth(0)).received.len(), 5000);
        // While it is only being opened, it ends (RFC 1122 §4.2.3.9).
        let opening = sim.client.connect((sim.server.ip(), 81).into());
        sim.link().drop_none();
        sim.link().drop_next(1);
        let heard = overhear_and_lose(&mut sim);
        sim.run_for(secs(4));
        let syn = heard.borrow().last().unwrap().1.clone();
        sim.inject(CLIENT, &port_unreachable(&syn));
        assert_eq!(sim.client.closed(opening), Some(Reason::Unreachable));
    }
}

fn overhear_and_lose(sim: &mut Sim) -> Overheard {
    let heard = Overheard::default();
    let sink = heard.clone();
    sim.link().drop_if(move |from, frame| {
        if is_tcp(frame) {
            sink.borrow_mut().push((from, frame.to_vec()));
        }
        is_tcp(frame)
    });
    heard
}

/// Frames of pure noise, and noise behind good Ethernet headers: counted drops, nothing else.
#[test]
fn noise_is_dropped() {
    let mut sim = Sim::new(Seed(4)).latency(ms(5));
    sim.server.listen(80, Plan::LISTEN);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    let mut random = Random::new(Seed(4), 97);
    for n in 0..50_000u32 {
        let len = random.below(200) as usize;
        let mut frame: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        if len >= 54 {
            frame[..6].copy_from_slice(&mac(CLIENT).0);
            frame[6] &= !1;
            let kinds: [[u8; 3]; 4] = [
                [0x08, 0x00, 0x45],
                [0x86, 0xdd, 0x60],
                [0x08, 0x06, 0x00],
                [0x81, 0x00, 0x00],
            ];
            frame[12..15].copy_from_slice(&kinds[n as usize % 4]);
        }
        sim.inject(CLIENT, &frame);
    }
    assert_eq!(sim.client.closed(conn), None);
    let counters = sim.client.stack.counters();
    let dropped: u64 = counters
        .list()
        .iter()
        .filter(|(name, _)| name.starts_with("drop_"))
        .map(|c| c.1)
        .sum();
    assert!(dropped > 40_000, "{dropped} of 50000 counted as dropped");
    sim.client.send_pattern(conn, 10_000);
    sim.run_until(
        |s| s.server.endpoint(s.server.nth(0)).received.len() == 10_000,
        at_most(secs(5)),
    );
}

/// A flood of SYNs from addresses that do not exist: half-open connections are bounded, and time
/// clears them.
#[test]
fn a_syn_flood_passes() {
    let mut sim = Sim::new(Seed(4)).latency(ms(5));
    let options = exos_inet::tcp::ListenOptions {
        backlog: 64,
        ..Default::default()
    };
    sim.server.listen_with(80, Plan::serve(1000), options);
    let heard = overhear(&mut sim);
    let first = sim
        .client
        .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
    sim.run_until(|s| s.client.closed(first).is_some(), at_most(secs(1)));
    let syn = heard.borrow()[0].1.clone();
    for n in 0..5000u32 {
        let mut frame = syn.clone();
        // 10.11.x.y, which no route leads to: what is answered is dropped.
        set_source(&mut frame, (0x0a0b_0000 | n).into(), 1024 + n as u16);
        sim.inject(SERVER, &frame);
    }
    assert!(
        sim.server.stack.tcp.connections() <= 64,
        "{}",
        sim.server.stack.tcp.connections()
    );
    sim.run_for(secs(120));
    let after = sim
        .client
        .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
    sim.run_until(|s| s.client.closed(after).is_some(), at_most(secs(5)));
    assert_eq!(sim.client.endpoint(after).received.len(), 1000);
    assert_eq!(
        sim.server.stack.tcp.connections(),
        0,
        "nothing half-open is left"
    );
}

/// A SYN to everybody's MAC, and one of another VLAN, open nothing and are counted; a priority tag
/// changes nothing.
#[test]
fn frames_that_are_not_ours_alone_open_nothing() {
    let mut sim = Sim::new(Seed(5));
    sim.server.listen(80, Plan::serve(10));
    let heard = overhear(&mut sim);
    let first = sim
        .client
        .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
    sim.run_until(|s| s.client.closed(first).is_some(), at_most(secs(1)));
    let mut syn = heard.borrow()[0].1.clone();
    let at = tcp_at(&syn);
    syn[at..at + 2].copy_from_slice(&999u16.to_be_bytes());
    mend(&mut syn);
    let mut to_all = syn.clone();
    to_all[..6].fill(0xff);
    sim.inject(SERVER, &to_all);
    let tagged = |tci: u16| {
        let tag = [0x81, 0x00, (tci >> 8) as u8, tci as u8];
        [&syn[..12], &tag, &syn[12..]].concat()
    };
    sim.inject(SERVER, &tagged(5));
    sim.run_for(ms(1));
    let counters = sim.server.stack.counters();
    assert_eq!(
        (counters.drop_tcp_group, counters.drop_ethernet_vlan),
        (1, 1)
    );
    assert_eq!(counters.tcp_reset_received, 0);
    // The real client knows nothing of the connection that this opens.
    sim.inject(SERVER, &tagged(0xe000));
    sim.run_for(ms(1));
    assert_eq!(sim.server.stack.counters().tcp_reset_received, 1);
}
