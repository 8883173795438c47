//! What was sent and is not acknowledged: one record a segment, with when it last left and what
//! became of it (RFC 6675's scoreboard, with the times that RFC 8985 asks for).
//!
//! # Layout
//!
//! Records lie in the order of sequence numbers without gaps: each begins where the one before ends, the
//! first at `una`. Beside them, `sacked` holds the ranges that the peer has selectively acknowledged,
//! sorted, apart from one another; a range begins and ends where records do, and the records in it carry
//! [`SACKED`](record). So one walks from hole to hole, however much has arrived in between.
//!
//! The order of *sending*, in which RFC 8985 §6.2 (step 5) looks for losses, needs no list through all
//! records: what was sent once left in the order of sequence numbers, so it has its place in `records`,
//! and `once_from` says how far all of it is judged; what was sent again stands in `again`, a queue in the
//! order in which it left. A segment that is sent and acknowledged without incident pays for neither.
//!
//! Invariants, checked by `check` in tests: `sacked_bytes` and `lost_bytes` are the lengths of the
//! records so marked; none is marked both; every lost record ends after `lost_from`. What is neither
//! marked nor acknowledged either begins at `once_from` or later and was sent once, or stands in `again`
//! with the time at which it left. `again` has at most two entries a record and a few, and none without records.
//!
//! # Cost
//!
//! Of `n` records and `r` ranges: sending and cumulative acknowledgement are O(1) a record; a SACK block
//! O(log n + log r) and O(1) for each record that is new in it; looking for losses O(log n + log r) and O(1)
//! for each record newly lost. A timeout, and a repair taken back, look at all records.
//!
//! [`record`] is one record, [`board`] holds them, [`lost`] marks them lost.

pub mod board;
pub mod lost;
pub mod record;
