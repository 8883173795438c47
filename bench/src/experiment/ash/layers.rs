//! What layers cost: a server of three (sessions, calls, counters), which were joined into one handler, beside the counters alone, in the
//! kernel's test run. Both are given messages of the same length.

use super::sandbox::{generate, in_frame, maps, time};
use super::server::HANDLER;
use crate::experiment::figure::Figures;
use exos_host::Result;

/// Layers of their own, and behind their headers what the counters' handler has.
const SERVER: &str = concat!(
    "handler server {",
    include_str!("../../../../crates/ash/examples/layers/session.layer"),
    include_str!("../../../../crates/ash/examples/layers/rpc.layer"),
    "words counters[1024];

    if rpc_method != 1 { give up; }
    need 12;
    counter = &counters[be32(0)];
    before = add(counter, be64(4));
    reply length { be64(4) = before; }
}"
);

/// Measures both.
pub(super) fn compare(figures: &mut Figures) -> Result<()> {
    let [counters, programs] = maps()?;
    let maps = [&counters, &programs];
    let (three, one) = (generate(SERVER, maps)?, generate(HANDLER, maps)?);
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
