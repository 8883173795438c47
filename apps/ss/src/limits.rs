//! Every bound of `exos ss`, with its reason.

use std::time::Duration;

/// How long programs have to answer, all of them together. One that sleeps does so for a second at most.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The pause between two looks whether they have: a busy program answers within a turn.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Sockets that are taken of a stack: as many as one has connections by default. One that tells more may never end.
pub(crate) const SOCKETS_EACH: usize = exos::inet::limits::CONNECTIONS_MAX;

/// Sockets that are taken altogether: of some 300 bytes each, a gigabyte. Then no program is asked any more.
pub(crate) const SOCKETS: usize = 4 * SOCKETS_EACH;
