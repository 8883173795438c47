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

    /// It, and what it is within.
    fn up(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |share| share.0.within.as_ref())
    }

    /// Whether something counts in both.
    pub(crate) fn is_kin(&self, other: &Self) -> bool {
        let last = |share: &Self| share.up().last().map(|share| Rc::as_ptr(&share.0));
        last(self) == last(other)
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
