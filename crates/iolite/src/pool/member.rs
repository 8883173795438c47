//! A member's side of a pool: which of another process's buffers this one has.

use super::owner::next_number;
use super::{Invitation, Shape};
use crate::error::{Error, Result};
use crate::memory::{Access, Region, sealed_len};
use crate::protocol::{GENERATION_MAX, Take, Words, hold_word};
use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

/// What a consumer makes of a producer's promise not to change what it has handed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// It is believed. Bytes are looked at where they are, and never copied. Should the promise be broken, what is read is other bytes
    /// than were read before, and nothing worse.
    Trusted,
    /// It is not. Bytes are copied when they are read from the pipe, before anybody looks at them.
    #[default]
    Untrusted,
}

/// A pool of another process.
#[derive(Debug)]
pub(crate) struct MemberPool {
    pub number: u64,
    pub shape: Shape,
    mapped: Arc<Mapped>,
    buffers: RefCell<Vec<Had>>,
    held: Cell<u32>,
    /// What the owner gave to have other processes be members too.
    pub spare: RefCell<Vec<Invitation>>,
}

/// What the process has of it, whichever thread uses that. Where the thread that took the buffers has ended, holds stay as they are until the
/// last that was lent has gone, and the membership with it.
#[derive(Debug)]
struct Mapped {
    shape: Shape,
    region: Region,
    column: Region,
    /// As long as this is open, the owner believes the column.
    _life: OwnedFd,
    /// Buffers that were lent and are not used any more, each as often as it was.
    returned: Mutex<Vec<u32>>,
}

impl Mapped {
    #[inline]
    fn copy_out(&self, index: u32, start: usize, out: &mut [u8]) {
        self.region
            .copy_out(self.shape.start_of(index) + start, out);
    }
}

/// What this process knows by itself of a buffer; the column, which others may have been given, is not read back.
#[derive(Clone, Copy, Default, Debug)]
struct Had {
    /// How many references it has to it.
    references: u32,
    /// How often it took it.
    takes: u16,
    /// Of which generation it is, where there are references.
    generation: u64,
}

/// A buffer of another process's pool that this process has.
#[derive(Debug)]
pub(crate) struct HeldBuffer {
    pub pool: Rc<MemberPool>,
    pub index: u32,
    pub generation: u64,
}

/// A buffer that this process has, for any of its threads.
#[derive(Debug)]
pub(crate) struct LentBuffer {
    mapped: Arc<Mapped>,
    index: u32,
}

impl LentBuffer {
    /// Copies bytes of it out.
    pub fn copy_out(&self, start: usize, out: &mut [u8]) {
        self.mapped.copy_out(self.index, start, out);
    }

    pub fn len(&self) -> u32 {
        self.mapped.shape.buffer_len
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        let returned = self.mapped.returned.lock();
        returned
            .unwrap_or_else(PoisonError::into_inner)
            .push(self.index);
    }
}

impl HeldBuffer {
    /// For any thread; this one takes it back ([`MemberPool::take_back`]).
    pub fn lend(&self) -> LentBuffer {
        self.pool.buffers.borrow_mut()[self.index as usize].references += 1;
        LentBuffer {
            mapped: Arc::clone(&self.pool.mapped),
            index: self.index,
        }
    }
}

/// The words of one buffer, to a member.
struct Seen<'a> {
    pool: &'a MemberPool,
    buffer: u32,
    /// Which take this is.
    take: u16,
}

impl Words for Seen<'_> {
    #[inline]
    fn generation(&self) -> u64 {
        let word = self.pool.shape.generation_of(self.buffer);
        self.pool.mapped.region.word(word).load(Ordering::Acquire)
    }

    fn set_generation(&self, _: u64) {
        unreachable!("members have no writable mapping")
    }

    fn hold_from(&self, _: usize) -> Option<(usize, u64)> {
        unreachable!("members do not see each other's holds")
    }

    #[inline]
    fn set_hold(&self, generation: u64) {
        let word = self.pool.mapped.column.word(self.buffer as usize);
        let hold = match generation {
            0 => 0,
            _ => hold_word(generation, self.take),
        };
        word.store(hold, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

impl MemberPool {
    /// Maps a pool that this process was invited to.
    pub fn join(invitation: Invitation, len_max: usize) -> Result<Self> {
        if sealed_len(&invitation.pool)? > len_max {
            return Err(Error::PeerFault("its pool is longer than is mapped"));
        }
        let region = Region::map(&invitation.pool, Access::Read)?;
        let shape = Shape::read(&region)?;
        if sealed_len(&invitation.column)? != shape.column_len() {
            return Err(Error::PeerFault("its pool has holds of another length"));
        }
        Ok(Self {
            number: next_number(),
            shape,
            mapped: Arc::new(Mapped {
                shape,
                region,
                column: Region::map(&invitation.column, Access::Write)?,
                _life: invitation.life,
                returned: Mutex::default(),
            }),
            buffers: RefCell::new(vec![Had::default(); shape.buffers as usize]),
            held: Cell::new(0),
            spare: RefCell::default(),
        })
    }

    /// Takes a buffer that this process was told of.
    #[inline]
    pub fn take(self: &Rc<Self>, index: u32, generation: u64) -> Result<HeldBuffer> {
        if index >= self.shape.buffers || !(1..=GENERATION_MAX).contains(&generation) {
            return Err(Error::PeerFault("it sends a buffer that its pool has not"));
        }
        let mut buffers = self.buffers.borrow_mut();
        let had = &mut buffers[index as usize];
        if had.references > 0 {
            // As long as it is held it is of one generation, unless it was lost to those who have no hold.
            if had.generation != generation {
                return Err(Error::Lost);
            }
        } else {
            let (held, share) = (self.held.get(), self.shape.share);
            if held >= share {
                return Err(Error::ShareExceeded { held, share });
            }
            had.takes = had.takes.wrapping_add(1);
            let words = Seen {
                pool: self,
                buffer: index,
                take: had.takes,
            };
            if !Take::run(generation, &words) {
                return Err(Error::Lost);
            }
            self.held.set(held + 1);
            had.generation = generation;
        }
        had.references += 1;
        Ok(HeldBuffer {
            pool: Rc::clone(self),
            index,
            generation,
        })
    }

    /// Copies bytes of a buffer out.
    #[inline]
    pub fn copy_out(&self, index: u32, start: usize, out: &mut [u8]) {
        self.mapped.copy_out(index, start, out);
    }

    /// Lets go of what was lent and is not used any more.
    pub fn take_back(&self) {
        let returned = self.mapped.returned.lock();
        let returned = std::mem::take(&mut *returned.unwrap_or_else(PoisonError::into_inner));
        returned.into_iter().for_each(|index| self.let_go(index));
    }

    /// Whether this process has nothing of it.
    pub fn is_unused(&self) -> bool {
        self.held.get() == 0
    }

    /// There is a reference less to a buffer.
    #[inline]
    fn let_go(&self, index: u32) {
        let mut buffers = self.buffers.borrow_mut();
        let had = &mut buffers[index as usize];
        had.references -= 1;
        if had.references == 0 {
            self.held.set(self.held.get() - 1);
            // Behind all that was read of it; nothing is looked at afterwards.
            let word = self.mapped.column.word(index as usize);
            word.store(0, Ordering::Release);
        }
    }
}

impl Drop for HeldBuffer {
    #[inline]
    fn drop(&mut self) {
        self.pool.let_go(self.index);
    }
}
