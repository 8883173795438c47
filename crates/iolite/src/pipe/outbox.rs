//! What was sent and not taken yet: the sender keeps its references until the consumer says that it has its own.
//!
//! A sender that is dropped leaves that behind, and it stays until it is taken, or the consumer ends: all of a thread's are known here, and
//! looked through when a pool has no buffer left. They go with the thread.

use super::bell::{Sleeper, Waker};
use super::ring::Producer;
use crate::error::{Error, Result};
use crate::pool::membership::MemberId;
use crate::pool::owner::Core;
use crate::slice::{Slice, Source};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

thread_local! {
    static OUTBOXES: RefCell<Vec<Rc<RefCell<Outbox>>>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
pub(crate) struct Outbox {
    pub ring: Producer,
    /// Woken when there is room; and by whose end the consumer's is known.
    pub sleeper: Rc<Sleeper>,
    /// Wakes the consumer.
    waker: Waker,
    /// The position behind each, the bytes, and whose account they are on, where the pool is our own.
    sent: VecDeque<(u64, Slice, Option<MemberId>)>,
    /// How many of these are in pools of other processes, whose owners wait for them.
    others: usize,
    /// Whose account buffers are on that were under way when this side gave up: they may be taken for as long as the consumer is there.
    unsettled: Vec<(Rc<Core>, MemberId, u32)>,
    /// An event loop waits for its bell: what has rung, and that it is to ring, stays so.
    pub is_armed: bool,
    /// The sender is no more.
    is_left: bool,
    is_broken: bool,
}

impl Outbox {
    /// A new one, which is known.
    pub fn new(ring: Producer, sleeper: Sleeper, waker: Waker) -> Rc<RefCell<Self>> {
        let outbox = Rc::new(RefCell::new(Self {
            ring,
            sleeper: Rc::new(sleeper),
            waker,
            sent: VecDeque::new(),
            others: 0,
            unsettled: Vec::new(),
            is_armed: false,
            is_left: false,
            is_broken: false,
        }));
        OUTBOXES.with_borrow_mut(|all| all.push(Rc::clone(&outbox)));
        outbox
    }

    /// Keeps a reference to what was sent.
    #[inline]
    pub fn keep(&mut self, behind: u64, slice: Slice, account: Option<MemberId>) {
        self.others += usize::from(account.is_none());
        self.sent.push_back((behind, slice, account));
    }

    /// Lets go of what was taken, and finds room. Where nothing is kept and there is room it is not looked: the word that says how much was
    /// taken stays with the consumer then.
    ///
    /// # Errors
    ///
    /// As [`collect`](Self::collect).
    #[inline]
    pub fn collect_if_needed(&mut self) -> Result<()> {
        match self.sent.is_empty() && self.ring.has_room() && !self.is_broken {
            true => Ok(()),
            false => self.collect(),
        }
    }

    /// Lets go of what was taken.
    ///
    /// # Errors
    ///
    /// The consumer does not do as agreed.
    #[inline]
    pub fn collect(&mut self) -> Result<()> {
        if self.is_broken {
            return Err(Error::PeerGone);
        }
        match self.ring.look() {
            Ok(head) => self.let_go(head, true),
            Err(fault) => {
                self.give_up();
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Wakes the consumer, if it waits for what was sent.
    #[inline]
    pub fn wake(&self) {
        if self.ring.must_wake() {
            self.waker.wake();
        }
    }

    /// Has the consumer read what was sent, whatever it waits for.
    pub fn flush(&mut self) {
        if self.ring.flush() {
            self.waker.wake();
        }
    }

    /// Says that this side is about to sleep until there is room, or something more is taken: what is another's is let go of then.
    pub fn publish(&mut self, is_any_enough: bool) {
        let is_any_enough = is_any_enough || self.others > 0;
        self.ring.publish(is_any_enough);
    }

    /// How much was taken, where something was not; `None` where all was.
    pub fn taken_before_rest(&self) -> Option<u64> {
        (!self.sent.is_empty()).then(|| self.ring.taken())
    }

    /// The consumer is to take nothing any more. As long as it is there it may take all the same, so that stays on its account.
    pub fn give_up(&mut self) {
        self.is_broken = true;
        self.let_go(u64::MAX, false);
        self.settle();
    }

    /// What may be taken after this side has given up is not, when the consumer has closed the pipe, or is no member any more.
    fn settle(&mut self) {
        let is_over = !self.unsettled.is_empty() && self.sleeper.is_alone();
        self.unsettled.retain(|(core, member, buffer)| {
            if is_over {
                core.arrived(*member, *buffer);
            }
            !is_over && core.is_member(*member)
        });
    }

    /// Nothing is sent any more.
    pub fn leave(&mut self) {
        self.is_left = true;
        self.is_armed = false;
        self.ring.close();
    }

    fn let_go(&mut self, head: u64, is_settled: bool) {
        while let Some((_, slice, account)) = self.sent.pop_front_if(|(behind, ..)| *behind <= head)
        {
            match (&slice.source, account) {
                (Source::Own(own), Some(member)) if is_settled => {
                    own.core.arrived(member, own.index);
                }
                (Source::Own(own), Some(member)) => {
                    self.unsettled
                        .push((Rc::clone(&own.core), member, own.index));
                }
                _ => self.others -= 1,
            }
        }
    }

    /// Collects, and looks whether the consumer has ended. True when something came of it.
    pub fn look(&mut self) -> bool {
        let count = |it: &Self| it.sent.len() + it.unsettled.len();
        let before = count(self);
        // A consumer that does not do as agreed has nothing under way any more.
        let _ = self.collect();
        if !self.is_broken && self.sleeper.is_alone() {
            self.give_up();
        }
        self.settle();
        count(self) < before
    }

    /// Nothing is left to be done.
    fn is_over(&self) -> bool {
        self.is_left && self.sent.is_empty() && self.unsettled.is_empty()
    }
}

/// Lets go of all that was taken of what this thread sent, or will not be.
pub(crate) fn collect_all() {
    // When the thread ends nobody sends from its pools any more.
    let _ = OUTBOXES.try_with(|all| {
        let mut done = Vec::new();
        if let Ok(mut all) = all.try_borrow_mut() {
            let is_done = |outbox: &mut Rc<RefCell<Outbox>>| {
                outbox.try_borrow_mut().is_ok_and(|mut outbox| {
                    outbox.look();
                    outbox.is_over()
                })
            };
            done.extend(all.extract_if(.., is_done));
        }
    });
}

/// Those of this thread, but the one of this bell, by which buffers of other processes are under way: while it sleeps, it is to let go of
/// them when they are taken.
pub(super) fn with_others(but: &Sleeper) -> Vec<Rc<RefCell<Outbox>>> {
    let of = |all: &RefCell<Vec<Rc<RefCell<Outbox>>>>| {
        let all = all.borrow();
        let has_some = |outbox: &&Rc<RefCell<Outbox>>| {
            let outbox = outbox.borrow();
            outbox.others > 0 && !std::ptr::eq(&raw const *outbox.sleeper, but)
        };
        all.iter().filter(has_some).cloned().collect()
    };
    OUTBOXES.try_with(of).unwrap_or_default()
}
