//! The wire in memory: nothing lost, doubled, reordered or seen before its
//! flush, compared with queues that are obviously right.

use std::collections::VecDeque;

use exos_link::{
    Link, MemoryConfig, MemoryLink, Offload, RX_BATCH, RxChecksum, RxMeta, TxChecksum, TxMeta,
};
use exos_wire::Mac;
use proptest::prelude::*;

const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];

fn pair(config: MemoryConfig) -> [Link; 2] {
    MemoryLink::pair(MACS, config).map(Link::from)
}

#[derive(Clone, Debug)]
enum Step {
    Transmit { head: Vec<u8>, body: Vec<Vec<u8>> },
    Flush,
    Receive,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let frame = (bytes(), prop::collection::vec(bytes(), 0..4));
    let step = prop_oneof![
        6 => frame.prop_map(|(head, body)| Step::Transmit { head, body }),
        2 => Just(Step::Flush),
        1 => Just(Step::Receive),
    ];
    (0..2usize, step)
}

/// One direction as it should be.
#[derive(Default)]
struct Expected {
    queued: VecDeque<Vec<u8>>,
    visible: VecDeque<Vec<u8>>,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn ends_agree_with_queues(
        capacity in 1..100usize,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut ends = pair(MemoryConfig { capacity, ..MemoryConfig::default() });
        let mut expected = [Expected::default(), Expected::default()];
        for (end, step) in steps {
            let link = &mut ends[end];
            match step {
                Step::Transmit { head, body } => {
                    let out = &mut expected[end];
                    let room = capacity - out.queued.len() - out.visible.len();
                    prop_assert_eq!(link.room(), room);
                    let parts: Vec<&[u8]> = body.iter().map(Vec::as_slice).collect();
                    prop_assert_eq!(link.transmit(&head, &parts, TxMeta::default()), room > 0);
                    if room > 0 {
                        out.queued.push_back([head, body.concat()].concat());
                    }
                }
                Step::Flush => {
                    link.flush().unwrap();
                    let out = &mut expected[end];
                    out.visible.append(&mut out.queued);
                }
                Step::Receive => {
                    let incoming = &mut expected[1 - end].visible;
                    prop_assert_eq!(link.prepare_wait(), incoming.is_empty());
                    let batch = incoming.len().min(RX_BATCH as usize);
                    let mut frames = incoming.drain(..batch);
                    let count = link.receive(|frame, meta| {
                        assert_eq!(Some(frame), frames.next().as_deref());
                        assert_eq!(meta, RxMeta::default());
                    });
                    prop_assert_eq!(count, batch);
                }
            }
        }
    }
}

#[test]
fn offloads_are_passed_on() {
    let offload = Offload {
        tx_checksum: true,
        tx_segmentation: Some(65_535),
        rx_partial_checksum: true,
    };
    let [mut a, mut b] = pair(MemoryConfig {
        offload,
        ..MemoryConfig::default()
    });
    assert_eq!(
        (a.offload(), a.mac(), b.mac(), a.mtu()),
        (offload, MACS[0], MACS[1], 1500)
    );
    let checksum = TxChecksum::Partial {
        start: 34,
        offset: 16,
    };
    let partial = TxMeta {
        checksum,
        ..TxMeta::default()
    };
    assert!(a.transmit(&[1; 100], &[], partial));
    assert!(a.transmit(
        &[2; 100],
        &[&[3; 60_000]],
        TxMeta {
            segment_size: Some(1448),
            ..partial
        }
    ));
    a.flush().unwrap();
    let mut seen = Vec::new();
    b.receive(|frame, meta| seen.push((frame.len(), meta)));
    let partial = |gso_size| RxMeta {
        checksum: RxChecksum::Partial,
        gso_size,
        ..RxMeta::default()
    };
    assert_eq!(seen, [(100, partial(None)), (60_100, partial(Some(1448)))]);
}

#[test]
#[should_panic(expected = "without checksum offload")]
fn an_offload_that_is_not_there_is_a_bug() {
    let [mut a, _b] = pair(MemoryConfig::default());
    let checksum = TxChecksum::Partial {
        start: 34,
        offset: 16,
    };
    a.transmit(
        &[0; 60],
        &[],
        TxMeta {
            checksum,
            ..TxMeta::default()
        },
    );
}

#[test]
#[should_panic(expected = "a frame of 1519 bytes")]
fn a_frame_longer_than_the_link_takes_is_a_bug() {
    let [mut a, _b] = pair(MemoryConfig::default());
    a.transmit(&[0; 54], &[&[0; 1465]], TxMeta::default());
}

#[test]
fn refusals_are_counted() {
    let [mut a, _b] = pair(MemoryConfig {
        capacity: 1,
        ..MemoryConfig::default()
    });
    assert!(a.transmit(&[0; 60], &[], TxMeta::default()));
    assert!(!a.transmit(&[0; 60], &[], TxMeta::default()));
    assert!(a.counters().contains(&("tx_no_room", 1)));
    assert!(a.counters().contains(&("tx_frames", 1)));
}
