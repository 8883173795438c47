//! What is known at a place of a handler, by all ways that lead there.

use crate::code::Expression;

/// What is known at a place of the handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// A bit for each variable that has a value.
    pub(super) assigned: u32,
    /// The message has as many bytes at least.
    pub(super) length: u16,
    /// Something has had an effect.
    pub(super) effect: bool,
}

impl Known {
    /// Whether a part of the message is there, whatever the message.
    pub(super) fn always_has(self, from: &Expression, length: &Expression) -> bool {
        match (from.constant(), length) {
            (Some(0), Expression::Length) => true,
            (Some(from), Expression::Constant(length)) => {
                from.saturating_add(*length) <= u64::from(self.length)
            }
            _ => false,
        }
    }

    pub(super) fn join(self, other: Self) -> Self {
        Self {
            assigned: self.assigned & other.assigned,
            length: self.length.min(other.length),
            effect: self.effect | other.effect,
        }
    }
}

/// A place that no way leads to is `None`.
pub(super) fn join(a: Option<Known>, b: Option<Known>) -> Option<Known> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.join(b)),
        (one, other) => one.or(other),
    }
}
