//! Which descriptors of programs are epoll sets: a Unix socket that takes a socket's place takes it in these too.
//!
//! The descriptors of a process are looked at once. Of sets that it makes from then on we know, for they are made here. It is looked
//! again where one of them is a set no more: a copy of it may be.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use exos_host::intercept::{self, Call, Registration};
use rustix::event::{PollFlags, epoll};

use super::flow::ready;
use crate::answer::Answer;
use crate::context::Context;

#[derive(Default)]
pub(crate) struct EpollSets {
    of: HashMap<u32, Known>,
}

/// What is known of a process.
struct Known {
    /// Readable when it has ended.
    process: OwnedFd,
    sets: Vec<i32>,
}

impl EpollSets {
    /// Makes a set for a program that asks for one. What does not work so is the kernel's to do, or to refuse.
    pub fn create(&mut self, cx: &Context, call: &Call) -> Answer {
        let flags = match (call.number, call.args[0] as i32) {
            (libc::SYS_epoll_create1, flags) => flags,
            (_, 1..) => 0,
            _ => return Answer::Pass,
        };
        if flags & !libc::EPOLL_CLOEXEC != 0 {
            return Answer::Pass;
        }
        let made = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from);
        let give = |set: OwnedFd| cx.calls.give(call, set.as_fd(), flags != 0);
        let Ok(number) = made.and_then(give) else {
            return Answer::Pass;
        };
        if let Ok(process) = intercept::process_of(call.thread)
            && let Some(known) = self.of.get_mut(&process)
        {
            match known.sets.contains(&number) {
                // It was closed, and a copy of it may be left.
                true => drop(self.of.remove(&process)),
                false => known.sets.push(number),
            }
        }
        Answer::Later
    }

    /// Where a caller's descriptor, which is of that inode, stands in sets.
    ///
    /// # Errors
    ///
    /// The process has gone.
    pub fn registrations(
        &mut self,
        call: &Call,
        number: i32,
        inode: u64,
    ) -> io::Result<Vec<Registration>> {
        let (thread, pid) = (call.thread, intercept::process_of(call.thread)?);
        let is_so = |known: &&Known| {
            let mut sets = known.sets.iter();
            !known.has_ended() && sets.all(|set| intercept::is_epoll_set(thread, *set))
        };
        if self.of.get(&pid).filter(is_so).is_none() {
            self.look(thread, pid)?;
        }
        intercept::registrations(thread, &self.of[&pid].sets, number, inode)
    }

    /// Looks at all descriptors of a process.
    fn look(&mut self, thread: u32, pid: u32) -> io::Result<()> {
        // Now and then, for it asks the kernel of each.
        if self.of.len().is_power_of_two() {
            self.of.retain(|_, known| !known.has_ended());
        }
        let process = intercept::process(pid)?;
        let sets = intercept::epoll_sets(thread)?;
        self.of.insert(pid, Known { process, sets });
        Ok(())
    }
}

impl Known {
    fn has_ended(&self) -> bool {
        ready(&self.process, PollFlags::IN).is_ok_and(|ready| !ready.is_empty())
    }
}
