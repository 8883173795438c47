//! What a cache tells a policy, and asks it.

use crate::queue::Key;
use crate::{GreedyDualSize, Lru, S3Fifo};
use std::fmt;
use std::str::FromStr;

/// How many uses of a thing a cache counts at most: more say nothing else of it (two bits, in the paper of S3-FIFO).
pub const USES_MAX: u8 = 3;

/// Something that has come into memory.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer {
    /// By what it is known until it goes.
    pub key: Key,
    /// A hash of its name: the same whenever it comes again.
    pub name: u64,
    /// What it takes.
    pub bytes: u64,
    /// Somebody has asked for it; else it was read because there was room.
    pub is_asked_for: bool,
}

/// Whose turn it is to go when there is no room. A policy orders things; it neither reads nor frees any.
pub trait Policy: fmt::Debug {
    /// Something has come. Its key is of nothing that is there.
    fn admitted(&mut self, newcomer: Newcomer);

    /// Something that is there was used. A policy that asks how often when something has to go needs not be told.
    fn used(&mut self, _: Key) {}

    /// What has to go now, if anything is there: it has gone when this returns. `uses` tells how often something was used since it was last
    /// asked about, up to [`USES_MAX`], and counts again from then on; the one for which it came counts.
    fn victim(&mut self, uses: &mut dyn FnMut(Key) -> u8) -> Option<Key>;

    /// Something has gone for another reason: its file has changed, or is no longer there.
    fn removed(&mut self, key: Key);
}

impl Policy for Box<dyn Policy> {
    fn admitted(&mut self, newcomer: Newcomer) {
        (**self).admitted(newcomer);
    }

    fn used(&mut self, key: Key) {
        (**self).used(key);
    }

    fn victim(&mut self, uses: &mut dyn FnMut(Key) -> u8) -> Option<Key> {
        (**self).victim(uses)
    }

    fn removed(&mut self, key: Key) {
        (**self).removed(key);
    }
}

/// The policies that are here, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PolicyName {
    /// [`S3Fifo`].
    #[default]
    S3Fifo,
    /// [`Lru`].
    Lru,
    /// [`GreedyDualSize`].
    GreedyDualSize,
}

impl PolicyName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::S3Fifo, Self::Lru, Self::GreedyDualSize];

    /// One that knows of nothing yet.
    pub fn policy(self) -> Box<dyn Policy> {
        match self {
            Self::S3Fifo => Box::<S3Fifo>::default(),
            Self::Lru => Box::<Lru>::default(),
            Self::GreedyDualSize => Box::<GreedyDualSize>::default(),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::S3Fifo => "s3-fifo",
            Self::Lru => "lru",
            Self::GreedyDualSize => "gds",
        })
    }
}

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|name| name.to_string() == text);
        known.ok_or_else(|| format!("{text:?} is no policy: there are s3-fifo, lru and gds"))
    }
}
