//! The end of a pipe that is read from.

use super::bell::{Sleeper, Waker, passed};
use super::descriptor::{Descriptor, Reference};
use super::ring::{self, Consumer};
use super::setup;
use super::wait::{self, LowWater, Wait, Waits};
use crate::aggregate::Aggregate;
use crate::error::{Error, Result};
use crate::lent::Loans;
use crate::limits::POOLS_MAX;
use crate::memory::{Access, Region, sealed_len};
use crate::pool::Trust;
use crate::pool::member::MemberPool;
use crate::slice::Slice;
use exos_wait::{Counts, Slept, Waited};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What was read.
#[derive(Debug)]
pub enum Read {
    /// Bytes, at least one.
    Data(Aggregate),
    /// Nothing is there now.
    Nothing,
    /// The producer has closed the pipe, and all was read.
    End,
}

/// The end of a pipe that is read from.
#[derive(Debug)]
pub struct Receiver {
    ring: Consumer,
    pools: Vec<Rc<MemberPool>>,
    socket: OwnedFd,
    sleeper: Sleeper,
    waker: Waker,
    trust: Trust,
    pools_max: usize,
    /// What is left of a slice of which less was wanted.
    rest: Aggregate,
    lost: u64,
    /// The bell has told that the producer has ended: what is there now is all.
    is_alone: bool,
    waits: Waits,
}

impl Receiver {
    /// Waits until the process at the other end of a socket makes this one its consumer.
    ///
    /// # Errors
    ///
    /// It has gone, does not do as agreed, or no memory or descriptor is left.
    pub fn accept(socket: OwnedFd, trust: Trust) -> Result<Self> {
        let consumed = setup::receive_pipe(&socket)?;
        if sealed_len(&consumed.ring)? != ring::file_len(consumed.slots) {
            return Err(Error::PeerFault(
                "its ring is of another length than it says",
            ));
        }
        let region = Region::map(&consumed.ring, Access::Write)?;
        Ok(Self {
            ring: Consumer::new(region, consumed.slots),
            pools: Vec::new(),
            socket,
            sleeper: Sleeper(passed(consumed.sleeper)?),
            waker: Waker(passed(consumed.waker)?),
            trust,
            pools_max: POOLS_MAX,
            rest: Aggregate::new(),
            lost: 0,
            is_alone: false,
            waits: Waits::default(),
        })
    }

    /// From a producer that was to send of one pool and let nobody else in: anything more, which would cost descriptors and mappings, breaks
    /// the rules.
    #[must_use]
    pub fn of_one_pool(mut self) -> Self {
        self.pools_max = 1;
        self
    }

    /// Takes what is there, at most this many bytes and as many slices as the pipe has slots, without waiting.
    ///
    /// # Errors
    ///
    /// [`woken`](Self::woken) found that the producer has ended, without closing the pipe, and all that it sent was read; this process keeps as many buffers of a pool as it may ([`Error::ShareExceeded`]), after which it goes on once it has let go of some;
    /// bytes were lost with a process that had sent them on ([`Error::Lost`]), after which it goes on behind them; the producer does not do as
    /// agreed.
    #[inline]
    pub fn read(&mut self, at_most: usize) -> Result<Read> {
        let mut data = match self.rest.is_empty() {
            true => Aggregate::new(),
            false => std::mem::take(&mut self.rest),
        };
        let result = self.fill(&mut data, at_most);
        if data.len() > at_most {
            self.rest = data.split(at_most);
        }
        if !data.is_empty() {
            return Ok(Read::Data(data));
        }
        result?;
        // What was sent before it was closed is there when it is closed.
        if self.ring.is_closed() && self.rest.is_empty() && self.ring.peek()?.is_none() {
            return Ok(Read::End);
        }
        if self.is_alone && at_most > 0 && !self.holds()? {
            return Err(Error::PeerGone);
        }
        Ok(Read::Nothing)
    }

    /// Takes what is there, and waits until something is, or [as much as was asked for](Self::set_low_water). When the time has passed it takes
    /// what has come.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and when the producer has ended without closing the pipe, behind all that it has sent.
    #[inline]
    pub fn read_wait(&mut self, at_most: usize, how: Wait) -> Result<Read> {
        // Most often any slice is enough: what is there is not looked at twice.
        if self.ring.wants_any() {
            let read = self.read(at_most)?;
            if !matches!(read, Read::Nothing) {
                return Ok(read);
            }
        }
        let end = how.end();
        loop {
            let waited = match at_most > 0 && !self.holds()? {
                true => self.wait_until(how, end),
                false => Ok(at_most > 0),
            };
            let read = self.read(at_most)?;
            // A producer that has ended has sent all that it will.
            if !matches!(read, Read::Nothing) || !waited? {
                return Ok(read);
            }
        }
    }

