//! How many instructions of the gate's a datagram takes that a handler answers, and how many calls of the kernel's functions: few, or a program
//! that has its handler by the daemon waits longer for it than one on a link of its own. What they take in nanoseconds depends on the machine.
//!
//! Counted by the interpreter, without the kernel: from the packet to the handler, and from there to its end.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use exos_filter::Program;
use exos_filter::gate::handling::outcome;
use exos_filter::gate::maps::{SCRATCH_LEN, SPECS};
use exos_filter::gate::outcome::Outcome;
use exos_filter::gate::{
    self as gates, Bucket, Config, Counter, FlowKey, FlowValue, Handled, Handling, MapFds, Share,
    Slot, SlotKind,
};
use exos_testing::ebpf;

use crate::gate::packets::{ethernet, ip, ports};
use crate::gate::{MAC, PEER_MAC, UDP, sa};

const SLOT: u32 = 1;
const PORT: u16 = 4000;
/// A message of 12 bytes.
const MESSAGE: usize = 12;
/// A call of `bpf_tail_call`: its first byte, and its number.
const TAIL_CALL: (u8, u32) = (0x85, 12);
const XDP_DROP: u32 = 1;
const XDP_TX: u32 = 3;
/// When packets come, in nanoseconds.
const NOW: u64 = 1 << 40;

/// A map's values for numbers from 0 on, or for one key.
struct Values {
    keys: Vec<Vec<u8>>,
    words: Vec<AtomicU64>,
    value_len: usize,
}

impl Values {
    /// Of an array of zeros, but for the value at one place.
    fn array(count: u32, at: u32, value: &[u8]) -> Self {
        let words = (0..count as usize * value.len() / 8).map(|_| 0.into());
        let words: Vec<AtomicU64> = words.collect();
        let begin = at as usize * value.len() / 8;
        for (word, bytes) in words[begin..].iter().zip(value.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        let (keys, value_len) = (Vec::new(), value.len());
        Self {
            keys,
            words,
            value_len,
        }
    }

    fn of_key(key: &[u8], value: &[u8]) -> Self {
        Self {
            keys: vec![key.to_vec()],
            ..Self::array(1, 0, value)
        }
    }

    fn map(&self) -> ebpf::Map<'_> {
        let (words, value_len) = (&self.words[..], self.value_len);
        match &self.keys[..] {
            [] => ebpf::Map::Array { words, value_len },
            keys => ebpf::Map::Table {
                keys,
                words,
                value_len,
            },
        }
    }
}

/// The tables of a gate that leads datagrams to a slot with a handler.
struct Tables {
    fds: MapFds,
    values: Vec<(i32, Values)>,
}

impl Tables {
    fn new(local: &str, tx: Share) -> Self {
        let mut fds = 0;
        let fds: MapFds = SPECS.map(|_| {
            fds += 1;
            fds
        });
        let key = FlowKey::port(UDP, sa(local));
        let config = Config {
            shapes: key.shape() as u32,
            mac: MAC,
            ..Config::default()
        };
        let slot = Slot {
            kind: SlotKind::Veth,
            ifindex: 9,
            mac: MAC,
            has_handlers: true,
            tx,
            ..Slot::default()
        };
        let mut handling = Handling::default();
        handling.places[0] = Handled {
            port: PORT,
            protocol: UDP,
            replies: true,
            steps: 60,
        };
        let (flow, grant) = (
            key.to_bytes(),
            FlowValue {
                slot: SLOT,
                grant: 7,
            },
        );
        let budget = Bucket::new(1_000_000_000, 10_000_000);
        let all = SLOT + 1;
        let values = vec![
            (fds.config, Values::array(1, 0, &config.to_bytes())),
            (fds.flows, Values::of_key(&flow, &grant.to_bytes())),
            (fds.slots, Values::array(all, SLOT, &slot.to_bytes())),
            (fds.link_buckets, Values::array(2, 0, &[0; Bucket::LEN])),
            (fds.handling, Values::array(all, SLOT, &handling.to_bytes())),
            (
                fds.handler_budgets,
                Values::array(all, SLOT, &budget.to_bytes()),
            ),
            (fds.scratch, Values::array(2, 0, &[0; SCRATCH_LEN])),
            (
                fds.counters,
                Values::array(all, 0, &[0; Counter::COUNT * 8]),
            ),
        ];
        Self { fds, values }
    }

    fn maps(&self) -> Vec<(i32, ebpf::Map<'_>)> {
        let programs = [self.fds.handlers, self.fds.generals, self.fds.taps_in];
        let values = self.values.iter().map(|(fd, values)| (*fd, values.map()));
        let programs = programs.map(|fd| (fd, ebpf::Map::Programs));
        values.chain(programs).collect()
    }

