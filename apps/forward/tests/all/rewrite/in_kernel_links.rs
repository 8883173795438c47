//! Several links: by which packets leave, with whose link address, and which packets are left to user space for the link that they
//! come by or would leave by.

use exos_filter::handler::ForwardHandler;
use exos_filter::handler::forward::{Exit, WayOut};
use exos_forward::packets::packet::Transport;
use exos_forward::packets::rewrite::Sums;
use exos_wire::Mac;
use proptest::prelude::*;

use super::super::MAC;
use super::super::common::{Ends, Shape, build, unfinish};
use super::bench::{Bench, REACHES, allowed};
use super::for_all;

/// The program's link.
const OWN: u8 = 1;
const OTHERS: [Mac; 2] = [Mac([2, 0, 0, 0, 5, 5]), Mac([2, 0, 0, 0, 6, 6])];
/// How long packets may be on the last link.
const NARROW: u32 = 120;

/// Three links, of which the last takes short packets alone.
fn exits(own: WayOut, other: impl Fn(u32) -> WayOut) -> Vec<Exit> {
    let exit = |mac, mtu, way_out| Exit { mac, mtu, way_out };
    vec![
        exit(OTHERS[0], 1500, other(7)),
        exit(MAC, 1500, own),
        exit(OTHERS[1], NARROW, other(9)),
    ]
}

fn bench(sums: Sums) -> Bench {
    let exits = exits(WayOut::Transmit, WayOut::Redirect);
    Bench::on_links(sums, ForwardHandler::NEEDS_FENCES, exits, OWN)
}

/// Whichever link a next hop is on, packets leave by it as user space has them leave there, where they fit and there is such a
/// link.
#[test]
fn packets_leave_by_the_link_that_their_next_hop_is_on() {
    if !allowed("packets_leave_by_the_link_that_their_next_hop_is_on") {
        return;
    }
    let of_buffers = || {
        let exits = exits(WayOut::Buffers(1), WayOut::Buffers);
        Bench::on_links(Sums::Complete, ForwardHandler::NEEDS_FENCES, exits, OWN)
    };
    let all = REACHES.into_iter().flat_map(|reach| {
        [
            bench(Sums::Complete).by(reach),
            bench(Sums::MaybePartial).by(reach),
            of_buffers().by(reach),
        ]
    });
    for bench in all {
        for_all(1000, |(from, to), shape, seed| {
            let mut frame = build(MAC, from, shape);
            if bench.sums == Sums::MaybePartial && seed % 3 == 0 && shape.options != 1 {
                unfinish(&mut frame, MAC);
            }
            bench.leave_by([(seed >> 8) as u8 % 4, (seed >> 16) as u8 % 4]);
            bench.compare(shape.transport, (from, to), &frame);
            Ok(())
        });
        let sent = bench.sent.get();
        assert!((200..750).contains(&sent), "{sent} of 1000");
    }
}

/// As long as a link takes, and a byte more: that is for user space, which cuts it or tells its sender.
#[test]
fn what_is_too_long_for_its_link_is_for_user_space() {
    if !allowed("what_is_too_long_for_its_link_is_for_user_space") {
        return;
    }
    let bench = bench(Sums::Complete);
    let v4 = ["10.0.0.1:1", "10.0.0.2:2", "10.0.0.3:3", "10.0.0.4:4"];
    let v6 = ["[fd00::1]:1", "[fd00::2]:2", "[fd00::3]:3", "[fd00::4]:4"];
    for ([a, b, c, d], header) in [(v4, 20), (v6, 40)] {
        let (from, to) = (Ends::of(a, b), Ends::of(c, d));
        for more in [0, 1] {
            let shape = Shape {
                transport: Transport::Udp,
                payload: vec![1; NARROW as usize - header - 8 + more],
                hops: 9,
                options: 0,
                padding: 0,
            };
            let frame = build(MAC, &from, &shape);
            for (link, fits) in [(0, true), (OWN, true), (2, more == 0)] {
                bench.leave_by([link; 2]);
                let sent = bench.compare(shape.transport, (&from, &to), &frame);
                assert_eq!(sent.is_some(), fits, "{more} more by link {link}");
            }
        }
    }
}

/// Packets with a flow's ends that come by another link than the flow's are forwarded by user space alone.
#[test]
fn packets_by_another_link_are_for_user_space() {
    if !allowed("packets_by_another_link_are_for_user_space") {
        return;
    }
    let bench = bench(Sums::Complete);
    let mut sent = [0; 2];
    for come_by in [[OWN, 0], [0, OWN], [2, 2], [OWN, 3]] {
        bench.come_by.set(come_by);
        for_all(100, |(from, to), shape, _| {
            let frame = build(MAC, from, shape);
            let ours = bench.compare(shape.transport, (from, to), &frame);
            let way = bench.way.get();
            let is_here = come_by[way] == OWN && shape.options != 1;
            prop_assert_eq!(ours.is_some(), is_here);
            sent[way] += usize::from(ours.is_some());
            Ok(())
        });
    }
    assert!(sent.iter().all(|sent| *sent > 20), "{sent:?}");
}