    fn wait_until(&mut self, how: Wait, end: Option<Instant>) -> Result<bool> {
        let mut waits = std::mem::take(&mut self.waits);
        let waited = wait::wait(self, how, end, &mut waits);
        self.waits = waits;
        waited
    }

    /// Waits end when this much is there, a full pipe, or what the producer has [flushed](crate::Sender::flush). Until then the producer
    /// does not wake this side; one that waits for what this side does with less flushes it.
    pub fn set_low_water(&mut self, low_water: LowWater) {
        self.ring.set_low_water(low_water);
    }

    /// What came of its waits.
    pub fn waits(&self) -> Counts {
        self.waits.counts
    }

    /// Says that this side waits at its descriptor ([`AsFd`]) for something to read, and whether something is there already. After that the
    /// descriptor is polled, and [`woken`](Self::woken) called before anything is read.
    ///
    /// # Errors
    ///
    /// The producer does not do as agreed.
    pub fn arm(&mut self) -> Result<bool> {
        self.publish();
        self.holds()
    }

    /// This side does not wait any more. If the producer has ended, [`read`](Self::read) says so behind the last bytes.
    pub fn woken(&mut self) {
        self.withdraw();
        match self.sleeper.clear() {
            Ok(true) => {
                let holds = self.holds().unwrap_or(true);
                self.waits.was_woken(holds);
            }
            Ok(false) => {}
            Err(_) => self.is_alone = true,
        }
    }

    /// Lets go of what was lent to other threads ([`Lent`](crate::Lent)) and is not used any more.
    pub fn take_back(&self) {
        self.pools.iter().for_each(|pool| pool.take_back());
    }

    /// Nothing more is read, and the pipe is closed; what was lent stays, and is still taken back.
    #[must_use]
    pub fn retire(self) -> Loans {
        Loans(self.pools)
    }

    /// Slices that were lost with processes that had sent them on.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    #[inline]
    fn fill(&mut self, data: &mut Aggregate, at_most: usize) -> Result<()> {
        let mut taken = 0;
        let mut result = Ok(());
        // A producer that is as fast as we are would keep us here, and what it waits for from being told.
        while data.len() < at_most && taken < self.ring.slots() {
            let descriptor = match self.ring.peek() {
                Ok(Some(descriptor)) => descriptor,
                Ok(None) => break,
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            };
            let slice = match descriptor {
                Descriptor::Inline { len, bytes } => Ok(Slice::inline(bytes, len)),
                Descriptor::Buffer(reference) => self.take(reference),
            };
            match slice {
                Ok(slice) => data.append(slice),
                Err(Error::Lost) if !data.is_empty() => break,
                Err(error) => {
                    result = Err(error);
                    if !matches!(result, Err(Error::Lost)) {
                        break;
                    }
                    self.lost += 1;
                }
            }
            // Behind the hold.
            self.ring.advance(&descriptor);
            taken += 1;
            if result.is_err() {
                break;
            }
        }
        if taken > 0 && self.ring.must_wake() {
            self.waker.wake();
        }
        result
    }

    /// Takes bytes of a pool of which the producer has told.
    #[inline]
    fn take(&mut self, reference: Reference) -> Result<Slice> {
        let number = usize::from(reference.pool);
        if number == self.pools.len() {
            if number >= self.pools_max {
                return Err(Error::PeerFault(
                    "it has more pools than the pipe may carry",
                ));
            }
            let takes_spares = self.pools_max > 1;
            let pool = setup::receive_pool(&self.socket, number, takes_spares)?;
            self.pools.push(Rc::new(pool));
        }
        let pool = self.pools.get(number);
        let pool = pool.ok_or(Error::PeerFault(
            "it sends from a pool of which it did not tell",
        ))?;
        let end = reference.start.checked_add(reference.len);
        if end.is_none_or(|end| end > pool.shape.buffer_len) {
            return Err(Error::PeerFault(
                "it sends bytes behind the end of a buffer",
            ));
        }
        let held = pool.take(reference.buffer, reference.generation)?;
        let slice = Slice::held(held, reference.start, reference.len);
        Ok(match self.trust {
            Trust::Trusted => slice,
            Trust::Untrusted => slice.settled(),
        })
    }
}

impl Waited for Receiver {
    type Error = Error;

    #[inline]
    fn holds(&mut self) -> Result<bool> {
        self.ring.is_enough(self.rest.len())
    }

    fn publish(&mut self) {
        self.ring.publish(self.rest.len());
    }

    fn withdraw(&mut self) {
        self.ring.withdraw();
    }

    fn sleep(&mut self, at_most: Option<Duration>) -> Result<Slept> {
        wait::sleep(&self.sleeper, at_most)
    }

    fn check(&mut self) -> Result<()> {
        wait::check(&self.sleeper)
    }
}

impl AsFd for Receiver {
    /// Readable when something came, after [`arm`](Self::arm), and when the producer has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sleeper.as_fd()
    }
}