    /// What a frame takes of a program, until it goes on in another or ends, and how it ends.
    fn takes(&self, program: &Program, frame: &[u8]) -> (Taken, Option<u32>) {
        let words = program.words();
        let program = ebpf::Program::new(&words, self.maps());
        let mut run = ebpf::Run::new(frame, NOW);
        let mut taken = Taken::default();
        loop {
            let [code, _, _, _, number @ ..] = words[run.at()].to_le_bytes();
            taken.instructions += 1;
            if code == TAIL_CALL.0 {
                taken.calls += 1;
                if u32::from_le_bytes(number) == TAIL_CALL.1 {
                    return (taken, None);
                }
            }
            if let Some(verdict) = program.step(&mut run) {
                return (taken, Some(verdict));
            }
        }
    }

    fn counted(&self, counter: Counter) -> u64 {
        let of = |(fd, _): &&(i32, Values)| *fd == self.fds.counters;
        let (_, counters) = self.values.iter().find(of).expect("it is there");
        counters.words[SLOT as usize * Counter::COUNT + counter as usize].load(Relaxed)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
struct Taken {
    instructions: usize,
    calls: usize,
}

#[test]
fn a_message_that_a_handler_answers_takes_few_instructions() {
    for (local, remote, most) in [
        ("192.0.2.7:4000", "192.0.2.9:5000", [(274, 12), (71, 5)]),
        (
            "[2001:db8::7]:4000",
            "[2001:db8::9]:5000",
            [(292, 14), (71, 5)],
        ),
    ] {
        let tables = Tables::new(local, Share::default());
        let (local, remote) = (sa(local), sa(remote));
        let header = ports(UDP, remote.port(), local.port(), MESSAGE);
        let packet = ip(remote.ip(), local.ip(), UDP, None, &[], &header);
        let kind = if local.is_ipv4() { 0x0800 } else { 0x86dd };
        let frame = ethernet(MAC, PEER_MAC, kind, &packet);

        let incoming = tables.takes(&gates::incoming(&tables.fds), &frame);
        assert_eq!(incoming.1, None, "{local}: to the handler");
        let program = outcome(&tables.fds, Outcome::Transmitted);
        let outgoing = tables.takes(&program, &frame);
        assert_eq!(outgoing.1, Some(XDP_TX), "{local}: the reply leaves");
        for counter in [
            Counter::RxPackets,
            Counter::HandlerAnswered,
            Counter::TxPackets,
        ] {
            assert_eq!(tables.counted(counter), 1, "{local}: {counter:?}");
        }
        for counter in [Counter::RxBytes, Counter::TxBytes] {
            assert_eq!(tables.counted(counter), frame.len() as u64, "{counter:?}");
        }
        let taken = [incoming.0, outgoing.0];
        let most = most.map(|(instructions, calls)| Taken {
            instructions,
            calls,
        });
        let is_within = |(taken, most): (&Taken, &Taken)| {
            taken.instructions <= most.instructions && taken.calls <= most.calls
        };
        assert!(
            taken.iter().zip(&most).all(is_within),
            "{local}: {taken:?} of {most:?}"
        );
    }
}

/// A message was dealt with also where its answer is more than the slot may send.
#[test]
fn an_answer_beyond_the_share_is_dropped_and_counted() {
    let used_up = Bucket {
        tokens: 0,
        last: NOW,
        ..Bucket::new(1_000_000, 1000)
    };
    let tx = Share {
        ceiling: used_up,
        ..Share::default()
    };
    let tables = Tables::new("192.0.2.7:4000", tx);
    let mut at = tables
        .values
        .iter()
        .filter(|(fd, _)| *fd == tables.fds.scratch);
    let (_, scratch) = at.next().expect("it is there");
    // What the gate leaves for it: the length of the frame that came, and the slot.
    scratch.words[0].store(60 << 32, Relaxed);
    scratch.words[1].store(SLOT.into(), Relaxed);
    let program = outcome(&tables.fds, Outcome::Transmitted);
    let (_, verdict) = tables.takes(&program, &[0; 100]);
    assert_eq!(verdict, Some(XDP_DROP));
    for (counter, expected) in [
        (Counter::RxPackets, 1),
        (Counter::RxBytes, 60),
        (Counter::HandlerAnswered, 1),
        (Counter::TxOverShare, 1),
        (Counter::TxPackets, 0),
        (Counter::TxBytes, 0),
    ] {
        assert_eq!(tables.counted(counter), expected, "{counter:?}");
    }
}
