//! Frames that arrive in memory of the slot's holder: which of them do, in which order, and that each goes one way and no other.

use super::*;
use exos_filter::arrivals::{
    BY_INTERFACE, FRAME, FRAME_LEN_MAX, PLACES, PUT, REDIRECTED, State, VALUE_LEN, VALUES,
    beginning,
};
use exos_host::bpf::MappedArray;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

const DROP: u32 = 1;
const REDIRECT: u32 = 4;

/// Where the payload of `frame` is: behind Ethernet, IPv4 and UDP.
const PAYLOAD: usize = 14 + 20 + 8;

/// A frame of this length for the slot, with a number in its payload.
fn frame(number: u64, len: usize) -> Vec<u8> {
    let payload = len - PAYLOAD;
    let mut transport = gate::packets::ports(UDP, 5000, 53, payload);
    transport.resize(8 + payload, 0);
    let packet = gate::packets::ip(
        v("198.51.100.9"),
        v("192.0.2.7"),
        UDP,
        None,
        &[],
        &transport,
    );
    let mut frame = gate::packets::ethernet(MAC, PEER_MAC, 0x0800, &packet);
    assert_eq!(frame.len(), len);
    frame[PAYLOAD..PAYLOAD + 8].copy_from_slice(&number.to_be_bytes());
    frame
}

/// A gate whose slot 1 has such memory.
struct Gate {
    memory: MappedArray,
    programs: Programs,
    tables: Tables,
}

impl Gate {
    fn new() -> Self {
        let interfaces = gate::interfaces(2);
        let mut model = Model::default();
        model.config.mac = MAC;
        grant(
            &mut model,
            FlowKey::port(UDP, (v("192.0.2.7"), 53).into()),
            1,
        );
        model.slots[1] = slot(SlotKind::Veth, interfaces[1]);
        model.ports.insert(1);
        let tables = gate::create();
        let memory = MappedArray::new("arrivals", VALUE_LEN, VALUES).unwrap();
        memory.map().update(&[0; 4], &beginning()).unwrap();
        tables.0.arrivals.set_fd(1, memory.map().as_fd()).unwrap();
        let programs = programs(&tables, &model);
        tables.fill(&model);
        Self {
            memory,
            programs,
            tables,
        }
    }

    /// What the program says of a frame.
    fn run(&self, frame: &[u8]) -> u32 {
        self.programs.incoming.test_run(frame).unwrap().verdict
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.memory.words()[offset / 8]
    }

    fn state(&self, number: u64) -> &AtomicU64 {
        self.word(place(number))
    }

