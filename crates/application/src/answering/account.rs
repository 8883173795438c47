//! What all requests of an application hold in its memory: variables, and bodies that were not read.

use crate::limits::{REQUEST_COST, REQUESTS_LEN_MAX};
use std::cell::Cell;
use std::rc::Rc;

/// Bytes that all requests hold. A clone is the same account.
#[derive(Clone, Debug, Default)]
pub(super) struct Account(Rc<Cell<usize>>);

impl Account {
    /// A request's part of it.
    pub fn open(&self) -> Share {
        let mut share = Share {
            account: self.clone(),
            len: 0,
        };
        share.add(REQUEST_COST);
        share
    }

    /// They hold no more than they may.
    pub fn is_within_limit(&self) -> bool {
        self.0.get() <= REQUESTS_LEN_MAX
    }
}

/// What one request holds, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    account: Account,
    len: usize,
}

impl Share {
    /// It holds more; false when all of them hold more than they may then.
    pub fn add(&mut self, len: usize) -> bool {
        self.len += len;
        self.account.0.update(|all| all + len);
        self.account.is_within_limit()
    }

    /// It holds less.
    pub fn remove(&mut self, len: usize) {
        debug_assert!(len <= self.len, "it holds that");
        self.len -= len;
        self.account.0.update(|all| all - len);
    }

    /// It holds nothing.
    pub fn release(&mut self) {
        self.remove(self.len);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_held_is_free_when_it_is_over() {
        let account = Account::default();
        let mut all: Vec<Share> = (0..10).map(|_| account.open()).collect();
        assert!(all[0].add(REQUESTS_LEN_MAX / 2));
        assert!(!all[1].add(REQUESTS_LEN_MAX / 2) && !account.is_within_limit());
        all[1].remove(REQUESTS_LEN_MAX / 2);
        assert!(account.is_within_limit());
        drop(all);
        assert_eq!(account.0.get(), 0);
    }
}
