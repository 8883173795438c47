//! Connections in TIME-WAIT that move to another stack: what a program leaves behind when it ends.
//!
//! Records of [`TIME_WAIT_RECORD_LEN`] bytes, integers little-endian:
//!
//! ```text
//!  0                                36       40       44             48         52
//!  flow: addresses 16+16, ports 2+2  snd_nxt  rcv_nxt  timestamps: 1  ts_recent  ts_clock
//! ```
//!
//! `ts_clock` is what our clock of timestamps showed when the record was made, so that the stacks' clocks
//! need not have the same start. The wait begins again where a record arrives: the queue of those who wait
//! stays in order by that, and waiting longer is never wrong.
//!
//! The bytes come from another process, so each record is judged: whose flows a stack takes over is for
//! the caller to say, and nothing that a record can hold harms more than its own flow.

use exos_wire::SeqNumber;

use crate::tcp::table::time_wait::Waiting;
use crate::tcp::values::flow::Flow;
use crate::time::Instant;

/// Bytes of a record.
pub const TIME_WAIT_RECORD_LEN: usize = 56;

/// The word that says that timestamps were agreed on.
const HAS_TIMESTAMPS: u32 = 1;

/// The record of a connection that waits.
pub(in crate::tcp) fn encode(waiting: &Waiting, now: Instant) -> [u8; TIME_WAIT_RECORD_LEN] {
    let clock = (now.millis() as u32).wrapping_add(waiting.ts_offset);
    let words = [
        waiting.snd_nxt.0,
        waiting.rcv_nxt.0,
        u32::from(waiting.ts_recent.is_some()),
        waiting.ts_recent.unwrap_or(0),
        clock,
    ];
    let mut record = [0; TIME_WAIT_RECORD_LEN];
    record[..36].copy_from_slice(&waiting.flow.to_bytes());
    for (place, word) in record[36..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    record
}

/// What a record says; `None` when no stack would have written it.
pub(in crate::tcp) fn decode(record: &[u8; TIME_WAIT_RECORD_LEN], now: Instant) -> Option<Waiting> {
    let (flow, words) = record.split_first_chunk::<36>()?;
    let word = |i: usize| {
        let bytes = words.get(4 * i..4 * i + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let flow = Flow::from_bytes(*flow);
    let ports = flow.local().port() != 0 && flow.remote().port() != 0;
    let families = flow.local().is_ipv4() == flow.remote().is_ipv4();
    let timestamps = word(2)?;
    (ports && families && timestamps <= HAS_TIMESTAMPS).then_some(Waiting {
        flow,
        hash: 0,
        snd_nxt: SeqNumber(word(0)?),
        rcv_nxt: SeqNumber(word(1)?),
        ts_recent: (timestamps == HAS_TIMESTAMPS).then_some(word(3)?),
        ts_offset: word(4)?.wrapping_sub(now.millis() as u32),
        expires_ms: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waiting(port: u16, ts_recent: Option<u32>) -> Waiting {
        Waiting {
            flow: Flow::new(
                "10.0.0.1:80".parse().unwrap(),
                std::net::SocketAddr::new("10.0.0.2".parse().unwrap(), port),
            ),
            hash: 0,
            snd_nxt: SeqNumber(7),
            rcv_nxt: SeqNumber(0xffff_fff0),
            ts_recent,
            ts_offset: 0xffff_ff00,
            expires_ms: 0,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_by_any_clock() {
        for ts_recent in [None, Some(5)] {
            let (here, there) = (Instant::from_millis(1000), Instant::from_millis(9_000_000));
            let was = waiting(4000, ts_recent);
            let is = decode(&encode(&was, here), there).unwrap();
            assert_eq!(is.flow, was.flow);
            assert_eq!((is.snd_nxt, is.rcv_nxt), (was.snd_nxt, was.rcv_nxt));
            assert_eq!(is.ts_recent, was.ts_recent);
            let clock = |now: Instant, w: &Waiting| (now.millis() as u32).wrapping_add(w.ts_offset);
            assert_eq!(clock(there, &is), clock(here, &was));
        }
    }

    #[test]
    fn what_no_stack_writes_is_left_out() {
        let now = Instant::START;
        let sound = encode(&waiting(4000, None), now);
        assert!(decode(&sound, now).is_some());
        for (at, value) in [(44, 2), (32, 0), (34, 0)] {
            let mut bad = sound;
            bad[at] = value;
            bad[at + 1] = 0;
            assert!(decode(&bad, now).is_none(), "byte {at}");
        }
        let mut families = sound;
        families[0] = 0x20;
        assert!(decode(&families, now).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(bytes in proptest::collection::vec(any::<u8>(), TIME_WAIT_RECORD_LEN)) {
            let now = Instant::from_millis(3);
            let record: [u8; TIME_WAIT_RECORD_LEN] = bytes.try_into().unwrap();
            if let Some(waiting) = decode(&record, now) {
                let again = encode(&waiting, now);
                // What is not looked at without timestamps is not kept.
                let looked_at = if waiting.ts_recent.is_some() { TIME_WAIT_RECORD_LEN } else { 48 };
                prop_assert_eq!(&again[..looked_at], &record[..looked_at]);
            }
        }
    }
}
