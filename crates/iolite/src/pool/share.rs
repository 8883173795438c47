//! A limit on what several members of a pool have together, as the connections of one program, or the programs of one user.
//!
//! The owner counts by itself what it passes and is not seen to be let go of: nothing that a member writes makes a count smaller while it has
//! the bytes. A buffer that two members have counts twice.

use std::cell::Cell;
use std::rc::Rc;

/// A number of buffers that the members which count in it may have together. A clone is the same share.
#[derive(Clone, Debug)]
pub struct Share(Rc<Counted>);

#[derive(Debug)]
struct Counted {
    limit: u32,
    count: Cell<u32>,
    /// What counts in this one counts there as well.
    within: Option<Share>,
}

impl Share {
    /// A share of this many buffers.
    pub fn new(limit: u32) -> Self {
        Self::of(limit, None)
    }

    /// A part of this share: what is counted there counts here, too.
    pub fn part(&self, limit: u32) -> Self {
        Self::of(limit, Some(self.clone()))
    }

    fn of(limit: u32, within: Option<Self>) -> Self {
        let count = Cell::new(0);
        Self(Rc::new(Counted {
            limit,
            count,
            within,
        }))
    }

    /// How many buffers may be had in it at once.
    pub fn limit(&self) -> u32 {
        self.up()
            .map(|share| share.0.limit)
            .min()
            .expect("itself is one")
    }

    /// How many are, as far as it was looked.
    pub fn count(&self) -> u32 {
        self.0.count.get()
    }

    /// How many more may be.
    pub fn left(&self) -> u32 {
        let left = |share: &Self| share.0.limit.saturating_sub(share.count());
        self.up().map(left).min().expect("itself is one")
    }

    /// Whether there is another clone of it, or a part: a member counts in it, or may still.
    pub fn is_used(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// It, and what it is within, the narrowest first.
    pub(crate) fn up(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |share| share.0.within.as_ref())
    }

    /// Whether what counts in this one counts in another.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.up().any(|share| Rc::ptr_eq(&share.0, &other.0))
    }

    /// Whether this many more may be had, by itself: what it is within may have no room.
    pub(crate) fn has_room(&self, buffers: u32) -> bool {
        self.0.limit.saturating_sub(self.count()) >= buffers
    }

    pub(crate) fn add(&self, buffers: u32) {
        for share in self.up() {
            share.0.count.update(|count| count + buffers);
        }
    }

    pub(crate) fn remove(&self, buffers: u32) {
        for share in self.up() {
            share.0.count.update(|count| count - buffers);
        }
    }
}
