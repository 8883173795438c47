//! The program that sends without the ring agrees with the model: what it sends, drops, refuses and gives back.

use super::*;
use exos_filter::transmit::{END, LOST, QUEUE_LEN, TAKEN};
use gate::sender::{Sender, Words};

/// What the kernel takes a frame for that begins so.
fn protocol_of_buffer(frame: &[u8]) -> [u8; 2] {
    match frame[12..14] {
        // IEEE 802.3 with a header of 802.2.
        [high, _] if high < 6 => [0, 4],
        [high, low] => [high, low],
        _ => unreachable!("two bytes"),
    }
}

/// The program does not look at what the model decides: the kernel takes the buffer for something else.
fn refused(model: &Model, slot: u32, ifindex: u32, frame: &[u8], protocol: [u8; 2]) -> bool {
    let own = model.slots[slot as usize];
    let looked_at = model.config.taps == 0 && own.ifindex == ifindex && own.kind != SlotKind::None;
    looked_at && frame.len() >= 34 && frame[12..14] != protocol
}

/// What the model says to frames that are sent together, as the words that count it; and which are given back. Live frames
/// are of no protocol.
fn expected(
    model: &mut Model,
    (slot, ifindex): (u32, u32),
    frames: &[Vec<u8>],
    protocol: Option<[u8; 2]>,
) -> (Words, Vec<bool>) {
    let mut words = Words::default();
    let mut given_back = Vec::new();
    for frame in frames {
        words.taken += 1;
        let mut back = false;
        if protocol.is_some_and(|protocol| refused(model, slot, ifindex, frame, protocol)) {
            words.refused += 1;
        } else {
            let decided = match protocol {
                Some(_) => model.handle_batch(frame, slot, ifindex, 1),
                None => model.handle_live(frame, slot, 1),
            };
            back = decided.is_none();
            words.returned += u64::from(back);
        }
        given_back.push(back);
    }
    (words, given_back)
}

/// Generated tables, generated and mutated frames, alone and many together.
#[test]
fn batches_agree_with_the_model() {
    in_namespace("batches_agree_with_the_model", || agree(Sender::new));
}

/// Generated tables and frames, for the program of live frames.
#[test]
fn live_frames_agree_with_the_model() {
    let test = "live_frames_agree_with_the_model";
    if gate::sender::origin().is_none() {
        return common::skipped(&format!("{test}: no type information"));
    }
    in_namespace(test, || {
        agree(|tables, slot, ifindex| Sender::live(tables, slot, ifindex).unwrap());
    });
}

fn agree(sender: impl Fn(&Tables, u32, u32) -> Sender) {
    let interfaces = gate::interfaces(SLOTS);
    let pool = pool();
    let mut seen = [0_u64; Counter::COUNT];
    let mut total = Words::default();
    // Programs are loaded once: the verifier takes longer over them than all else does.
    let tables = gate::create();
    let senders: Vec<Sender> = (1..6)
        .map(|slot| sender(&tables, slot, interfaces[slot as usize]))
        .collect();
    let is_live = senders[0].live.is_some();
    let mut last = Model::default();
    for seed in 0..exos_testing::cases(16) {
        let random = &mut Random(seed + 1_000_000);
        let mut model = model(&interfaces, random);
        model.config.taps = u32::from(random.one_in(12));
        tables.empty();
        tables.fill(&model);
        // The kernel's counters go on.
        model.counters = last.counters;
        for number in 0..250 {
            let slot = random.pick(&[1, 1, 1, 2, 2, 2, 3, 3, 4, 5]);
            let sender = &senders[slot as usize - 1];
            let count = if random.one_in(8) {
                1 + random.below(100)
            } else {
                1
            };
            let frames: Vec<_> = (0..count).map(|_| pool.frame(random)).collect();
            let mut beginning = frames[0][..14].to_vec();
            beginning.resize(60 + random.below(100), 0);
            let protocol = sender.live.is_none();
            let protocol = protocol.then(|| protocol_of_buffer(&beginning));
            let (before, lost) = (sender.words(), sender.word(LOST));
            let own = (slot, sender.ifindex);
            let (words, given_back) = expected(&mut model, own, &frames, protocol);
            sender.put(&frames);
            sender.run(&beginning);
            let what = || {
                let first = hex(&frames[0]);
                format!("seed {seed} number {number} slot {slot}: {count} frames\n{first}")
            };
            let after = sender.words();
            let have = Words {
                taken: after.taken - before.taken,
                refused: after.refused - before.refused,
                returned: after.returned - before.returned,
            };
            assert_eq!(have, words, "{}", what());
            for (n, back) in given_back.into_iter().enumerate() {
                let marked = sender.is_given_back(before.taken, n as u64);
                assert_eq!(marked, back, "frame {n} of {}", what());
            }
            // Whether an interface takes frames is not the model's to say: gate and queue count the same.
            let lost = sender.word(LOST) - lost;
            model.counters[slot as usize][Counter::TxLost as usize] += lost;
            compare(&tables, &model, &what);
            total.refused += words.refused;
            total.returned += words.returned;
        }
        assert_eq!(
            model.fragments.len(),
            0,
            "no batch opens a way for fragments"
        );
        last = model;
    }
    for (sum, counters) in last.counters.iter().flatten().enumerate() {
        seen[sum % Counter::COUNT] += counters;
    }
    assert!(total.returned > 100, "{total:?}");
    assert!(is_live || total.refused > 100, "{total:?}");
    all_were_counted(&seen, is_live);
}

