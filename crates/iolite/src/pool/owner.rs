//! The owner's side of a pool: which buffers are used, by whom, and which can be used again.

use super::membership::{Member, MemberId, Members, find};
use super::{Invitation, Shape, Share, Usage};
use crate::error::{Error, Refused as _, Result};
use crate::limits::{MEMBERS_MAX, REST_LEN_MIN};
use crate::memory::{self, Access, Region};
use crate::protocol::{Reclaim, State, Words};
use rustix::pipe::{PipeFlags, pipe_with};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// How many of those that were let go of are looked at before a buffer is taken that was not used for longer.
const LOOKS: usize = 2;

/// Numbers of the pools of this process, its own and those of which it is a member.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn next_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug)]
pub(crate) struct Core {
    pub shape: Shape,
    pub number: u64,
    file: OwnedFd,
    region: Region,
    buffers: RefCell<Buffers>,
    members: RefCell<Members>,
    /// The buffer in which small drafts are made, as long as it is used, and how much of it is given out.
    current: RefCell<(Weak<OwnBuffer>, u32)>,
}

#[derive(Debug)]
struct Buffers {
    states: Vec<State>,
    free: Vec<u32>,
    /// Released and advanced ones, those that were let go of first in front.
    waiting: VecDeque<u32>,
}

/// A buffer that is used, with one reference for each slice and draft of this process.
#[derive(Debug)]
pub(crate) struct OwnBuffer {
    pub core: Rc<Core>,
    pub index: u32,
    pub generation: u64,
}

impl OwnBuffer {
    /// # Safety
    ///
    /// No draft has these bytes.
    ///
    /// # Panics
    ///
    /// When they are not of the buffer.
    #[inline]
    pub unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        // SAFETY: the owner alone can write the file, the bytes lie behind the words, and no draft has them, says the caller.
        unsafe { self.core.region.bytes(self.range(range)) }
    }

    /// # Safety
    ///
    /// One draft has these bytes, and it is borrowed as long as they are.
    ///
    /// # Panics
    ///
    /// When they are not of the buffer.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the draft is borrowed, not the buffer")]
    pub unsafe fn bytes_mut(&self, range: Range<usize>) -> &mut [u8] {
        // SAFETY: the owner's mapping is for writing and its file's only one; the caller's promise.
        unsafe { self.core.region.bytes_mut(self.range(range)) }
    }

    #[inline]
    fn range(&self, range: Range<usize>) -> Range<usize> {
        let len = self.core.shape.buffer_len as usize;
        assert!(range.end <= len, "{range:?} of a buffer of {len} bytes");
        let start = self.core.shape.start_of(self.index);
        start + range.start..start + range.end
    }
}

impl Drop for OwnBuffer {
    fn drop(&mut self) {
        let mut buffers = self.core.buffers.borrow_mut();
        buffers.states[self.index as usize] = State::Released;
        buffers.waiting.push_back(self.index);
    }
}

/// The words of one buffer, to its owner.
struct Seen<'a> {
    core: &'a Core,
    members: &'a Members,
    buffer: u32,
}

