//! That a request asks for what may be kept.

use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use crate::site::{SitePath, Wanted};

/// That a request asks for a key. It ends when this is dropped, with whatever becomes of the request.
#[derive(Debug)]
pub struct Ticket {
    /// How many keys had been forgotten by then.
    pub forgotten: u64,
    pub(super) demand: Demand,
    pub(super) ends: Ends,
}

/// What such a request wants and has, which counts behind its end, too.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Of which site, and for what.
    pub wanted: Wanted,
    pub(super) generation: u64,
    /// Others may wait for its answer.
    pub(super) is_for_others: bool,
    /// Whose it is, and bytes of its answer that are gathered.
    pub(super) peer: IpAddr,
    pub(super) gathered: usize,
    /// Others hear by themselves what becomes of it: its answer is on its way to all.
    pub(super) is_told: bool,
    /// The name of what is kept and stale, where the server itself asks for that.
    pub(super) refreshes: Option<SitePath>,
}

/// Those that have ended since somebody looked.
pub(super) type Ends = Rc<RefCell<Vec<Demand>>>;

impl Deref for Ticket {
    type Target = Demand;

    fn deref(&self) -> &Demand {
        &self.demand
    }
}

impl DerefMut for Ticket {
    fn deref_mut(&mut self) -> &mut Demand {
        &mut self.demand
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.ends.borrow_mut().push(self.demand.clone());
    }
}
