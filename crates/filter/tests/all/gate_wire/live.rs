//! Live frames that a slot's holder sends arrive where they should, and a holder of the program's descriptor does nothing else with it.

use super::batch::{expect_all, numbered};
use super::batch_attacks::{AtLast, allowed, arrived, for_a_while, foreign};
use super::*;
use exos_filter::gate::maps::SECRET_LEN;
use exos_filter::gate::{METADATA_LEN, metadata};
use exos_filter::transmit::{BEGINNING_LEN, TAKEN};
use exos_host::bpf::{Link, Prog, XdpMode};
use gate::sender::Sender;

/// In a namespace with a gate and the holder of slot 1; where the peer takes what is redirected to it, by this program.
fn with_sender(test: &str, peer: &[u64], work: impl FnOnce(&mut Wire, &Sender) + Send) {
    if gate::sender::origin().is_none() {
        return common::skipped(&format!("{test}: no type information"));
    }
    in_namespace(test, || {
        let mut wire = wire();
        let index = Netlink::new().unwrap().link_by_name("peer0").unwrap().index;
        let peer = Prog::load(peer, "peer", false).unwrap();
        let _link = Link::attach_xdp(index, &peer, XdpMode::Native).unwrap();
        let sender = Sender::live(&wire.tables, 1, wire.model.slots[1].ifindex).unwrap();
        work(&mut wire, &sender);
    });
}

/// r0 = XDP_PASS; exit
const PASS: [u64; 2] = [0x0000_0002_0000_00b7, 0x95];

/// What the holder knows, and what others may try.
fn run(sender: &Sender, metadata: &[u8], count: u32) {
    let bytes = [metadata, &[0; BEGINNING_LEN]].concat();
    let ran = sender
        .program
        .run_live(&bytes, metadata.len(), count, count);
    ran.unwrap();
}

/// To the wire, in order; what is for this machine is given back, and what is too long refused.
#[test]
fn live_frames_reach_the_wire() {
    with_sender("live_frames_reach_the_wire", &PASS, |wire, sender| {
        let frames = numbered(150, PEER);
        sender.send(&frames);
        expect_all(&wire.peer, &frames);
        sender.send(&numbered(100, "192.0.2.7:443"));
        sender.send(&numbered(20, "192.0.2.1:7000"));
        let long = [1514, 1515, 1700].map(|len| {
            let mut frame = allowed();
            frame.resize(len, 0);
            frame
        });
        sender.send(&long);
        let words = sender.words();
        assert_eq!((words.refused, words.returned), (2, 120));
        assert_eq!(arrived(wire), long[..1]);
        let expected = [
            (1, Counter::TxPackets, 151),
            (1, Counter::TxToSlot, 0),
            (1, Counter::TxToHost, 0),
        ];
        expect_counted(&wire.tables, &expected);
    });
}

/// As long as the device does not take redirected frames, and while somebody copies packets.
#[test]
fn live_frames_are_given_back_where_they_would_be_lost() {
    let test = "live_frames_are_given_back_where_they_would_be_lost";
    with_sender(test, &PASS, |wire, sender| {
        let key = 0_u32.to_ne_bytes();
        wire.tables.0.wire.delete(&key).unwrap();
        sender.send(&numbered(40, PEER));
        assert_eq!(sender.words().returned, 40);
        let device = wire.device.to_ne_bytes();
        wire.tables.0.wire.update(&key, &device).unwrap();
        wire.model.config.taps = 1;
        wire.tables.fill(&wire.model);
        sender.send(&numbered(40, PEER));
        assert_eq!(sender.words().returned, 80);
        wire.model.config.taps = 0;
        wire.tables.fill(&wire.model);
        sender.send(&[allowed()]);
        assert_eq!(arrived(wire), [allowed()]);
        expect_counted(&wire.tables, &[(1, Counter::TxPackets, 1)]);
    });
}

/// Too short, too long, with a bit of the secret changed, of other slots.
fn wrong_metadata(secret: [u8; SECRET_LEN]) -> Vec<Vec<u8>> {
    let other = |at: usize| {
        let mut secret = secret;
        secret[at] ^= 1;
        metadata(1, secret)
    };
    let right = metadata(1, secret);
    vec![
        vec![],
        right[..METADATA_LEN - 4].to_vec(),
        [&right[..], &[0; 4]].concat(),
        [&[0; 8], &right[..]].concat(),
        other(0).to_vec(),
        other(7).to_vec(),
        other(8).to_vec(),
        other(15).to_vec(),
        metadata(2, secret).to_vec(),
        metadata(0, secret).to_vec(),
        metadata(u32::MAX, secret).to_vec(),
        // Slots that nobody sends live frames for.
        metadata(2, [0; SECRET_LEN]).to_vec(),
        metadata(0, [0; SECRET_LEN]).to_vec(),
    ]
}

