//! Who is to hear of what has come: programs that wait for it are woken at the end of a turn, for all of it at once, and where that
//! is better we wait until they have done what they were woken for.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use exos_preload::memory::{AWAKE, Shared, WATCHERS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

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
        self.note(number);
        fence(Ordering::SeqCst);
        // Who began to watch meanwhile, and saw no news with another watcher, sleeps.
        self.note(number);
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

    /// All that watch a socket have news of it.
    fn note(&mut self, number: u32) {
        for watcher in self.memory.watchers(number) {
            self.memory.watcher(watcher).news.set(number);
            self.to_wake[watcher as usize / 64] |= 1 << (watcher % 64);
        }
    }

    /// Wakes those that there is news for, and that sleep.
    pub fn wake(&mut self) {
        self.woken = 0;
        for watcher in self.take_sleepers() {
            self.write_to(watcher);
        }
    }

    /// As above; then waits until all that were woken wait again, something comes by one of `others`, or [`GATHER`] is over.
    pub fn wake_and_gather(&mut self, others: [BorrowedFd<'_>; 2]) {
        let sleepers = self.take_sleepers();
        let awaited = std::mem::take(&mut self.woken) + sleepers.len() as u32;
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

    /// A watcher of a process is woken by this; whether there is such a watcher.
    pub fn watch(&mut self, watcher: u32, waker: OwnedFd, pid: u32) -> bool {
        let place = self.wakers.get_mut(watcher as usize);
        place.map(|place| *place = Some((waker, pid))).is_some()
    }

    /// The watchers of a process that has ended are free. One that it has given back may be another's by now.
    pub fn forget(&mut self, pid: u32) {
        for (watcher, waker) in (0..).zip(&mut self.wakers) {
            waker.take_if(|(_, of)| *of == pid);
            self.memory.leave_watcher(watcher, pid);
        }
    }
}
