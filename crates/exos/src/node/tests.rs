//! How much a turn takes in, on a wire in memory.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::relay::Passage;
use exos_inet::Config;
use exos_link::{MemoryConfig, MemoryLink, RX_BATCH, TxMeta};
use exos_wire::Mac;
use exos_wire::arp::{self, ArpPacket};

/// A node with this many frames waiting to be received; none of them is for a socket or a listener.
fn node_with(frames: usize) -> (Exos, MemoryLink) {
    let macs = [Mac([2; 6]), Mac([4; 6])];
    let config = MemoryConfig {
        capacity: frames,
        ..MemoryConfig::default()
    };
    let [link, mut other] = MemoryLink::pair(macs, config);
    let frame = [&macs[0].0[..], &macs[1].0, &[0x88, 0xb5], &[0; 46]].concat();
    for _ in 0..frames {
        assert!(other.transmit(&frame, &[], TxMeta::default()));
    }
    other.flush();
    let config = Config::new(macs[0], link.mtu());
    let stack = Stack::new(config, 1, clock::now()).expect("a stack");
    (Exos::new(stack, link.into()), other)
}

/// A batch, and one more for each 128 frames sent before, which brought acknowledgements.
#[test]
fn a_turn_takes_in_what_answers_the_turn_before() {
    for (sent, batches) in [(0, 1), (127, 1), (128, 2), (300, 3), (SEND_BATCH, 5)] {
        let (mut node, _other) = node_with(1_000);
        node.sent = sent;
        assert_eq!(node.receive(), batches * RX_BATCH as usize, "{sent} sent");
        assert!(node.worked);
    }
}

/// The answers of those that are there leave before others are waited for.
#[test]
fn a_batch_that_is_not_full_is_the_last_of_its_turn() {
    for (there, taken) in [(0, 0), (10, 10), (64, 64), (65, 65), (200, 200)] {
        let (mut node, _other) = node_with(there);
        node.sent = SEND_BATCH;
        assert_eq!(node.receive(), taken, "{there} frames");
        assert_eq!(node.worked, taken > 0);
        assert_eq!(node.receive(), 0);
    }
}

/// Where a neighbour is that a forwarder's core has asked for, another core may hear: both know it then, and the program sees the
/// frame once.
#[test]
fn a_relay_hands_on_what_is_for_other_cores_stacks() {
    let (ours, theirs) = (Mac([2; 6]), Mac([4; 6]));
    let [us, them] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
    let core = |handoff| {
        let [link, other] = MemoryLink::pair([ours, theirs], MemoryConfig::default());
        let mut config = Config::new(ours, link.mtu());
        config.addresses = vec![(us.into(), 24)];
        let stack = Stack::new(config, 1, clock::now()).expect("a stack");
        let mut exos = Exos::new(stack, link.into());
        exos.handoff = Some(handoff);
        (exos, other)
    };
    let ends = Handoff::between(2).expect("descriptors");
    let mut cores: Vec<_> = ends.into_iter().map(core).collect();
    let knows = |exos: &mut Exos| exos.stack.link_address(clock::now(), IpAddr::from(them));
    assert!(cores.iter_mut().all(|(exos, _)| knows(exos).is_none()));
    let mut answer = [0; arp::LEN];
    let packet = ArpPacket {
        operation: arp::REPLY,
        sender_mac: theirs,
        sender_ip: them,
        target_mac: ours,
        target_ip: us,
    };
    packet.emit(&mut answer);
    let frame = [&ours.0[..], &theirs.0, &[8, 6], &answer].concat();
    assert!(cores[0].1.transmit(&frame, &[], TxMeta::default()));
    cores[0].1.flush();
    let mut shown = 0;
    for (exos, _) in &mut cores {
        assert_eq!(
            exos.relay(|_, _, _, _| {
                shown += 1;
                Passage::Stack
            }),
            1
        );
        assert_eq!(knows(exos), Some(theirs));
    }
    assert_eq!(shown, 1);
}
