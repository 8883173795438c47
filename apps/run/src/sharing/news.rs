//! Who is to hear of what has come: programs that wait for it are woken at the end of a turn, for all of it at once, and where that
//! is better we wait until they have done what they were woken for.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use exos_host::intercept::counter;
use exos_preload::memory::{AWAKE, Shared, Socket, WATCHERS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl};

use crate::answer::fails;

/// How long those that were woken may take before we look again all the same.
pub(super) const GATHER: Duration = Duration::from_micros(200);

/// What a thread waits for that waits for one socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Reading,
    Writing,
}

impl Side {
    /// The word that it sleeps on, and how many do.
    fn of(self, socket: &Socket) -> (&AtomicU32, &AtomicU32) {
        match self {
            Self::Reading => (&socket.came, &socket.readers),
            Self::Writing => (&socket.left, &socket.writers),
        }
    }
}

pub(super) struct News {
    memory: Rc<Shared>,
    /// By what watchers are woken, and whose they are.
    wakers: Vec<Option<(OwnedFd, u32)>>,
    to_wake: [u64; WATCHERS / 64],
    /// Sockets that threads wait for, each for that one, and that there is news of: to read, or room.
    waited_for: Vec<(u32, Side)>,
    /// Those that wait for one socket are woken when there is news of it, not at the end of the turn.
    wakes_at_once: bool,
}

impl News {
    pub fn new(memory: Rc<Shared>) -> Self {
        Self {
            memory,
            wakers: (0..WATCHERS).map(|_| None).collect(),
            to_wake: [0; WATCHERS / 64],
            waited_for: Vec::new(),
            wakes_at_once: false,
        }
    }

