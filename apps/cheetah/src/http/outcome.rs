//! What becomes of a request: a response, or what has to come before there is one.

use super::asking::Asking;
use super::exchange::Answered;
use super::missing::Missing;
use super::response::tail::Tail;
use crate::message::Status;

/// What a request was answered with: the slices are in the caller's list.
pub(super) struct Response {
    pub(super) status: Status,
    pub(super) answered: Answered,
    /// What follows the slices.
    pub(super) tail: Option<Box<Tail>>,
}

/// Why a request has no answer yet.
#[derive(Debug)]
pub enum Unanswered {
    /// It waits for this.
    Waits(Box<Missing>),
    /// An application answers it.
    Asks(Box<Asking>),
}

impl From<Box<Missing>> for Unanswered {
    fn from(missing: Box<Missing>) -> Unanswered {
        Unanswered::Waits(missing)
    }
}
