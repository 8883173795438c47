//! Every bound of `exos ss`, with its reason.

use std::time::Duration;

/// How long programs have to answer, all of them together. One that sleeps does so for a second at most.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The pause between two looks whether they have: a busy program answers within a turn.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Sockets that are taken of a stack: more connections than one has by default (1,048,576). One that tells more is silenced.
pub(crate) const SOCKETS: usize = 4 << 20;
