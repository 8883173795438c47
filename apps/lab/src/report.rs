//! A lab and its emulator's statistics as a person reads them.

use crate::emulator::{DirectionReport, Statistics};
use crate::lab::Lab;
use crate::settings::{INTERFACE, Settings, Side};
use exos_host::say;
use std::fmt::Write as _;

/// What there is now.
pub(crate) fn announce(lab: &Lab, settings: &Settings, verb: &str) {
    let (name, wire, mtu) = (lab.name(), settings.wire, settings.mtu);
    say!("lab {name} {verb}: {wire} wire, MTU {mtu}");
    if let Some(emulation) = &settings.emulation {
        let (conditions, seed) = (&emulation.conditions, emulation.seed);
        say!("  emulated, in each direction: {conditions}, seed {seed}");
    }
    for side in Side::BOTH {
        let addresses = side
            .addresses()
            .map(|(ip, prefix)| format!("{ip}/{prefix}"))
            .join(" ");
        say!(
            "  {side}  {}  {INTERFACE}  {addresses}",
            side.namespace(name)
        );
    }
}

/// Some lines, without an end of line after the last.
pub(crate) fn text(statistics: &Statistics) -> String {
    let Statistics {
        pid,
        seconds,
        cpu_share,
        settings,
        ..
    } = statistics;
    let mut text = format!(
        "  emulated, in each direction: {}, seed {}\n  emulator: process {pid}, {seconds:.1} s, {:.1} % of a core",
        settings.conditions,
        settings.seed,
        100.0 * cpu_share,
    );
    for (name, direction) in [
        ("a to b", &statistics.a_to_b),
        ("b to a", &statistics.b_to_a),
    ] {
        let _ = write!(text, "\n  {name}: {}", direction_text(direction));
    }
    text
}

/// What there was none of is left out.
fn direction_text(direction: &DirectionReport) -> String {
    let (frames, own, late) = (&direction.frames, &direction.own, &direction.late);
    let mut text = format!("{} frames in, {} out", frames.received, frames.delivered);
    let counts = [
        ("lost at random", frames.lost_random),
        ("lost in bursts", frames.lost_burst),
        ("dropped at the queue", frames.drop_queue_full),
        ("reordered", frames.reordered),
        ("duplicated", frames.duplicated),
        ("corrupted", frames.corrupted),
        ("marked", frames.marked),
        ("under way", frames.held_frames),
        ("DROPPED for want of memory", frames.drop_held_full),
        ("LOST as the emulator came too late", own.own_rx_ring_full),
        (
            "LOST before the emulator",
            own.own_rx_dropped + own.own_arrival_dropped,
        ),
        ("LOST behind the emulator", own.own_departure_dropped),
    ];
    for (name, count) in counts.iter().filter(|(_, count)| *count > 0) {
        let share = 100.0 * *count as f64 / frames.received.max(1) as f64;
        let _ = write!(text, ", {count} {name} ({share:.2} %)");
    }
    if frames.delivered > 0 {
        let _ = write!(
            text,
            "\n          late by {:.0} us (median), {:.0} us (99 %), {:.0} us (most)",
            late.p50_us, late.p99_us, late.max_us
        );
    }
    text
}
