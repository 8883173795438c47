//! That a request asks for what may be kept.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use crate::site::{SitePath, Wanted};

/// That a request asks for a key. It ends when this is dropped, with whatever becomes of the request.
#[derive(Debug)]
pub struct Ticket {
    /// Of which site, and for what.
    pub wanted: Wanted,
    /// How many keys had been forgotten by then.
    pub forgotten: u64,
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
    pub(super) ends: Ends,
}

/// Those that have ended since somebody looked.
pub(super) type Ends = Rc<RefCell<Vec<End>>>;

/// A ticket that has ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) wanted: Wanted,
    pub(super) generation: u64,
    pub(super) is_for_others: bool,
    pub(super) peer: IpAddr,
    pub(super) gathered: usize,
    pub(super) is_told: bool,
    pub(super) refreshes: Option<SitePath>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.ends.borrow_mut().push(End {
            wanted: self.wanted.clone(),
            generation: self.generation,
            is_for_others: self.is_for_others,
            peer: self.peer,
            gathered: self.gathered,
            is_told: self.is_told,
            refreshes: self.refreshes.take(),
        });
    }
}