impl Words for Seen<'_> {
    #[inline]
    fn generation(&self) -> u64 {
        self.core.generation(self.buffer)
    }

    #[inline]
    fn set_generation(&self, generation: u64) {
        let word = self.core.shape.generation_of(self.buffer);
        self.core
            .region
            .word(word)
            .store(generation, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn hold_from(&self, member: usize) -> Option<(usize, u64)> {
        let later = self.members.iter().enumerate().skip(member);
        let mut living = later.filter_map(|(n, member)| member.as_ref().map(|m| (n, m)));
        living
            .next()
            .map(|(n, member)| (n, member.hold(self.buffer)))
    }

    fn set_hold(&self, _: u64) {
        unreachable!("an owner is no member of its own pool")
    }
}

impl Core {
    pub fn new(name: &str, shape: Shape) -> Result<Self> {
        let shape = shape.check()?;
        let file = memory::file(name, shape.file_len())?;
        let region = Region::map(&file, Access::Write)?;
        memory::seal_writing(&file)?;
        shape.write(&region);
        Ok(Self {
            shape,
            number: next_number(),
            file,
            region,
            buffers: RefCell::new(Buffers {
                states: vec![State::Free; shape.buffers as usize],
                // The first is taken first.
                free: (0..shape.buffers).rev().collect(),
                waiting: VecDeque::new(),
            }),
            members: RefCell::default(),
            current: RefCell::default(),
        })
    }

    fn generation(&self, buffer: u32) -> u64 {
        let word = self.shape.generation_of(buffer);
        self.region.word(word).load(Ordering::Relaxed)
    }

    /// Room for a draft: in which buffer, and where.
    #[inline]
    pub fn room(self: &Rc<Self>, len: u32) -> Result<(Rc<OwnBuffer>, u32)> {
        let rest = |used: u32| self.shape.buffer_len - used;
        let mut current = self.current.borrow_mut();
        let (buffer, used) = &mut *current;
        if rest(*used) >= len
            && let Some(buffer) = buffer.upgrade()
        {
            let start = *used;
            *used += len;
            return Ok((buffer, start));
        }
        let index = self.take_free()?;
        let buffer = Rc::new(OwnBuffer {
            core: Rc::clone(self),
            index,
            generation: self.generation(index),
        });
        if rest(len) as usize >= REST_LEN_MIN {
            *current = (Rc::downgrade(&buffer), len);
        }
        Ok((buffer, 0))
    }

    /// A buffer that nobody has; it is used now.
    fn take_free(&self) -> Result<u32> {
        let waiting = self.buffers.borrow().waiting.len();
        (0..LOOKS.min(waiting)).for_each(|_| self.look_at_first());
        if let Some(index) = self.pop_free() {
            return Ok(index);
        }
        self.look_everywhere();
        self.pop_free().ok_or_else(|| self.exhausted())
    }

    fn pop_free(&self) -> Option<u32> {
        let mut buffers = self.buffers.borrow_mut();
        let index = buffers.free.pop()?;
        buffers.states[index as usize] = State::Used;
        Some(index)
    }

    /// Looks whether the first of those that wait is free; if not, it is the last.
    fn look_at_first(&self) {
        let mut buffers = self.buffers.borrow_mut();
        let Some(buffer) = buffers.waiting.pop_front() else {
            return;
        };
        let mut members = self.members.borrow_mut();
        let words = Seen {
            core: self,
            members: &members,
            buffer,
        };
        let state = Reclaim::run(buffers.states[buffer as usize], &words);
        buffers.states[buffer as usize] = state;
        if state == State::Free {
            members.iter_mut().flatten().for_each(|m| m.forget(buffer));
            buffers.free.push(buffer);
        } else {
            buffers.waiting.push_back(buffer);
        }
    }

    /// Looks what was taken of what was sent, who has ended, and at all buffers that wait.
    pub fn look_everywhere(&self) {
        crate::pipe::collect_all();
        self.look_who_ended();
        let waiting = self.buffers.borrow().waiting.len();
        (0..waiting).for_each(|_| self.look_at_first());
    }

    fn exhausted(&self) -> Error {
        let members = self.members.borrow();
        Error::Exhausted {
            buffers: self.shape.buffers,
            most_held: members
                .iter()
                .flatten()
                .map(Member::holds)
                .max()
                .unwrap_or(0),
        }
    }

    /// Whether a member has a buffer, or it is under way to one.
    pub fn is_held(&self, buffer: u32) -> bool {
        let members = self.members.borrow();
        members.iter().flatten().any(|member| member.has(buffer))
    }

    pub fn usage(&self) -> Usage {
        let buffers = self.buffers.borrow();
        let (free, waiting) = (buffers.free.len() as u32, buffers.waiting.len() as u32);
        Usage {
            free,
            own: self.shape.buffers - free - waiting,
            released: waiting,
            members: self.members.borrow().iter().flatten().count() as u32,
        }
    }

    // Members.

    /// Another member, and its number. What is passed to it counts in a share, if there is one.
    pub fn invite(&self, share: Option<Share>) -> Result<(MemberId, Invitation)> {
        self.forget_ended();
        let mut members = self.members.borrow_mut();
        let place = members.iter().position(Option::is_none);
        let place = place.unwrap_or(members.len());
        if place == MEMBERS_MAX {
            return Err(Error::Members);
        }
        let column = memory::file("iolite-holds", self.shape.column_len())?;
        let (life, theirs) = pipe_with(PipeFlags::CLOEXEC).refused("cannot make a pipe")?;
        let number = next_number();
        let region = Region::map(&column, Access::Read)?;
        let member = Member::new(number, region, life, self.shape, share);
        let invitation = Invitation {
            pool: self.file.try_clone().refused("no descriptor is left")?,
            column,
            life: theirs,
        };
        match members.get_mut(place) {
            Some(free) => *free = Some(member),
            None => members.push(Some(member)),
        }
        Ok((MemberId { place, number }, invitation))
    }

    /// Forgets members that have ended, and those that say that they have more buffers than a member may have, or others: no member of this
    /// library does, so nothing is asked of what they say.
    pub fn look_who_ended(&self) {
        for place in self.members.borrow_mut().iter_mut() {
            if place.as_ref().is_some_and(Member::is_over) {
                *place = None;
            }
        }
    }

    /// Forgets members that have ended. What the others say that they have is not looked at.
    pub fn forget_ended(&self) {
        for place in self.members.borrow_mut().iter_mut() {
            if place.as_ref().is_some_and(Member::has_ended) {
                *place = None;
            }
        }
    }

    /// A buffer is about to be sent to a member.
    #[inline]
    pub fn pass(&self, id: MemberId, buffer: u32) -> Result<()> {
        let is_known = |member: &mut Member| member.was_passed(buffer) || member.left() > 0;
        let find_in = |members: &mut Members| find(members, id).is_some_and(is_known);
        if !find_in(&mut self.members.borrow_mut()) {
            self.look_at_share(id, 1);
        }
        let mut members = self.members.borrow_mut();
        let member = find(&mut members, id).ok_or(Error::PeerGone)?;
        if !is_known(member) {
            return Err(member.exceeded());
        }
        member.pass(buffer);
        Ok(())
    }

    /// These buffers will be sent to a member, and are under way to it from now on.
    pub fn reserve(&self, id: MemberId, buffers: &[u32]) -> Result<()> {
        let mut members = self.members.borrow_mut();
        let member = find(&mut members, id).ok_or(Error::PeerGone)?;
        let more = buffers.iter().filter(|buffer| !member.was_passed(**buffer));
        if more.count() as u32 > member.left() {
            return Err(member.exceeded());
        }
        buffers.iter().for_each(|buffer| member.pass(*buffer));
        Ok(())
    }

    /// Looks what a member has let go of, and where this many more buffers are more than a share has left, those that count in that.
    pub fn look_at_share(&self, id: MemberId, buffers: u32) {
        crate::pipe::collect_all();
        let mut members = self.members.borrow_mut();
        let Some(member) = find(&mut members, id) else {
            return;
        };
        member.sweep();
        let Some(share) = member.share().cloned() else {
            return;
        };
        for full in share.up().filter(|share| !share.has_room(buffers)) {
            for place in members.iter_mut() {
                let member = place.as_mut();
                let counts = |it: &&mut Member| it.share().is_some_and(|it| it.is_within(full));
                match member.filter(counts) {
                    Some(member) if member.has_ended() => *place = None,
                    Some(member) => member.sweep(),
                    None => {}
                }
            }
        }
    }

    /// Whether a member has not ended, as far as was looked.
    pub fn is_member(&self, id: MemberId) -> bool {
        find(&mut self.members.borrow_mut(), id).is_some()
    }

    /// A buffer that was sent to a member was taken, or never will be.
    #[inline]
    pub fn arrived(&self, member: MemberId, buffer: u32) {
        if let Some(member) = find(&mut self.members.borrow_mut(), member) {
            member.arrived(buffer);
        }
    }
}
