//! How many instructions a message takes. A handler costs little beside the same written by hand as long as they are few; what it takes in
//! nanoseconds depends on the machine, and on who else is busy there.

use std::sync::atomic::AtomicU64;

use exos_ash::kernel::InKernel;
use exos_ash::{Layout, parse};
use exos_filter::handler::Handler as _;
use exos_filter::handler::forward::WayOut;
use exos_testing::ebpf::{Map, Program, Run, disassemble};

use crate::packets::{BROADCAST, OURS, PORT, TX, ends, frame};
use crate::words;

const PROGRAMS: i32 = 7;
const COUNTERS: i32 = 8;
const MEMORY: i32 = 9;

/// Instructions until a reply leaves, by a handler with an address of one version of IP.
fn steps(text: &str, v6: bool, message: &[u8]) -> usize {
    let handler = parse(text).unwrap();
    let program = InKernel {
        handler: &handler,
        memory_fd: MEMORY,
        mac: OURS,
        addresses: vec![ends(v6).0],
        not_from: vec![BROADCAST],
        port: PORT,
        may_be_partial: false,
        way_out: WayOut::Transmit,
    };
    let program = program.program(PROGRAMS, COUNTERS).words();
    let memory = words(&Layout::of(handler.handler()));
    let counters = [const { AtomicU64::new(0) }; 64];
    let array = |words, value_len| Map::Array { words, value_len };
    let maps = vec![
        (MEMORY, array(&memory[..], memory.len() * 8)),
        (COUNTERS, array(&counters[..], 8)),
        (PROGRAMS, Map::Programs),
    ];
    let text = disassemble(&program);
    let (program, mut run) = (
        Program::new(&program, maps),
        Run::new(&frame(v6, message), 0),
    );
    let mut steps = 1;
    loop {
        match program.step(&mut run) {
            None => steps += 1,
            Some(TX) => return steps,
            Some(verdict) => panic!("verdict {verdict}\n{text}"),
        }
    }
}

/// The counters that `exos bench ash --only sandbox` runs beside the same by hand.
#[test]
fn a_counter_takes_few_instructions() {
    let counters = |reply: &str| {
        format!(
            "handler counters {{ words counters[1024]; need 12; counter = &counters[be32(0)];
             before = add(counter, be64(4)); reply {reply} {{ be64(4) = before; }} }}"
        )
    };
    let message = [&7u32.to_be_bytes()[..], &1u64.to_be_bytes()].concat();
    for (reply, v6, most) in [
        ("12", false, 206),
        ("length", false, 213),
        ("12", true, 216),
    ] {
        let steps = steps(&counters(reply), v6, &message);
        assert!(steps <= most, "{reply}, IPv6 {v6}: {steps} of {most}");
    }
}
