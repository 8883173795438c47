//! The end of a pipe that is written to.

use super::bell::{Sleeper, Waker, bell};
use super::descriptor::{Descriptor, Reference};
use super::outbox::Outbox;
use super::ring::{self, Producer};
use super::setup::{self, Consumed, SPARES_MAX};
use super::told::Told;
use super::wait::{self, Wait, Waits};
use crate::aggregate::Aggregate;
use crate::error::{Error, Result};
use crate::limits::{INLINE_LEN_MAX, POOLS_MAX, SLOTS_MAX};
use crate::memory::{self, Access, Region};
use crate::pool::owner::Core;
use crate::pool::{Draft, Pool, Reserved, Share};
use crate::slice::{Slice, Source};
use exos_wait::{Counts, Slept, Waited};
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How a pipe is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Slices that fit into it, a power of two.
    pub slots: usize,
    /// How many processes the consumer may let in to each of our pools, by sending on what it gets without a copy; up to 8. The consumer is
    /// trusted with their holds, and each has a share (see the crate's text on trust).
    pub spares: u32,
    /// Pools of which it may carry buffers, up to 16. What is in others is copied into the sender's own.
    pub pools: usize,
}

impl Default for Options {
    /// 64 slices, nobody, and as many pools as there may be.
    fn default() -> Self {
        Self {
            slots: 64,
            spares: 0,
            pools: POOLS_MAX,
        }
    }
}

/// The end of a pipe that is written to.
#[derive(Debug)]
pub struct Sender {
    outbox: Rc<RefCell<Outbox>>,
    /// Where bytes are copied to that are in no pool.
    pool: Rc<Core>,
    told: Told,
    sleeper: Rc<Sleeper>,
    copied: u64,
    /// How much was taken when no more could be sent though the ring had room: more can be when more is taken.
    stuck_at: Option<u64>,
    waits: Waits,
}

impl Sender {
    /// Makes the process at the other end of a socket the consumer. What is not in a pool is copied into this one when it is written.
    ///
    /// # Errors
    ///
    /// The options are beyond the limits, no memory or descriptor is left, or the peer has gone.
    pub fn connect(socket: OwnedFd, pool: &Pool, options: Options) -> Result<Self> {
        let slots = options.slots;
        if !slots.is_power_of_two() || slots > SLOTS_MAX {
            return Err(Error::Shape(
                "a pipe has a power of two of slots, at most 4,096",
            ));
        }
        if options.spares > SPARES_MAX {
            return Err(Error::Shape("a consumer may let in 8 processes at most"));
        }
        if !(1..=POOLS_MAX).contains(&options.pools) {
            return Err(Error::Shape("a pipe carries buffers of 1 to 16 pools"));
        }
        let ring = memory::file("iolite-pipe", ring::file_len(slots))?;
        let region = Region::map(&ring, Access::Write)?;
        let (sleeper, wakes_us) = bell()?;
        let (wakes_them, ours) = bell()?;
        let consumed = Consumed {
            ring,
            slots,
            sleeper: wakes_them.0,
            waker: wakes_us,
        };
        setup::send_pipe(&socket, &consumed)?;
        let outbox = Outbox::new(Producer::new(region, slots), sleeper, Waker(ours));
        let sleeper = Rc::clone(&outbox.borrow().sleeper);
        Ok(Self {
            outbox,
            pool: Rc::clone(&pool.0),
            told: Told::new(socket, options),
            sleeper,
            copied: 0,
            stuck_at: None,
            waits: Waits::default(),
        })
    }

    /// Has what the consumer has of this pool count in a share, with that of others. Such a consumer has nothing of the pool but what comes by
    /// this pipe; those that it lets in ([`Options::spares`]) do not count in the share.
    pub fn count_in(&mut self, share: Share) {
        self.told.share = Some(share);
    }

    /// Has these bytes count in what the consumer, and those that share with it, may have of this pool, as if they were under way to it already:
    /// then they can be sent, whatever is sent to others meanwhile. `None` where nothing of them counts, as what travels in a descriptor.
    ///
    /// # Errors
    ///
    /// They are more than there is room for ([`look_at_share`](Self::look_at_share) may find some); or the consumer has gone, or cannot be made a
    /// member of the pool.
    pub fn reserve(&mut self, bytes: &Aggregate) -> Result<Option<Reserved>> {
        let own = bytes.slices().filter_map(|slice| match &slice.source {
            Source::Own(own) if slice.len() > INLINE_LEN_MAX => {
                Rc::ptr_eq(&own.core, &self.pool).then_some(own.index)
            }
            _ => None,
        });
        let mut buffers: Vec<u32> = own.collect();
        buffers.sort_unstable();
        buffers.dedup();
        if buffers.is_empty() {
            return Ok(None);
        }
        let Some((_, member)) = self.told.own(&self.pool, true)? else {
            return Ok(None);
        };
        self.pool.reserve(member, &buffers)?;
        let core = Rc::clone(&self.pool);
        Ok(Some(Reserved::new(core, member, buffers)))
    }