    /// The frame at this number's place.
    fn frame(&self, number: u64, len: usize) -> Vec<u8> {
        let words = &self.memory.words()[(place(number) + FRAME) / 8..];
        let bytes = words.iter().take(len.div_ceil(8));
        let mut bytes: Vec<u8> = bytes.flat_map(|w| w.load(SeqCst).to_ne_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}

fn place(number: u64) -> usize {
    (1 + (number % u64::from(PLACES)) as usize) * VALUE_LEN
}

#[test]
fn frames_arrive_in_memory_while_their_holder_is_awake() {
    in_namespace("frames_arrive_in_memory", || {
        let gate = Gate::new();
        assert_eq!(gate.run(&frame(0, 60)), REDIRECT, "nobody takes any yet");
        assert_eq!(gate.word(PUT).load(SeqCst), 0);
        gate.word(BY_INTERFACE).store(0, SeqCst);
        for number in 0..u64::from(PLACES) {
            let wanted = frame(number, 60 + number as usize);
            assert_eq!(gate.run(&wanted), DROP);
            let state = State(gate.state(number).load(SeqCst));
            assert_eq!(state, State::there(number, wanted.len()));
            assert_eq!(gate.frame(number, wanted.len()), wanted);
        }
        assert_eq!(gate.word(BY_INTERFACE).load(SeqCst), 0);
        // No place is empty: from now on they take the interface, also when one is.
        assert_eq!(gate.run(&frame(0, 60)), REDIRECT);
        let next = u64::from(PLACES);
        gate.state(next).store(State::empty(next).0, SeqCst);
        assert_eq!(gate.run(&frame(0, 60)), REDIRECT);
        assert_eq!(gate.word(PUT).load(SeqCst), next);
        assert_eq!(gate.word(REDIRECTED).load(SeqCst), 3);
        gate.word(BY_INTERFACE).store(0, SeqCst);
        assert_eq!(gate.run(&frame(7, 60)), DROP);
        assert_eq!(gate.frame(next, 60), frame(7, 60));
        // Whichever way: all of them were for the slot.
        let counted = gate.tables.counters(1)[Counter::RxPackets as usize];
        assert_eq!(counted, u64::from(PLACES) + 4);
    });
}

/// Somebody has a number and has not written its frame: the place is not empty for the next round.
#[test]
fn a_place_that_is_written_to_is_not_empty() {
    in_namespace("a_place_that_is_written_to_is_not_empty", || {
        let gate = Gate::new();
        gate.word(BY_INTERFACE).store(0, SeqCst);
        gate.word(PUT).store(1, SeqCst);
        for number in 1..u64::from(PLACES) {
            assert_eq!(gate.run(&frame(number, 60)), DROP);
            let next = State::empty(number + u64::from(PLACES));
            gate.state(number).store(next.0, SeqCst);
        }
        assert_eq!(gate.run(&frame(0, 60)), REDIRECT);
        assert_eq!(gate.word(PUT).load(SeqCst), u64::from(PLACES));
        assert_eq!(gate.state(0).load(SeqCst), State::empty(0).0);
    });
}

#[test]
fn a_frame_that_is_too_long_takes_those_behind_it_along() {
    in_namespace("too_long_for_arrivals", || {
        let gate = Gate::new();
        gate.word(BY_INTERFACE).store(0, SeqCst);
        let longest = frame(1, FRAME_LEN_MAX);
        assert_eq!(gate.run(&longest), DROP);
        assert_eq!(gate.frame(0, FRAME_LEN_MAX), longest);
        assert_eq!(gate.run(&frame(2, FRAME_LEN_MAX + 1)), REDIRECT);
        assert_eq!(gate.run(&frame(3, 60)), REDIRECT);
        assert_eq!(gate.word(PUT).load(SeqCst), 1);
    });
}

/// Two processors put frames while their holder goes to sleep and wakes again and again: each frame goes one way. Until each of
/// the ways has been seen, of which one takes two of them at the same moment.
#[test]
fn each_frame_goes_one_way() {
    in_namespace("each_frame_goes_one_way", || {
        let gate = Gate::new();
        let mut random = Random(7);
        let mut seen = [0; 3];
        for _ in 0..200 {
            let ways = put_from_two(&gate, &mut random);
            seen = std::array::from_fn(|i| seen[i] + ways[i]);
            if seen.iter().all(|count| *count > 0) {
                return;
            }
        }
        panic!("arrived, by the interface, taken back: {seen:?}");
    });
}

/// Puts frames from two threads and takes them in a third: how many arrived, went by the interface, and were taken back.
fn put_from_two(gate: &Gate, random: &mut Random) -> [usize; 3] {
    const FRAMES: u64 = 3_000;
    let by_interface = |first| {
        let of_one = (first..FRAMES).step_by(2);
        let verdicts = of_one.map(|number| (number, gate.run(&frame(number, 60))));
        let went = verdicts.filter(|(_, verdict)| {
            assert!([DROP, REDIRECT].contains(verdict));
            *verdict == REDIRECT
        });
        went.map(|(number, _)| number).collect::<Vec<u64>>()
    };
    let (mut arrived, mut taken_back) = (Vec::new(), 0);
    let mut taken = gate.word(PUT).load(SeqCst);
    let went = std::thread::scope(|scope| {
        let senders = [0, 1].map(|first| scope.spawn(move || by_interface(first)));
        loop {
            // Looked at before the frames: what was put by then is seen.
            let over = senders.iter().all(|sender| sender.is_finished());
            for _ in 0..random.below(40) {
                let state = gate.state(taken);
                if state.load(SeqCst) == State::empty(taken).0 {
                    break;
                }
                let was = State(state.swap(State::taken_back(taken).0, SeqCst));
                match was.frame_len(taken) {
                    Some(len) => arrived.push(number_in(&gate.frame(taken, len))),
                    None => taken_back += 1,
                }
                let next = State::empty(taken + u64::from(PLACES));
                state.store(next.0, SeqCst);
                taken += 1;
            }
            if over && gate.state(taken).load(SeqCst) == State::empty(taken).0 {
                break;
            }
            // Often between the program's two looks at it.
            for _ in 0..random.below(200) {
                let asleep = u64::from(random.one_in(2));
                gate.word(BY_INTERFACE).store(asleep, SeqCst);
            }
        }
        senders.map(|sender| sender.join().unwrap()).concat()
    });
    for parity in [0, 1] {
        let of_one = arrived.iter().filter(|number| **number % 2 == parity);
        assert!(of_one.is_sorted(), "those of one sender in order");
    }
    let ways = [arrived.len(), went.len(), taken_back];
    let mut all = [arrived, went].concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..FRAMES), "{ways:?}");
    ways
}

fn number_in(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[PAYLOAD..PAYLOAD + 8].try_into().unwrap())
}
