//! What the daemon says unasked.

use super::{GrantId, NOTICES, header};
use crate::bytes::{DecodeError, Reader};
use crate::limits::TEXT_BYTES_MAX;

/// What is being taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Revoked {
    /// The slot with all that it holds.
    Slot,
    /// One grant.
    Grant(GrantId),
    /// What the slot may send and receive beyond this, in bytes per second.
    Rate(u64),
}

/// Why the connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Farewell {
    /// Another takes over: keep going, connect again, and reattach.
    Restarting,
    /// Everything is taken down.
    Stopping,
    /// There are as many connections as there may be, of one user or of users whom the policy knows no better.
    Full,
    /// The slot was asked for and not given back, and is taken.
    Revoked,
}

/// What the daemon says unasked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// Give this back by then; after that it is taken.
    Revoke {
        /// What.
        what: Revoked,
        /// How long from now, in milliseconds.
        deadline_ms: u32,
        /// Why, for a person.
        reason: String,
    },
    /// The tables have changed; sent once until the program asks or is told something else.
    Changed {
        /// The tables' generation.
        generation: u64,
    },
    /// The daemon goes, or has no place for this connection any more: nothing comes after this.
    Goodbye(Farewell),
}

impl Notice {
    pub(super) fn read(kind: u16, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match kind.checked_sub(NOTICES) {
            Some(0) => {
                let what = match r.u8()? {
                    0 => Revoked::Slot,
                    1 => Revoked::Grant(r.u32()?),
                    2 => Revoked::Rate(r.u64()?),
                    _ => return Err(DecodeError::BadField("what")),
                };
                Self::Revoke {
                    what,
                    deadline_ms: r.u32()?,
                    reason: r.text(TEXT_BYTES_MAX, "reason")?,
                }
            }
            Some(1) => Self::Changed {
                generation: r.u64()?,
            },
            Some(2) => Self::Goodbye(match r.u8()? {
                0 => Farewell::Restarting,
                1 => Farewell::Stopping,
                2 => Farewell::Full,
                3 => Farewell::Revoked,
                _ => return Err(DecodeError::BadField("farewell")),
            }),
            _ => return Err(DecodeError::UnknownKind(kind)),
        })
    }

    /// The datagram.
    pub fn encode(&self) -> Vec<u8> {
        let kind = match self {
            Self::Revoke { .. } => 0,
            Self::Changed { .. } => 1,
            Self::Goodbye(_) => 2,
        };
        let mut w = header(NOTICES + kind, 0);
        match self {
            Self::Revoke {
                what,
                deadline_ms,
                reason,
            } => {
                match what {
                    Revoked::Slot => w.u8(0),
                    Revoked::Grant(grant) => {
                        w.u8(1);
                        w.u32(*grant);
                    }
                    Revoked::Rate(rate) => {
                        w.u8(2);
                        w.u64(*rate);
                    }
                }
                w.u32(*deadline_ms);
                w.text(reason, TEXT_BYTES_MAX);
            }
            Self::Changed { generation } => w.u64(*generation),
            Self::Goodbye(farewell) => w.u8(match farewell {
                Farewell::Restarting => 0,
                Farewell::Stopping => 1,
                Farewell::Full => 2,
                Farewell::Revoked => 3,
            }),
        }
        w.bytes
    }
}