/// By the secret alone it is known whose frames they are, and there is none where nobody was lent one.
#[test]
fn without_the_secret_nothing_is_taken() {
    with_sender(
        "without_the_secret_nothing_is_taken",
        &PASS,
        |wire, sender| {
            let secret: [u8; SECRET_LEN] = [8; SECRET_LEN];
            let right = metadata(1, secret);
            sender.put(&vec![allowed(); 60]);
            for metadata in wrong_metadata(secret) {
                run(sender, &metadata, 40);
                assert_eq!(sender.word(TAKEN), 0, "{metadata:x?}");
            }
            let before = wire.tables.counters(1);
            // A run whose verdicts nobody carries out.
            let bytes = [&right[..], &[0; BEGINNING_LEN]].concat();
            sender.program.test_run_repeated(&bytes, 30).unwrap();
            assert_eq!(sender.word(TAKEN), 0);
            assert_eq!(wire.tables.counters(1), before, "nothing is charged");
            // Frames that begin longer, or shorter.
            for len in [14, 59, 61, 3000] {
                let bytes = [&right[..], &vec![0; len]].concat();
                let _ = sender.program.run_live(&bytes, METADATA_LEN, 30, 30);
                assert_eq!(sender.word(TAKEN), 0, "{len}");
            }
            run(sender, &right, 60);
            assert_eq!(arrived(wire), vec![allowed(); 60]);

            // Once it is taken back, and once the slot is empty.
            let key = 1_u32.to_ne_bytes();
            let secrets = &wire.tables.0.secrets;
            let value = secrets.lookup(&key).unwrap().unwrap();
            secrets.update(&key, &[0; SECRET_LEN + 8]).unwrap();
            sender.put(&vec![allowed(); 10]);
            run(sender, &right, 10);
            run(sender, &metadata(1, [0; SECRET_LEN]), 10);
            assert_eq!(sender.word(TAKEN), 60);
            secrets.update(&key, &value).unwrap();
            let empty = Slot::default().to_bytes();
            wire.tables.0.slots.update(&key, &empty).unwrap();
            run(sender, &right, 10);
            assert_eq!(arrived(wire), Vec::<Vec<u8>>::new());
            expect_counted(&wire.tables, &[(1, Counter::TxPackets, 60)]);
        },
    );
}

/// Who gets the frame sees no secret, neither as metadata nor in the room before the frame.
#[test]
fn the_secret_stays_here() {
    // Puts the 24 bytes before the frame in front of it: r6 = ctx, then bpf_xdp_adjust_head(ctx, -24), XDP_PASS; a frame with
    // metadata is dropped.
    let before: [u64; 11] = [
        0x0000_0000_0000_16bf, // r6 = r1
        0x0000_0000_0008_6261, // r2 = *(u32 *)(r6 + 8): data_meta
        0x0000_0000_0000_6361, // r3 = *(u32 *)(r6 + 0): data
        0x0000_0000_0005_325d, // if r2 != r3 goto drop
        0x0000_0000_0000_61bf, // r1 = r6
        0xffff_ffe8_0000_02b7, // r2 = -24
        0x0000_002c_0000_0085, // call bpf_xdp_adjust_head
        0x0000_0002_0000_00b7, // r0 = XDP_PASS
        0x0000_0000_0000_0095, // exit
        0x0000_0001_0000_00b7, // drop: r0 = XDP_DROP
        0x0000_0000_0000_0095, // exit
    ];
    with_sender("the_secret_stays_here", &before, |wire, sender| {
        sender.send(&vec![allowed(); 30]);
        let mut got = 0;
        wait_until(|| {
            for frame in std::iter::from_fn(|| wire.peer.next()) {
                if frame.len() == METADATA_LEN + allowed().len() && frame.ends_with(&allowed()) {
                    assert!(
                        !frame[..METADATA_LEN]
                            .windows(4)
                            .any(|bytes| bytes == [8; 4]),
                        "{frame:x?}"
                    );
                    got += 1;
                }
            }
            got == 30
        });
        assert_eq!(got, 30);
    });
}

/// A frame that is changed while it is sent leaves as what was checked.
#[test]
fn live_frames_that_change_meanwhile_leave_as_checked() {
    let test = "live_frames_that_change_meanwhile_leave_as_checked";
    with_sender(test, &PASS, |wire, sender| {
        sender.put(&vec![allowed(); 512]);
        let first = sender.word(sender.place(0));
        (0..512).for_each(|n| sender.set_word(sender.place(n), first));
        sender.set_word(exos_filter::transmit::END, u64::MAX / 2);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let mut got = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    sender.write(0, &foreign());
                    sender.write(0, &allowed());
                }
            });
            let _ends = AtLast(&stop);
            for_a_while(|| {
                sender.run_live(20);
                while let Some(frame) = wire.peer.next() {
                    if frame[12..14] == [8, 0] {
                        assert_eq!(frame[26..36], allowed()[26..36], "source and port");
                        got += 1;
                    }
                }
                got > 100 && wire.tables.counters(1)[Counter::TxBadSource as usize] > 0
            });
        });
    });
}

/// Attached to an interface, natively or not, the program sends nothing, whatever arrives there.
#[test]
fn attached_elsewhere_it_sends_nothing() {
    with_sender(
        "attached_elsewhere_it_sends_nothing",
        &PASS,
        |wire, sender| {
            let netlink = Netlink::new().unwrap();
            netlink.create_veth("own0", "own1").unwrap();
            let index = |name: &str| netlink.link_by_name(name).unwrap().index;
            let (own, other) = (index("own0"), index("own1"));
            for index in [own, other] {
                netlink.set_up(index, true).unwrap();
            }
            let packets = gate::wire::Packets::open(other);
            sender.put(&vec![allowed(); 100]);
            for mode in [XdpMode::Generic, XdpMode::Native] {
                let _link = Link::attach_xdp(own, &sender.program, mode).unwrap();
                let secret = metadata(1, [8; SECRET_LEN]);
                for frame in [allowed(), [&secret[..], &allowed()].concat()] {
                    (0..20).for_each(|_| packets.send(&frame));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            assert_eq!(sender.word(TAKEN), 0);
            assert_eq!(arrived(wire), Vec::<Vec<u8>>::new());
        },
    );
}
