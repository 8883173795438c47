//! What a request comes to: an answer, now or later, or a refusal that says why.

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use exos_xok::message::{Answer, Refusal};

use crate::ledger::Denied;
use crate::server::ConnectionId;

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) code: Refusal,
    pub(super) text: String,
}

pub(super) fn refuse(code: Refusal, text: impl Display) -> Refused {
    Refused {
        code,
        text: text.to_string(),
    }
}

/// What a program is told that has to wait.
pub(super) fn busy(why: &str, wait: Duration) -> Refused {
    let text = format!("{why}; try again in {} ms", wait.as_millis() + 1);
    refuse(Refusal::Busy, text)
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        refuse(denied.code(), denied)
    }
}

impl From<exos_host::Error> for Refused {
    fn from(error: exos_host::Error) -> Self {
        refuse(Refusal::System, error)
    }
}

/// An answer and the descriptors with it, which others may be passed, too.
pub(super) type AnswerWithFds = (Answer, Vec<Rc<OwnedFd>>);

/// What a request comes to.
pub(super) type Answered = Result<AnswerWithFds, Refused>;

/// An answer without descriptors.
pub(super) fn plain(answer: Answer) -> Answered {
    Ok((answer, Vec::new()))
}

/// A request that is to be answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestId {
    pub(super) connection: ConnectionId,
    pub(super) tag: u32,
}
