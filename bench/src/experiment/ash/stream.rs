//! What it costs to receive a stream of TCP (Table 3): its data looked at where our stack has it, or copied from there, each with checksums
//! that the stack verifies and with such as the link says are right. In memory: a wire's sender would be the limit. Each frame was last
//! touched many frames ago, so it is not in the nearest caches.

use crate::experiment::cost::{Link, Stream};
use crate::experiment::figure::Figures;

/// Segments of a stream, and in a quick session.
const SEGMENTS: u64 = 30_000;
const SEGMENTS_QUICK: u64 = 1000;
/// How often each way takes it in, by turns; the best counts.
const TIMES: u32 = 7;

/// Measures each.
pub(super) fn compare(is_quick: bool, figures: &mut Figures) {
    let (segments, times) = if is_quick {
        (SEGMENTS_QUICK, 1)
    } else {
        (SEGMENTS, TIMES)
    };
    let stream = Stream::record(segments);
    let ways = [
        ("in-place", Link::Unknown, false),
        ("in-place/no-checksum", Link::Verified, false),
        ("copied", Link::Unknown, true),
        ("copied/no-checksum", Link::Verified, true),
    ];
    let mut best = [0.0_f64; 4];
    for _ in 0..times {
        for (best, (_, link, is_copied)) in best.iter_mut().zip(ways) {
            *best = best.max(stream.received(link, is_copied));
        }
    }
    for ((name, ..), best) in ways.into_iter().zip(best) {
        figures.add(format!("stream/{name}"), "MB/s", best);
    }
}
