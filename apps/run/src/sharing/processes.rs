//! Processes that share sockets: each has a part of the memory, with what its descriptors are.

mod becoming;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use exos::net::{Interest, Poll, Token, Trigger};
use exos_host::intercept;
use exos_preload::memory::{MARK, PROCESSES, SOCKETS, Shared};

use super::sockets::SHARED;
use becoming::Becoming;

/// Tokens of processes, by their parts; those of their sockets are before.
pub(super) const PROCESS: usize = SHARED + SOCKETS;

/// How long a child that is being made may take to say that it is there, once its parent has ended.
const CHILD_TIME: Duration = Duration::from_secs(10);

/// Between looks for such children, which take as long as starting a process: those that come and go by the thousand are looked for once.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// What descriptors of shared sockets count.
const MARKED_COUNT: u64 = MARK as u64;

pub(super) struct Processes {
    memory: Rc<Shared>,
    /// Parts of the memory that processes have, by their numbers, with what tells that they have ended.
    parts: HashMap<u32, (u32, OwnedFd)>,
    becoming: Becoming,
    /// Parts of processes that are not there, and since when.
    orphans: HashMap<u32, Instant>,
    /// When parts were looked at for that last.
    swept: Instant,
}

impl Processes {
    pub fn new(memory: Rc<Shared>) -> Self {
        Self {
            memory,
            parts: HashMap::new(),
            becoming: Becoming::default(),
            orphans: HashMap::new(),
            swept: Instant::now(),
        }
    }

    pub fn are_none(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether a part is taken, and no process has said that it is the one that has it. What else its number says is not looked at: it may
    /// be that of the parent, which may have ended since, or a process's in a namespace of its own.
    fn is_to_be_said(&self, part: u32) -> bool {
        (part as usize) < PROCESSES
            && self.memory.process(part).pid.load(Ordering::Acquire) != 0
            && !self.parts.values().any(|(of, _)| *of == part)
    }

    /// The part that a process has.
    pub fn part_of(&self, pid: u32) -> Option<u32> {
        self.parts.get(&pid).map(|(part, _)| *part)
    }

    /// Whether a thread is one of the process that has this part: one call of the kernel's at most.
    pub fn is_of(&self, thread: u32, part: u32) -> bool {
        let owner = (part as usize) < PROCESSES;
        let owner = owner.then(|| self.memory.process(part).pid.load(Ordering::Acquire));
        let owner = owner.filter(|pid| self.part_of(*pid) == Some(part));
        let has = |pid| Path::new(&format!("/proc/{pid}/task/{thread}")).exists();
        owner.is_some_and(|pid| pid == thread || has(pid))
    }

    /// The sockets that each process has, by number.
    pub fn sockets(&self) -> impl Iterator<Item = (u32, u32)> {
        self.parts.iter().flat_map(|(pid, (part, _))| {
            let all = self.memory.descriptors(*part);
            all.map(|(_, number)| (*pid, number))
        })
    }

    /// A process says which part it has taken. Gives whether it was another program before, which had another.
    ///
    /// # Errors
    ///
    /// It has not, or it has gone.
    pub fn register(&mut self, poll: &Poll, pid: u32, part: u32) -> io::Result<bool> {
        // A signal has it say so again.
        if self.part_of(pid) == Some(part) {
            return Ok(false);
        }
        if !self.is_to_be_said(part) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let end = intercept::process(pid)?;
        self.memory.process(part).pid.store(pid, Ordering::Release);
        let was_another = self.remove(poll, pid)?;
        let (token, readable) = (Token(PROCESS + part as usize), Interest::READABLE);
        poll.register_fd(end.as_fd(), token, readable, Trigger::Level)?;
        self.parts.insert(pid, (part, end));
        Ok(was_another)
    }

    /// The process that has a part has ended: gives its number.
    pub fn ended(&mut self, poll: &Poll, part: u32) -> io::Result<Option<u32>> {
        let pid = self.parts.iter().find(|(_, (of, _))| *of == part);
        let Some(pid) = pid.map(|(pid, _)| *pid) else {
            return Ok(None);
        };
        self.remove(poll, pid)?;
        Ok(Some(pid))
    }

    /// What a process had is let go of.
    fn remove(&mut self, poll: &Poll, pid: u32) -> io::Result<bool> {
        let Some((part, end)) = self.parts.remove(&pid) else {
            return Ok(false);
        };
        poll.deregister_fd(end.as_fd())?;
        self.becoming.forget(pid);
        self.leave(part);
        self.sweep();
        Ok(true)
    }

    /// A process is about to become another program: it is looked which descriptors it keeps, and again, for those that take longer to
    /// become it.
    pub fn becomes_another(&mut self, pid: u32) {
        if self.parts.contains_key(&pid) {
            self.becoming.note(pid, Instant::now());
        }
    }

    /// When such a process is looked at next.
    pub fn due(&self) -> Option<Instant> {
        self.becoming.due()
    }

    /// Processes that have become programs without the library: the descriptors that were closed with that are let go of.
    pub fn look_at_others(&mut self, now: Instant) {
        while let Some(pid) = self.becoming.take(now) {
            let Some(part) = self.part_of(pid) else {
                continue;
            };
            let descriptors: Vec<_> = self.memory.descriptors(part).collect();
            for (fd, _) in descriptors {
                let is_ours = match shared_descriptor(pid, fd) {
                    Ok(close_on_exec) => close_on_exec.is_some(),
                    // Of one that may not be looked into nothing is known.
                    Err(error) => error.kind() != io::ErrorKind::NotFound,
                };
                if !is_ours {
                    self.let_go(part, fd);
                }
            }
        }
    }

    fn let_go(&self, part: u32, fd: i32) {
        if let Some((number, true)) = self.memory.unassign(part, fd) {
            self.memory.work().set(number);
        }
    }

    /// Parts of children that were made and ended before they came to say so.
    fn sweep(&mut self) {
        // Each part is a page or more.
        if self.swept.elapsed() < SWEEP_PAUSE {
            return;
        }
        self.swept = Instant::now();
        let known: Vec<u32> = self.parts.values().map(|(part, _)| *part).collect();
        let now = Instant::now();
        for part in (0..PROCESSES as u32).filter(|part| !known.contains(part)) {
            let pid = self.memory.process(part).pid.load(Ordering::Acquire);
            if pid == 0 || intercept::process(pid).is_ok() {
                self.orphans.remove(&part);
                continue;
            }
            // The child of one that has just ended may come yet.
            let seen = self.orphans.entry(part).or_insert(now);
            if now.duration_since(*seen) > CHILD_TIME {
                self.orphans.remove(&part);
                self.leave(part);
            }
        }
    }

    fn leave(&mut self, part: u32) {
        let descriptors: Vec<_> = self.memory.descriptors(part).collect();
        for (fd, _) in descriptors {
            self.let_go(part, fd);
        }
        self.memory.leave_process(part);
    }
}

/// Whether a descriptor of a thread's that is a shared socket is closed when it becomes another program; none of one that is not.
pub(super) fn shared_descriptor(thread: u32, fd: i32) -> io::Result<Option<bool>> {
    Ok(match intercept::counter(thread, fd)? {
        Some((MARKED_COUNT, close_on_exec)) => Some(close_on_exec),
        _ => None,
    })
}
