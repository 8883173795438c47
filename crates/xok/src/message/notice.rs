//! What the daemon says unasked.

use strum::VariantArray as _;

use super::head::{GrantId, encode};
use crate::bytes::{
    DecodeError, InBytes, Numbered as _, Reader, numbered, read_place, write_place,
};
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

/// Why the connection ends; in bytes by its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, strum::VariantArray)]
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
    /// The datagram.
    pub fn encode(&self) -> Vec<u8> {
        encode(self, 0)
    }
}

numbered!(Notice {
    128 => Revoke { what, deadline_ms, reason <= TEXT_BYTES_MAX },
    129 => Changed { generation },
    130 => Goodbye(farewell),
});

numbered!(Revoked {
    0 => Slot,
    1 => Grant(grant),
    2 => Rate(rate),
});

/// Its number in one byte.
impl InBytes for Revoked {
    fn write(&self, bytes: &mut Vec<u8>) {
        let number = u8::try_from(self.number());
        number.expect("there are three kinds").write(bytes);
        self.write_fields(bytes);
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        let number = u8::read(r, field)?;
        let revoked = Self::read_fields(number.into(), r)?;
        revoked.ok_or(DecodeError::BadField(field))
    }
}

impl InBytes for Farewell {
    fn write(&self, bytes: &mut Vec<u8>) {
        write_place(Self::VARIANTS, self, bytes);
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        read_place(Self::VARIANTS, r, field)
    }
}