    /// Looks what the consumer has let go of; and where it, or a share that it counts in, has no room for this many more buffers, those that count
    /// there with it. Reads a word for each buffer of the pool and each of these.
    pub fn look_at_share(&mut self, buffers: u32) {
        if let Ok(Some((_, member))) = self.told.own(&self.pool, true) {
            self.pool.look_at_share(member, buffers);
        }
    }

    /// Writes as much from the front of an aggregate as there is room for, without waiting; what was written is taken out of it. How
    /// many bytes that were.
    ///
    /// # Errors
    ///
    /// Nothing was written, and nothing is under way of which the end could be waited for: the consumer keeps too many buffers, or no
    /// buffer is left to copy to; or the consumer has gone or does not do as agreed.
    #[inline]
    pub fn write(&mut self, aggregate: &mut Aggregate) -> Result<usize> {
        self.outbox.borrow_mut().collect_if_needed()?;
        self.stuck_at = None;
        let before = aggregate.len();
        let result = self.fill(aggregate);
        let written = before - aggregate.len();
        if written > 0 {
            self.outbox.borrow().wake();
            return Ok(written);
        }
        if matches!(
            result,
            Err(Error::ShareExceeded { .. } | Error::Exhausted { .. })
        ) {
            self.stuck_at = self.outbox.borrow().taken_before_rest();
        }
        match self.stuck_at {
            Some(_) => Ok(0),
            None => result.map(|()| 0),
        }
    }

