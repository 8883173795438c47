//! Why the ledger refuses.

use std::fmt;

use exos_xok::Claim;
use exos_xok::claim::ClaimError;
use exos_xok::limits::SUCCESSOR_MS_MAX;
use exos_xok::message::Refusal;

use super::grant::Owner;

/// Why something is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Denied {
    /// Somebody else has it.
    Held(Claim, Owner),
    /// Somebody else has it, and does not share it.
    NotShared(Claim, Owner),
    /// Programs of another user share it.
    SharedByOthers(Claim, Owner),
    /// It is no port that could be shared.
    NotDivisible(Claim),
    /// It is kept for a successor of somebody else, who has gone.
    Awaited(Claim, Owner),
    /// Somebody else has a filter that it meets.
    HeldByFilter(String, Owner),
    /// There is no such thing, or it is not the asker's.
    NotFound(&'static str),
    /// It is not a claim.
    Bad(ClaimError),
    /// It is not a part of the grant.
    NotPart(Claim),
    /// It is not all ports of an address.
    NotWhole(Claim),
    /// A bound is reached.
    Limit(String),
}

impl Denied {
    /// For a program.
    pub fn code(&self) -> Refusal {
        match self {
            Self::Held(..)
            | Self::NotShared(..)
            | Self::SharedByOthers(..)
            | Self::Awaited(..)
            | Self::HeldByFilter(..) => Refusal::Held,
            Self::NotFound(_) => Refusal::NotFound,
            Self::Bad(_) | Self::NotPart(_) | Self::NotWhole(_) | Self::NotDivisible(_) => {
                Refusal::BadRequest
            }
            Self::Limit(_) => Refusal::Limit,
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(claim, owner) => write!(f, "{claim} is held by {owner}"),
            Self::NotShared(claim, owner) => {
                let remedy = "start all of them with --reuse-port";
                write!(
                    f,
                    "{claim} is held by {owner}, which does not share it; {remedy}"
                )
            }
            Self::SharedByOthers(claim, owner) => write!(
                f,
                "{claim} is held by {owner}, and shared by programs of that user only"
            ),
            Self::NotDivisible(claim) => {
                write!(f, "TCP and UDP ports are shared, and not {claim}")
            }
            Self::Awaited(claim, owner) => {
                let most = SUCCESSOR_MS_MAX / 1000;
                write!(
                    f,
                    "{claim} is kept for a successor of {owner}, which has ended; it is free in {most} s if none comes"
                )
            }
            Self::HeldByFilter(text, owner) => {
                write!(
                    f,
                    "packets of it are held by {owner}, by the filter {text:?}"
                )
            }
            Self::NotFound(what) => write!(f, "there is no such {what} of yours"),
            Self::Bad(error) => error.fmt(f),
            Self::NotPart(whole) => write!(f, "that is not a part of {whole}"),
            Self::NotWhole(claim) => {
                write!(
                    f,
                    "a successor is awaited for all ports of an address, and not for {claim}"
                )
            }
            Self::Limit(text) => f.write_str(text),
        }
    }
}
