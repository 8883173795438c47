//! Who is to hear of what has come: programs that wait for it are woken at the end of a turn, for all of it at once, and where that
//! is better we wait until they have done what they were woken for.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use exos_host::intercept::counter;
use exos_preload::memory::{AWAKE, Shared, WATCHERS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl};

use crate::answer::fails;

/// How long those that were woken may take before we look again all the same.
pub(super) const GATHER: Duration = Duration::from_micros(200);

pub(super) struct News {
    memory: Rc<Shared>,
    /// By what watchers are woken, and whose they are.
    wakers: Vec<Option<(OwnedFd, u32)>>,
    to_wake: [u64; WATCHERS / 64],
    /// Threads that waited for one socket each, and were woken since the last [`wake`](Self::wake).
    woken: u32,
}

impl News {
    pub fn new(memory: Rc<Shared>) -> Self {
        Self {
            memory,
            wakers: (0..WATCHERS).map(|_| None).collect(),
            to_wake: [0; WATCHERS / 64],
            woken: 0,
        }
    }

    /// There is news of a socket: something to read, room to write, or both.
    pub fn tell(&mut self, number: u32, [reading, writing]: [bool; 2]) {
        if !reading && !writing {
            return;
        }
        let noted = self.note(number, [0; WATCHERS / 64]);
        fence(Ordering::SeqCst);
        // Who began to watch meanwhile, and saw no news with another watcher, sleeps.
        self.note(number, noted);
        let socket = self.memory.socket(number);
        for (told, turn, waiters) in [
            (reading, &socket.came, &socket.readers),
            (writing, &socket.left, &socket.writers),
        ] {
            if told && waiters.load(Ordering::Relaxed) > 0 {
                self.memory.wake(turn);
                self.woken += 1;
            }
        }
    }

    /// All that watch a socket have news of it, but for those that have them already: one that took them would be told twice. Gives
    /// all that have.
    fn note(&mut self, number: u32, mut noted: [u64; WATCHERS / 64]) -> [u64; WATCHERS / 64] {
        for watcher in self.memory.watchers(number) {
            let (word, bit) = (watcher as usize / 64, 1 << (watcher % 64));
            if noted[word] & bit == 0 {
                self.memory.watcher(watcher).news.set(number);
                self.to_wake[word] |= bit;
                noted[word] |= bit;
            }
        }
        noted
    }

    /// Wakes those that there is news for, and that sleep.
    pub fn wake(&mut self) {
        self.woken = 0;
        for watcher in self.take_sleepers() {
            self.write_to(watcher);
        }
    }

    /// As above; then waits until all that were woken wait again, something comes by one of `others`, or [`GATHER`] is over. Where there is
    /// news only for those that are awake, until one of them waits.
    pub fn wake_and_gather(&mut self, others: [BorrowedFd<'_>; 2]) {
        let has_news = self.to_wake.iter().any(|word| *word != 0);
        let sleepers = self.take_sleepers();
        let woken = std::mem::take(&mut self.woken) + sleepers.len() as u32;
        let awaited = woken.max(u32::from(has_news));
        if awaited == 0 {
            return;
        }
        self.memory.gathers(awaited);
        sleepers.iter().for_each(|watcher| self.write_to(*watcher));
        let time = Timespec::try_from(GATHER).expect("it is short");
        let mut fds = others.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // A signal only makes it shorter.
        let _ = poll(&mut fds, Some(&time));
        self.memory.engine().store(AWAKE, Ordering::Relaxed);
    }

    /// Those that there is news for, and that sleep: they are told now.
    fn take_sleepers(&mut self) -> Vec<u32> {
        let mut sleepers = Vec::new();
        for (at, word) in self.to_wake.iter_mut().enumerate() {
            let mut word = std::mem::take(word);
            while word != 0 {
                let watcher = at as u32 * 64 + word.trailing_zeros();
                word &= word - 1;
                if self.memory.watcher(watcher).is_to_be_told() {
                    sleepers.push(watcher);
                }
            }
        }
        sleepers
    }

    fn write_to(&self, watcher: u32) {
        if let Some((waker, _)) = &self.wakers[watcher as usize] {
            // One that counts already is awake.
            let _ = rustix::io::write(waker, &1_u64.to_ne_bytes());
        }
    }

    /// A watcher of a process is woken by this.
    ///
    /// # Errors
    ///
    /// The process has no such watcher, or this is no counter (eventfd(2)) that is written to without waiting.
    pub fn watch(&mut self, watcher: u32, waker: OwnedFd, pid: u32) -> io::Result<()> {
        let counts = counter(std::process::id(), waker.as_raw_fd())?.is_some();
        let waits = !fcntl_getfl(&waker)?.contains(OFlags::NONBLOCK);
        let is_its = self.memory.has_watcher(watcher, pid);
        match self.wakers.get_mut(watcher as usize) {
            Some(place) if counts && !waits && is_its => *place = Some((waker, pid)),
            _ => return fails(libc::EINVAL),
        }
        Ok(())
    }

    /// The watchers of a process that has ended are free. One that it has given back may be another's by now.
    pub fn forget(&mut self, pid: u32) {
        for (watcher, waker) in (0..).zip(&mut self.wakers) {
            waker.take_if(|(_, of)| *of == pid);
            self.memory.leave_watcher(watcher, pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn only_counters_that_never_wait_wake() {
        let memory = Rc::new(Shared::create().expect("memory"));
        let mut news = News::new(Rc::clone(&memory));
        let counter = |flags| eventfd(0, flags).expect("a counter");
        let ours = memory.take_watcher(7).expect("one is free");
        assert!(news.watch(ours, counter(EventfdFlags::NONBLOCK), 7).is_ok());
        let of_another = news.watch(ours, counter(EventfdFlags::NONBLOCK), 8);
        assert!(of_another.is_err());
        assert!(news.watch(ours, counter(EventfdFlags::empty()), 7).is_err());
        let beyond = news.watch(WATCHERS as u32, counter(EventfdFlags::NONBLOCK), 7);
        assert!(beyond.is_err());
        let (_reader, pipe) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("a pipe");
        assert!(news.watch(ours, pipe, 7).is_err());
    }

    #[test]
    fn a_watcher_that_is_anothers_by_now_stays_so() {
        let memory = Rc::new(Shared::create().expect("memory"));
        let mut news = News::new(Rc::clone(&memory));
        let counter = || eventfd(0, EventfdFlags::NONBLOCK).expect("a counter");
        let [first, second] = [7, 7].map(|pid| memory.take_watcher(pid).expect("one is free"));
        news.watch(first, counter(), 7).expect("it can be told");
        news.watch(second, counter(), 7).expect("it can be told");
        memory.leave_watcher(first, 7);
        assert_eq!(memory.take_watcher(8), Some(first));
        news.forget(7);
        assert_eq!(
            memory.take_watcher(9),
            Some(second),
            "it was the first one's still"
        );
        assert_ne!(memory.take_watcher(9), Some(first));
    }
}