/// What a program that sends for a slot can count was counted.
fn all_were_counted(seen: &[u64; Counter::COUNT], is_live: bool) {
    if !is_live {
        let batches_only = [
            Counter::RxPackets,
            Counter::RxOverShare,
            Counter::TxToSlot,
            Counter::TxToHost,
            Counter::TxLost,
        ];
        assert!(
            batches_only
                .into_iter()
                .all(|counter| seen[counter as usize] > 0)
        );
    }
    for counter in [
        Counter::NoRing,
        Counter::TxPackets,
        Counter::TxBadMac,
        Counter::TxBadEthertype,
        Counter::TxNdp,
        Counter::TxBadHeader,
        Counter::TxBadSource,
        Counter::TxFragment,
        Counter::TxOverShare,
    ] {
        assert!(
            seen[counter as usize] > 0,
            "{} never counted",
            counter.name()
        );
    }
}

/// Numbers of the queue may be anything: the program keeps to its places, and goes round.
#[test]
fn batches_go_round_the_queue() {
    in_namespace("batches_go_round_the_queue", || {
        let interface = gate::interfaces(2)[1];
        let model = one_program(interface);
        let tables = gate::create();
        tables.fill(&model);
        let sender = Sender::new(&tables, 1, interface);
        let header = gate::packets::ports(UDP, 80, 50000, 8);
        let packet = gate::packets::ip(v("192.0.2.7"), v("198.51.100.9"), UDP, None, &[], &header);
        let frame = gate::packets::ethernet(PEER_MAC, MAC, 0x0800, &packet);
        let mut sent = 0;
        for taken in [0, 300, u64::MAX - 40, u64::from(u32::MAX) - 3, 1 << 63] {
            sender.set_word(TAKEN, taken);
            let frames = vec![&frame; QUEUE_LEN as usize];
            sender.send(&frames);
            assert_eq!(sender.word(TAKEN), taken.wrapping_add(frames.len() as u64));
            sent += frames.len() as u64;
            let counted = tables.counters(1)[Counter::TxPackets as usize];
            assert_eq!(counted, sent);
        }
        assert_eq!(sender.word(END), sender.word(TAKEN));
        assert_eq!(sender.words().refused + sender.words().returned, 0);
        // 33 tail calls are the kernel's most; without an entry to call there are none.
        let beginning = gate::sender::beginning(&frame[12..14]);
        for (repeat, each, emptied) in [(1, 34, false), (3, 34, false), (1, 1, true), (5, 1, true)]
        {
            if emptied {
                let _ = sender.programs.clear(0).unwrap();
            }
            let before = sender.word(TAKEN);
            sender.set_word(END, u64::MAX / 2);
            sender.program.run_batch(&beginning, 0, repeat).unwrap();
            let taken = sender.word(TAKEN).wrapping_sub(before);
            assert_eq!(taken, u64::from(repeat * each));
        }
    });
}
