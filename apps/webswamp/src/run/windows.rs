//! How much the connections of a loop may have under way to it together.
//!
//! A server that is near can send all that windows promise before we look again, and all of it comes into one ring of frames. What that has
//! no room for is lost, and the kernel's BBR does not slow down for that: it sends again, after a timeout where a tail is missing, and the
//! load seems to show a server that pauses for a second. So windows promise together what the ring holds. On a path with a round trip of its own what
//! is under way is on the path, and windows are as wide as ever.

use std::time::Duration;

use exos_inet::tcp::Options;
use exos_tls::limits::RECORD_LEN_MAX;

use crate::limits::{NEAR_TIME, WINDOW_LEN_MIN, WINDOWS_LEN};

/// How a loop opens `connections`, which it has at once, to a server that took this long to take one, if that is known.
/// `is_fixed`: somebody has said how wide windows are.
pub(super) fn bounded(
    options: Options,
    connections: u64,
    took: Option<Duration>,
    is_fixed: bool,
) -> Options {
    if is_fixed || took.is_none_or(|took| took > NEAR_TIME) {
        return options;
    }
    let share = WINDOWS_LEN / connections.max(1);
    let share = (share as u32).max(WINDOW_LEN_MIN);
    Options {
        receive_buffer_bytes: options.receive_buffer_bytes.min(share),
        receive_buffer_max_bytes: options.receive_buffer_max_bytes.min(share),
        ..options
    }
}

/// A record of TLS is given to its session in one piece: a smaller buffer would wait for the rest of it for ever.
pub(super) fn for_records(options: Options) -> Options {
    let least = RECORD_LEN_MAX as u32;
    Options {
        receive_buffer_bytes: options.receive_buffer_bytes.max(least),
        receive_buffer_max_bytes: options.receive_buffer_max_bytes.max(least),
        ..options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_promise_no_more_than_the_ring_holds() {
        let near = Some(Duration::from_micros(300));
        for connections in 1..=WINDOWS_LEN / u64::from(WINDOW_LEN_MIN) {
            let options = bounded(Options::default(), connections, near, false);
            let widest = options
                .receive_buffer_bytes
                .max(options.receive_buffer_max_bytes);
            assert!(u64::from(widest) * connections <= WINDOWS_LEN);
        }
        let options = bounded(Options::default(), 100_000, near, false);
        assert_eq!(options.receive_buffer_max_bytes, WINDOW_LEN_MIN);
    }

    #[test]
    fn others_are_as_wide_as_ever() {
        let (near, far) = (Duration::from_micros(300), Duration::from_millis(20));
        let usual = Options::default().receive_buffer_max_bytes;
        for (took, is_fixed) in [(Some(far), false), (None, false), (Some(near), true)] {
            let options = bounded(Options::default(), 1000, took, is_fixed);
            assert_eq!(options.receive_buffer_max_bytes, usual);
        }
    }

    #[test]
    fn a_record_has_room() {
        let options = for_records(Options::with_receive_buffer(2048));
        assert!(options.receive_buffer_bytes as usize >= RECORD_LEN_MAX);
        assert_eq!(
            options.receive_buffer_bytes,
            options.receive_buffer_max_bytes
        );
    }
}
