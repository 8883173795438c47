//! What layers cost: a server of three (sessions, calls, counters), which were joined into one handler, beside the counters alone, in the
//! kernel's test run. Both are given messages of the same length.

use super::sandbox::{generate, in_frame, maps, time};
use super::server::HANDLER;
use crate::experiment::figure::Figures;
use exos::ash::{Layout, parse};
use exos_host::bpf::MappedArray;
use exos_host::{Error, Result};

/// A session has a number and counts its messages, one that is not the next is for the program; a call has a version, a method and a number.
const SERVER: &str = "handler server {
    layer session 8 {
        words sequence[1024];

        expected = &sequence[be32(0)];
        if be32(4) != *expected { give up; }
        commit { add(expected, 1); }
        reply { be32(4) = *expected; }
    }
    layer rpc 6 {
        if u8(0) != 1 { give up; }
        method = u8(1);
        reply { u8(0) = 0x81; }
    }
    words counters[1024];

    if rpc_method != 1 { give up; }
    need 12;
    counter = &counters[be32(0)];
    before = add(counter, be64(4));
    reply length { be64(4) = before; }
}";

/// Measures both.
pub(super) fn compare(figures: &mut Figures) -> Result<()> {
    let [counters, programs] = maps()?;
    let program = |text: &str| -> Result<_> {
        let handler = parse(text).map_err(|e| Error::new(e.to_string()))?;
        let bytes = Layout::of(handler.handler()).bytes() as usize;
        let memory = MappedArray::new("layers", bytes, 1)?;
        let program = generate(&handler, &memory, [&counters, &programs]);
        // What the program refers to has to stay.
        Ok((program, memory))
    };
    let (three, one) = (program(SERVER)?, program(HANDLER)?);
    let increment = [&7u32.to_be_bytes()[..], &1u64.to_be_bytes()].concat();
    let message = |turn: u32| {
        let session = [3u32.to_be_bytes(), turn.to_be_bytes()].concat();
        let call = [1, 1, 0, 0, 0, 7];
        let alone = [&increment[..], &[0; 14]].concat();
        [
            in_frame(&[&session[..], &call, &increment].concat()),
            in_frame(&alone),
        ]
    };
    let [three_ns, one_ns] = time([&three.0, &one.0], message)?;
    for (name, ns, program) in [("three", three_ns, &three.0), ("one", one_ns, &one.0)] {
        let instructions = program.insns().len() as f64;
        figures.add(format!("layers/{name}"), "ns", ns);
        figures.add(format!("layers/{name}/instructions"), "", instructions);
    }
    figures.add("layers/ratio", "", three_ns / one_ns);
    Ok(())
}
