//! Filters in force, on packets that nobody foresaw: what comes by a filter is what the filter says, and so is what goes.
//!
//! What a filter says is its interpreter's word (`exos_filter::Filter::matches`). The kernel's programs are beside others
//! here: the gate parses, finds exact grants first, and puts fragments with the flow that they belong to.

use std::time::{Duration, Instant};

use exos_filter::Filter;
use exos_filter::gate::sending;
use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use exos_wire::protocol;

use crate::attacks::attacker::PATIENCE;
use crate::attacks::world::{MARK, OUR_MAC, OURS, OURS_V6, ROOTS, case, from_us, to_us};
use crate::packets::{self, FrameEnds};

/// As policy allows them to the hostile program.
const FILTERS: [&str; 2] = [
    "udp and dst portrange 5000-5099",
    "icmp and dst host 10.79.0.8",
];

/// Frames each way.
const FRAMES: usize = 10_000;

const HELD: u16 = 5001;
const LAST: &[u8] = b"this is honest";

/// Numbers in no order that anybody could tell, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// A frame one of these ways, with some bytes changed.
    fn frame(&mut self, ends: &[FrameEnds]) -> Vec<u8> {
        let ends = &ends[self.below(ends.len())];
        let mut frame = match self.below(4) {
            0 => {
                let kinds = [protocol::ICMP, protocol::TCP, protocol::UDP, 44, 58, 0, 60];
                packets::ip(ends, kinds[self.below(7)], MARK)
            }
            _ => packets::udp(ends, MARK),
        };
        for _ in 0..self.below(3) {
            let at = 12 + self.below(50);
            frame[at] = self.below(256) as u8;
        }
        frame
    }
}

/// Not the first of a packet's fragments, which goes with its first.
fn is_later_fragment(frame: &[u8]) -> bool {
    match u16::from_be_bytes([frame[12], frame[13]]) {
        ETHERTYPE_IPV4 => u16::from_be_bytes([frame[20], frame[21]]) & 0x1fff != 0,
        // With a fragment header somewhere: what is allowed too much here is not seen by the other family's frames.
        ETHERTYPE_IPV6 => frame[20] == 44 || frame[20] == 0 || frame[20] == 60,
        _ => false,
    }
}

fn filters() -> [Filter; 2] {
    FILTERS.map(|text| Filter::parse(text).expect("a filter"))
}

/// From outside: each that arrives is one of the filters', and none of those that an exact grant has.
#[test]
fn what_comes_by_a_filter() {
    case(
        |hostile| {
            let mut program = hostile.attach();
            for filter in FILTERS {
                program.connection.must_claim_filter(filter);
            }
            hostile.say("ready");
            let filters = filters();
            let held = format!("udp and dst host {OURS} and dst port {HELD}");
            let held = Filter::parse(&held).expect("a filter");
            let came = program.receive_up_to(LAST);
            for frame in &came {
                let matches = filters.iter().any(|filter| filter.matches(frame));
                let matches = matches && !held.matches(frame);
                assert!(matches || is_later_fragment(frame), "{frame:02x?}");
            }
            let marked = |frame: &&Vec<u8>| frame.ends_with(MARK);
            assert!(came.iter().filter(marked).count() > 10, "too few came");
            hostile.say("none beside");
        },
        |world| {
            let holder = world.program();
            holder.connection.must_claim(HELD);
            let mut attacker = world.attacker();
            attacker.must_say("ready");
            let ports = [5000, HELD, 5099, 5100, 4999];
            let addresses = [OURS, ROOTS, OURS_V6];
            let ends = ports.map(|port| addresses.map(|ip| to_us(ip, port)));
            let mut random = Random(19);
            for _ in 0..FRAMES {
                world.far.send(&random.frame(ends.as_flattened()));
            }
            // Again and again: behind 10,000 frames there may be no room for one more.
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until {
                world.far.send(&packets::udp(&to_us(OURS, 5000), LAST));
                if attacker.has_spoken_within(Duration::from_millis(100)) {
                    break;
                }
            }
            attacker.must_say("none beside");
            attacker.finish();
        },
    );
}

/// From the program: each that leaves is one that its filters let it send.
#[test]
fn what_goes_by_a_filter() {
    case(
        |hostile| {
            let mut program = hostile.attach();
            for filter in FILTERS {
                program.connection.must_claim_filter(filter);
            }
            let ports = [5000, 5099, 5100, 4999];
            let addresses = [OURS, ROOTS, OURS_V6];
            let ends = ports.map(|port| addresses.map(|ip| from_us(ip, port)));
            let mut random = Random(20);
            for _ in 0..FRAMES {
                program.send(&random.frame(ends.as_flattened()));
            }
            program.send(&packets::udp(&from_us(OURS, 5000), LAST));
            hostile.say("sent");
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            attacker.must_say("sent");
            let addresses = [OURS, OURS_V6].map(|ip| ip.parse().expect("an address"));
            let may = filters().map(|filter| sending(&filter, &addresses).expect("it can be"));
            let seen = world.far.seen_up_to(LAST);
            let ours = |frame: &&Vec<u8>| frame.ends_with(MARK) && frame[6..12] == OUR_MAC.0;
            let mut left = 0;
            for frame in seen.iter().filter(ours) {
                let matches = may.iter().any(|filter| filter.matches(frame));
                assert!(matches || is_later_fragment(frame), "{frame:02x?}");
                left += 1;
            }
            assert!(left > 10, "{left} left");
            attacker.tell("go");
            attacker.finish();
        },
    );
}