    #[inline]
    fn fill(&mut self, aggregate: &mut Aggregate) -> Result<()> {
        while !aggregate.is_empty() && self.has_room()? {
            let Some(slice) = aggregate.pop_first() else {
                break;
            };
            if self.send_inline(&slice) {
                continue;
            }
            let kept = slice.clone();
            match self.send(slice) {
                Ok(true) => {}
                Ok(false) => self.copy_first(kept, aggregate)?,
                Err(error) => {
                    aggregate.prepend(kept);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Whether there is room for a slice.
    #[inline]
    fn has_room(&self) -> Result<bool> {
        let mut outbox = self.outbox.borrow_mut();
        if !outbox.ring.has_room() {
            outbox.collect()?;
        }
        Ok(outbox.ring.has_room())
    }

    /// Writes all of an aggregate, and waits for room as often as that takes. False when the time has passed; what was not written
    /// then, or before an error, is left in it.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_all(&mut self, aggregate: &mut Aggregate, how: Wait) -> Result<bool> {
        let end = how.end();
        while !aggregate.is_empty() {
            if self.write(aggregate)? == 0 && !self.wait_until(how, end)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for room end when there is room for this many slices, in place of one; where that is more than the pipe has slots, when it is
    /// empty. So a consumer that takes one of a full pipe wakes nobody, who would write one and sleep again.
    pub fn set_low_water(&mut self, slices: usize) {
        self.outbox.borrow_mut().ring.set_low_water(slices);
    }

    /// Has the consumer read what was written, though it may wait for [more](crate::LowWater). Waiting for room that is not there does that
    /// too, and so does the end of the sender; of what is another's, any wait at a pipe of this thread. One whose pool has no buffer left, or
    /// that waits for an answer, does it itself.
    pub fn flush(&mut self) {
        self.outbox.borrow_mut().flush();
    }

    /// Waits until there is room for a slice, or [as much as was asked for](Self::set_low_water). False when the time has passed.
    ///
    /// # Errors
    ///
    /// The consumer has gone, or does not do as agreed.
    pub fn wait_for_room(&mut self, how: Wait) -> Result<bool> {
        self.wait_until(how, how.end())
    }

    fn wait_until(&mut self, how: Wait, end: Option<Instant>) -> Result<bool> {
        if self.holds()? {
            return Ok(true);
        }
        // Or both might wait.
        self.flush();
        let mut waits = std::mem::take(&mut self.waits);
        let waited = wait::wait(self, how, end, &mut waits);
        self.waits = waits;
        if matches!(waited, Err(Error::PeerGone)) {
            self.outbox.borrow_mut().give_up();
        }
        waited
    }

    /// Lets go of what was taken. Writing does that too.
    ///
    /// # Errors
    ///
    /// The consumer does not do as agreed.
    pub fn collect(&mut self) -> Result<()> {
        self.outbox.borrow_mut().collect()
    }

    /// Says that this side waits at its descriptor ([`AsFd`]) for room, and whether there is some already. After that the descriptor is
    /// polled, and [`woken`](Self::woken) called before anything is written. The descriptor is readable whenever something was taken, so an
    /// event loop that sends on what is another's arms this also while there is room, and calls [`collect`](Self::collect) when it is woken:
    /// the owner waits for what was taken to be let go of.
    ///
    /// # Errors
    ///
    /// The consumer does not do as agreed.
    pub fn arm(&mut self) -> Result<bool> {
        self.outbox.borrow_mut().is_armed = true;
        self.publish();
        let holds = self.holds()?;
        if !holds {
            self.flush();
        }
        Ok(holds)
    }

    /// This side does not wait any more. If the consumer has ended, whatever is written next says so.
    pub fn woken(&mut self) {
        self.withdraw();
        self.outbox.borrow_mut().is_armed = false;
        match self.sleeper.clear() {
            Ok(true) => {
                let is_reached = self.outbox.borrow().ring.is_reached();
                self.waits.was_woken(is_reached);
            }
            Ok(false) => {}
            Err(_) => self.outbox.borrow_mut().give_up(),
        }
    }

    /// What came of its waits for room.
    pub fn waits(&self) -> Counts {
        self.waits.counts
    }

    /// Closes the pipe and waits for nobody: what was not taken is lost to the consumer, whose side finds that its buffers were used again. A sender
    /// that is dropped keeps these until they are taken, or the consumer ends, which one that is not trusted may put off for good.
    pub fn give_up(self) {
        self.outbox.borrow_mut().give_up();
    }

    /// Whether the consumer has ended, or closed the pipe. Asks the kernel.
    pub fn is_peer_gone(&self) -> bool {
        self.sleeper.is_alone()
    }

    /// Bytes that were copied, since they were in no pool that the consumer may read.
    pub fn copied_bytes(&self) -> u64 {
        self.copied
    }

    /// Puts a copy of a slice, in our pool, in front of an aggregate.
    fn copy_first(&mut self, slice: Slice, aggregate: &mut Aggregate) -> Result<()> {
        let mut rest = std::mem::take(aggregate);
        let most = self.pool.shape.buffer_len as usize;
        let mut at = 0;
        let copied = loop {
            if at == slice.len() {
                break Ok(());
            }
            let now = most.min(slice.len() - at);
            let mut draft = match Draft::new(&self.pool, now) {
                Ok(draft) => draft,
                Err(error) => break Err(error),
            };
            slice.copy_to(at, draft.bytes_mut());
            aggregate.append(draft.freeze());
            self.copied += now as u64;
            at += now;
        };
        // What found no room stays as it was; it is an error where nothing did.
        let result = if at == 0 { copied } else { Ok(()) };
        if at < slice.len() {
            rest.prepend(slice.sub(at..slice.len()));
        }
        aggregate.concatenate(rest);
        result
    }

    /// Sends few bytes in the descriptor; there is room. False when they are not so few.
    #[inline]
    fn send_inline(&self, slice: &Slice) -> bool {
        let inline = slice.to_inline().map(|bytes| {
            let len = slice.len() as u32;
            let mut outbox = self.outbox.borrow_mut();
            outbox.ring.push(Descriptor::Inline { len, bytes });
        });
        inline.is_some()
    }

    /// Sends a slice; there is room. False when the consumer may not read it in place: it is to be copied.
    #[inline]
    fn send(&mut self, slice: Slice) -> Result<bool> {
        let (pool, account, buffer, generation) = match &slice.source {
            Source::Own(own) => {
                let is_ours = Rc::ptr_eq(&own.core, &self.pool);
                let Some((pool, member)) = self.told.own(&own.core, is_ours)? else {
                    return Ok(false);
                };
                own.core.pass(member, own.index)?;
                (pool, Some(member), own.index, own.generation)
            }
            Source::Held(held) => match self.told.another(&held.pool)? {
                Some(pool) => (pool, None, held.index, held.generation),
                None => return Ok(false),
            },
            Source::Local(_) | Source::Inline(_) => return Ok(false),
        };
        let range = slice.range();
        let reference = Reference {
            pool: pool as u8,
            buffer,
            generation,
            start: range.start as u32,
            len: range.len() as u32,
        };
        let mut outbox = self.outbox.borrow_mut();
        let behind = outbox.ring.push(Descriptor::Buffer(reference));
        outbox.keep(behind, slice, account);
        Ok(true)
    }
}

impl Waited for Sender {
    type Error = Error;

    #[inline]
    fn holds(&mut self) -> Result<bool> {
        let mut outbox = self.outbox.borrow_mut();
        outbox.collect()?;
        Ok(match self.stuck_at {
            // Not for want of room: something more is to be taken.
            Some(head) => outbox.ring.has_room() && outbox.taken_before_rest() != Some(head),
            None => outbox.ring.has_wanted_room(),
        })
    }

    fn publish(&mut self) {
        let is_stuck = self.stuck_at.is_some();
        self.outbox.borrow_mut().publish(is_stuck);
    }

    fn withdraw(&mut self) {
        self.outbox.borrow().ring.withdraw();
    }

    fn sleep(&mut self, at_most: Option<Duration>) -> Result<Slept> {
        wait::sleep(&self.sleeper, at_most)
    }

    fn check(&mut self) -> Result<()> {
        wait::check(&self.sleeper)
    }
}

impl AsFd for Sender {
    /// Readable when the consumer has made room, after [`arm`](Sender::arm), and when it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sleeper.as_fd()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.outbox.borrow_mut().leave();
        self.outbox.borrow().wake();
        super::collect_all();
    }
}
