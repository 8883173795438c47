//! What the program hears of its part of the interface.

use std::fmt;
use std::time::Duration;

use exos_xok::Claim;

/// What has happened to our part of the interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum News {
    /// The daemon has gone; we go on without it, and wait for it to come back.
    Away,
    /// It is back, and has us as before.
    Back,
    /// It asks for something back, and takes it after this time.
    Revoked {
        /// What.
        what: Lost,
        /// How long there is to end in order.
        within: Duration,
        /// Why.
        reason: String,
    },
    /// Of what is answered in the kernel some was dropped: it takes more steps than the daemon's policy gives. Said once.
    HandlerDropped,
}

/// What the daemon takes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lost {
    /// All of it: the program should end.
    Link,
    /// A grant. Its connections are reset shortly before the time is over; the others go on.
    Grant(Claim),
    /// What we may send and receive beyond this, in bytes per second.
    Rate(u64),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => f.write_str("the link"),
            Self::Grant(claim) => claim.fmt(f),
            Self::Rate(rate) => write!(f, "what is beyond {} kbit/s", rate * 8 / 1000),
        }
    }
}

impl News {
    /// What a person is told.
    pub fn sentence(&self) -> String {
        match self {
            Self::Away => {
                "the daemon has gone; packets still flow, waiting for it to come back".into()
            }
            Self::Back => "the daemon is back".into(),
            Self::HandlerDropped => "segments are dropped that the kernel should answer, and come again later: they take more steps than the \
                                     daemon's policy gives; raise `handler_steps` there (link_handler_dropped counts them)"
                .into(),
            Self::Revoked {
                what,
                within,
                reason,
            } => format!(
                "the daemon takes {what} back within {} ms: {reason}",
                within.as_millis()
            ),
        }
    }
}
