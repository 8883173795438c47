//! Behind a gate, a request that is looked for without noise takes steps of its slot's, and goes up where there are none.

use super::*;
use exos_filter::gate::Bucket;
use exos_filter::gate::maps::SCRATCH_LEN;
use exos_filter::gate::steps::Steps;
use exos_host::bpf::{Map, Prog};

const SLOT: u32 = 2;
const LEFT: i64 = 1_000;

/// The program behind a gate, on a bench's memory.
struct Gated {
    program: Prog,
    budgets: Map,
    _others: [Map; 2],
}

impl Gated {
    fn new(bench: &Bench) -> Self {
        // No program is in any place: how a segment ends is seen in the memory.
        let outcomes = Map::prog_array(8).unwrap();
        let scratch = Map::percpu_array("scratch", SCRATCH_LEN, 2).unwrap();
        let mut said = vec![0; scratch.user_value_size()];
        for of_cpu in said.chunks_mut(SCRATCH_LEN) {
            of_cpu[8..12].copy_from_slice(&SLOT.to_ne_bytes());
        }
        scratch.update(&0u32.to_ne_bytes(), &said).unwrap();
        let budgets = Map::array("budgets", Bucket::LEN, 4).unwrap();
        let steps = Steps {
            scratch_fd: scratch.raw_fd(),
            budgets_fd: budgets.raw_fd(),
        };
        let code = bench.handler.in_gate(outcomes.raw_fd(), steps);
        Self {
            program: Prog::load(&code.words(), "web", false).unwrap(),
            budgets,
            _others: [outcomes, scratch],
        }
    }

    /// What a segment takes where this is left.
    fn takes(&self, left: i64, frame: &[u8]) -> i64 {
        let key = SLOT.to_ne_bytes();
        let bucket = Bucket {
            tokens: left,
            ..Bucket::new(1, 1)
        };
        self.budgets.update(&key, &bucket.to_bytes()).unwrap();
        self.program.test_run(frame).unwrap();
        let bytes = self.budgets.lookup(&key).unwrap().expect("a value");
        left - Bucket::from_bytes(&bytes).expect("a bucket").tokens
    }
}

#[test]
fn noise_takes_steps_and_goes_up_where_there_are_none() {
    for bench in Bench::both() {
        let gated = Gated::new(&bench);
        let hits = bench.enter(REQUEST, RESPONSE, false) + entry::HITS;
        let noisy = |lines: usize| {
            let noise = b"X-Other: something\r\n".repeat(lines);
            let (head, end) = REQUEST.split_at(REQUEST.len() - 2);
            [head, &noise, end].concat()
        };
        let next = |port, request: &[u8], left| {
            let client = Client::opened(&bench, port, true);
            let before = bench.get(hits);
            let taken = gated.takes(left, &client.frame(ACK | PSH, request));
            (taken, bench.get(hits) > before)
        };
        assert_eq!(next(4000, REQUEST, LEFT), (0, true), "as it came");
        assert_eq!(
            next(4001, REQUEST, 0),
            (0, true),
            "what the gate took is enough for that"
        );
        let (few, is_answered) = next(4002, &noisy(1), LEFT);
        assert!(few > 0 && is_answered);
        let (many, is_answered) = next(4003, &noisy(20), LEFT);
        assert!(many > 2 * few && is_answered, "{many} of {few}");
        assert_eq!(next(4004, &noisy(1), 1), (few, true), "into debt");
        assert_eq!(next(4005, &noisy(1), 0), (0, false), "none left");
        let mut forged = Client::opened(&bench, 4006, true);
        forged.ack += 1;
        let forged = forged.frame(ACK | PSH, &noisy(20));
        assert_eq!(gated.takes(LEFT, &forged), 0, "without a handshake");
    }
}
