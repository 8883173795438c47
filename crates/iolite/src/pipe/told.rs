//! The pools of which a pipe's consumer was told, each once, over the pipe's socket.

use super::sender::Options;
use super::setup;
use crate::error::{Error, Result};
use crate::pool::Invitation;
use crate::pool::Share;
use crate::pool::member::MemberPool;
use crate::pool::membership::MemberId;
use crate::pool::owner::Core;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A pool; its number in the pipe is its place.
#[derive(Debug)]
enum Known {
    Own(Rc<Core>, MemberId),
    Another(Rc<MemberPool>),
}

#[derive(Debug)]
pub(super) struct Told {
    pools: Vec<Known>,
    socket: OwnedFd,
    options: Options,
    /// What the consumer has of the pool that copies go to counts in it.
    pub share: Option<Share>,
    /// The pool that copies go to is among them.
    has_copies: bool,
}

impl Told {
    pub fn new(socket: OwnedFd, options: Options) -> Self {
        Self {
            pools: Vec::new(),
            socket,
            options,
            share: None,
            has_copies: false,
        }
    }

    /// Whether the consumer can be told of another. The last place is that of the pool that all else is copied to.
    fn has_room(&self, is_for_copies: bool) -> bool {
        let kept = usize::from(!is_for_copies && !self.has_copies);
        self.pools.len() + kept < self.options.pools
    }

    /// The number of a pool of ours, of which the consumer is told now if it was not before; `None` where a pipe carries no more.
    #[inline]
    pub fn own(
        &mut self,
        core: &Rc<Core>,
        is_for_copies: bool,
    ) -> Result<Option<(usize, MemberId)>> {
        let known = self.pools.iter().enumerate();
        let mut known = known.filter_map(|(n, known)| match known {
            Known::Own(known, member) if Rc::ptr_eq(known, core) => Some((n, *member)),
            _ => None,
        });
        if let Some(known) = known.next() {
            return Ok(Some(known));
        }
        if !self.has_room(is_for_copies) {
            return Ok(None);
        }
        // What is not passed is no member: it ends here.
        let share = self.share.as_ref().filter(|_| is_for_copies).cloned();
        let (member, invitation) = core.invite(share)?;
        let mut spare = Vec::new();
        while spare.len() < self.options.spares as usize {
            match core.invite(None) {
                Ok((_, invitation)) => spare.push(invitation),
                // What is sent on is copied then.
                Err(Error::Members) => break,
                Err(error) => return Err(error),
            }
        }
        let number = self.tell(&invitation, &spare)?;
        self.pools.push(Known::Own(Rc::clone(core), member));
        self.has_copies |= is_for_copies;
        Ok(Some((number, member)))
    }

    /// The number of another's pool, if the consumer may read it, by an invitation that its owner gave us for that: a spare. No spares of
    /// another's pool are passed on with it, so between an owner and the last that reads its bytes there is one at most that has sent
    /// them on. The model has no more, either.
    pub fn another(&mut self, pool: &Rc<MemberPool>) -> Result<Option<usize>> {
        let is_it =
            |known: &Known| matches!(known, Known::Another(known) if Rc::ptr_eq(known, pool));
        if let Some(number) = self.pools.iter().position(is_it) {
            return Ok(Some(number));
        }
        if !self.has_room(false) {
            return Ok(None);
        }
        let Some(invitation) = pool.spare.borrow_mut().pop() else {
            return Ok(None);
        };
        match self.tell(&invitation, &[]) {
            Ok(number) => {
                self.pools.push(Known::Another(Rc::clone(pool)));
                Ok(Some(number))
            }
            Err(error) => {
                pool.spare.borrow_mut().push(invitation);
                Err(error)
            }
        }
    }

    fn tell(&self, invitation: &Invitation, spare: &[Invitation]) -> Result<usize> {
        let number = self.pools.len();
        setup::send_pool(&self.socket, number, invitation, spare)?;
        Ok(number)
    }
}