    /// Whether those that wait for one socket are woken at once: on a core of their own they need not wait for what else the turn does. Where
    /// they are waited for, they are to be counted first.
    pub fn wake_at_once(&mut self, does: bool) {
        self.wakes_at_once = does;
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
        for (told, side) in [(reading, Side::Reading), (writing, Side::Writing)] {
            let (word, waiters) = side.of(self.memory.socket(number));
            if !told || waiters.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // One that is about to sleep does not.
            word.fetch_add(1, Ordering::AcqRel);
            match self.wakes_at_once {
                true => drop(self.memory.wake_waiters(word)),
                false => self.waited_for.push((number, side)),
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

    /// Wakes those that there is news for, and that sleep; says whether any do.
    pub fn wake(&mut self) -> bool {
        let sleepers = self.take_sleepers();
        let threads = self.count_waiters();
        let awaited = threads + sleepers.len() as u32;
        if awaited == 0 {
            return false;
        }
        self.memory.awaits(awaited);
        let woken = sleepers.len() as u32 + self.wake_all(&sleepers, threads);
        woken > 0
    }

    /// How many threads wait for one socket each that there is news of. A socket of which there was news more than once counts once.
    fn count_waiters(&mut self) -> u32 {
        /// Programs can write any number there.
        const MOST: u32 = 1 << 20;
        self.waited_for.sort_unstable();
        self.waited_for.dedup();
        let mut count = 0;
        self.waited_for.retain(|&(number, side)| {
            let (_, waiters) = side.of(self.memory.socket(number));
            let waiters = waiters.load(Ordering::Relaxed).min(MOST);
            count = MOST.min(count + waiters);
            waiters > 0
        });
        count
    }

    /// Wakes these, and that many threads that wait for one socket each; says how many there were. On a core that we share with them they
    /// may run at once, and wait again before we go on: so how many we wait for is said before, and mended afterwards where fewer were there
    /// (one that is killed while it waits is counted for good).
    fn wake_all(&mut self, sleepers: &[u32], threads: u32) -> u32 {
        sleepers.iter().for_each(|watcher| self.write_to(*watcher));
        let wake = |(number, side): (u32, Side)| {
            let (word, _) = side.of(self.memory.socket(number));
            self.memory.wake_waiters(word)
        };
        let woken: u32 = self.waited_for.drain(..).map(wake).sum();
        if woken != threads {
            let more = woken.cast_signed() - threads.cast_signed();
            self.memory.awaits_more(more);
        }
        woken
    }

    /// As above; then waits until all that were woken wait again and ring the bell, a call comes, or [`GATHER`] is over. Where there is news
    /// only for those that are awake, until one of them waits. Says whether there was any.
    pub fn wake_and_gather(&mut self, bell: BorrowedFd<'_>, calls: BorrowedFd<'_>) -> bool {
        let has_news = self.to_wake.iter().any(|word| *word != 0);
        let sleepers = self.take_sleepers();
        let threads = self.count_waiters();
        let awaited = (threads + sleepers.len() as u32).max(u32::from(has_news));
        if awaited == 0 {
            return false;
        }
        self.memory.awaits(awaited);
        self.wake_all(&sleepers, threads);
        // On a core that we share with them they may have run at once, and wait by now: they saw us awake, and did not ring.
        if self.memory.gathers() {
            let time = Timespec::try_from(GATHER).expect("it is short");
            let mut fds = [bell, calls].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            // A signal only makes it shorter.
            let _ = poll(&mut fds, Some(&time));
            if fds[0].revents().contains(PollFlags::IN) {
                hear(bell);
            }
        }
        self.memory.engine().store(AWAKE, Ordering::Relaxed);
        true
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

/// The bell has rung, and does not go on: what it rings for is looked at anyway.
pub(super) fn hear(bell: BorrowedFd<'_>) {
    let _ = rustix::io::read(bell, &mut [0; 64]);
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::JoinHandle;
    use std::time::Instant;

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

    /// On a core that both share it runs when it is woken, and waits again at once: what it waits for then is to be known by then.
    #[test]
    fn a_thread_that_waits_for_one_socket_is_woken_at_the_end_of_the_turn() {
        let memory = Rc::new(Shared::create().expect("memory"));
        let mut news = News::new(Rc::clone(&memory));
        let (waiting, ended) = reader(&memory);
        news.tell(SOCKET, [true, false]);
        let early = ended.recv_timeout(Duration::from_millis(50));
        assert!(early.is_err(), "it was woken before it was awaited");
        assert!(news.wake());
        assert!(!memory.all_wait(), "it is awaited");
        waiting.join().expect("no panic");
    }

    #[test]
    fn where_nobody_is_counted_one_is_woken_when_there_is_news() {
        let memory = Rc::new(Shared::create().expect("memory"));
        let mut news = News::new(Rc::clone(&memory));
        news.wake_at_once(true);
        let (waiting, _) = reader(&memory);
        news.tell(SOCKET, [true, false]);
        waiting.join().expect("no panic");
    }

    /// As processes do that accept connections of one listener.
    #[test]
    fn each_of_several_that_wait_for_one_socket_is_awaited_once() {
        let memory = Rc::new(Shared::create().expect("memory"));
        let mut news = News::new(Rc::clone(&memory));
        let threads = [reader(&memory), reader(&memory)];
        news.tell(SOCKET, [true, false]);
        news.tell(SOCKET, [true, false]);
        assert!(news.wake());
        for (waiting, _) in threads {
            assert!(!memory.all_wait(), "not all wait again");
            waiting.join().expect("no panic");
            memory.is_awaited();
        }
        assert!(memory.all_wait());
    }

    #[test]
    fn one_that_was_killed_while_it_waited_is_not_awaited() {
        let memory = Rc::new(Shared::create().expect("memory"));
        let mut news = News::new(Rc::clone(&memory));
        memory.socket(SOCKET).readers.store(3, Ordering::Relaxed);
        for _ in 0..2 {
            news.tell(SOCKET, [true, false]);
            assert!(!news.wake(), "nobody is there");
            assert!(memory.all_wait());
        }
        memory
            .socket(SOCKET)
            .readers
            .store(u32::MAX, Ordering::Relaxed);
        news.tell(SOCKET, [true, true]);
        assert!(!news.wake(), "a program can write any number");
    }

    const SOCKET: u32 = 3;

    /// A thread that sleeps until it is woken for a socket, and then says so.
    fn reader(memory: &Shared) -> (JoinHandle<()>, Receiver<()>) {
        let of_program = Shared::open(memory.file().expect("ours")).expect("it is one");
        let (says, hears) = channel();
        let (ends, ended) = channel();
        let waiting = std::thread::spawn(move || {
            let socket = of_program.socket(SOCKET);
            let before = socket.came.load(Ordering::SeqCst);
            socket.readers.fetch_add(1, Ordering::SeqCst);
            says.send(rustix::thread::gettid()).expect("it is heard");
            while !of_program.wait_on(&socket.came, before, None) {}
            let _ = ends.send(());
        });
        let thread = hears.recv().expect("it begins").as_raw_nonzero();
        let sleeps = || {
            let call = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall"));
            call.is_ok_and(|call| call.starts_with(&format!("{} ", libc::SYS_futex)))
        };
        let end = Instant::now() + Duration::from_secs(20);
        while !sleeps() {
            assert!(Instant::now() < end, "it does not come to sleep");
            std::thread::yield_now();
        }
        (waiting, ended)
    }

    #[test]
    fn news_for_those_that_are_awake_are_waited_with_until_one_of_them_waits() {
        let memory = Rc::new(Shared::create().expect("memory"));
        let mut news = News::new(Rc::clone(&memory));
        let watcher = memory.take_watcher(7).expect("one is free");
        memory.watch(3, watcher, true);
        let nothing = eventfd(0, EventfdFlags::NONBLOCK).expect("a counter");
        let (bell, calls) = (nothing.as_fd(), nothing.as_fd());
        assert!(!news.wake_and_gather(bell, calls), "there is none");
        news.tell(3, [true, false]);
        assert!(news.wake_and_gather(bell, calls));
        assert!(!memory.all_wait(), "none of them has come to wait");
        // As if it still waited.
        memory.awaits(1);
        assert!(memory.gathers());
        assert!(memory.is_awaited());
        assert!(memory.all_wait());
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
