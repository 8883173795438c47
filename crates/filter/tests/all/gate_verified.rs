//! How many instructions the kernel's verifier follows of each of the gate's programs, over all ways through it. A daemon that starts waits
//! for some of them, and each general filter for its own; a million is the kernel's limit. Bounds are some half above what Linux 6.18 follows.

use crate::common;
use crate::gate;

use exos_filter::gate::handling;
use exos_filter::gate::outcome::Outcome;
use exos_filter::gate::{self as gates, Tap};
use exos_filter::{Filter, Program};
use exos_host::bpf::{Map, Prog, permitted};
use gate::sender::Sender;
use gate::wire::checksum;

/// A filter as somebody claims it, with alternatives and a port beyond the headers.
fn filter() -> Filter {
    Filter::parse("udp dst port 5000 or tcp dst port 80 or icmp").unwrap()
}

/// Says what of its programs is beyond its bound.
#[derive(Default)]
struct Followed(Vec<String>);

impl Followed {
    fn expect(&mut self, name: &str, prog: &Prog, most: u32) {
        let followed = prog.info().unwrap().verified_insns;
        eprintln!("{name}: {followed} instructions, at most {most}");
        // 0 where the kernel does not say: then this looks at nothing.
        if !(1..=most).contains(&followed) {
            self.0.push(format!("{name}: {followed} of {most}"));
        }
    }

    fn xdp(&mut self, name: &str, program: &Program, most: u32) {
        self.expect(name, &gate::load_xdp(program), most);
    }

    fn tc(&mut self, name: &str, program: &Program, most: u32) {
        self.expect(name, &gate::load_tc(program), most);
    }
}

#[test]
fn the_verifier_follows_few_instructions() {
    if let Err(error) = permitted() {
        return common::skipped(&format!("the_verifier_follows_few_instructions: {error}"));
    }
    let (tables, filter, mut followed) = (gate::create(), filter(), Followed::default());
    let fds = tables.fds();
    followed.xdp("in", &gates::incoming(&fds), 10_000);
    followed.tc("host", &gates::from_host(&fds), 5_000);
    followed.tc("out", &gates::outgoing(&fds, checksum().as_ref()), 13_000);
    let general = gates::outgoing_general(&fds, checksum().as_ref(), &filter).unwrap();
    followed.tc("out, general", &general, 18_000);
    followed.xdp(
        "general",
        &gates::general(&fds, 0, &filter, 1).unwrap(),
        6_000,
    );
    for outcome in Outcome::ALL {
        let name = format!("{outcome:?}");
        followed.xdp(&name, &handling::outcome(&fds, outcome), 900);
    }
    followed.tc("ingress", &handling::ingress(&fds), 20);
    let ring = Map::ringbuf("tap", 1 << 16).unwrap();
    let tap = Tap {
        index: 0,
        filter,
        slots: None,
        snap_len: 1 << 16,
        ring_fd: ring.raw_fd(),
    };
    let [incoming, outgoing] = gates::tap(&fds, &tap).unwrap();
    followed.xdp("copies in", &incoming, 3_000);
    followed.tc("copies out", &outgoing, 3_000);
    followed.expect("batch", &Sender::new(&tables, 1, 1).program, 7_000);
    if let Some(origin) = gate::sender::origin() {
        followed.xdp("live", &gates::live(&fds, &origin), 5_500);
    }
    assert!(followed.0.is_empty(), "{}", followed.0.join("; "));
}
