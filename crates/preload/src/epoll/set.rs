//! One epoll set: the sockets in it, and which of them may be ready.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use crate::by_number::ByNumber;
use crate::memory::Watcher;
use crate::memory::state::{FINISHED, LISTENS, NO_READS, NO_WRITES, OVER, UNSHARED};
use crate::process::{Found, Here};
use crate::system::{
    self, EDGE, EPOLL_CTL_ADD, ERR, EpollEvent, HUP, IN, ONESHOT, OUT, RDHUP, RDNORM, WRNORM,
};
use crate::waker::Waker;

/// The word of our own descriptor in the kernel's set.
pub const OURS: u64 = 0x4558_4f53_7761_6b65;

/// A socket's place in a set.
pub struct Member {
    pub fd: i32,
    pub generation: u32,
    pub events: u32,
    pub data: u64,
    /// Which entry of the queue is its own; zero: it is not in there.
    pub queued: u64,
}

/// A set.
#[derive(Default)]
pub struct Set {
    /// How many descriptors are this set.
    pub descriptors: usize,
    /// Once it has had a socket in it.
    pub waker: Option<Waker>,
    pub members: ByNumber<u32, Member>,
    /// Sockets that may be ready, each with the number of its entry: those that have left the set leave theirs behind.
    ready: VecDeque<(u32, u64)>,
    /// Entries that there were.
    entries: u64,
    /// Who is asked first, of few events: the kernel, every other time.
    pub kernel_first: bool,
    /// Sets in this one, by their descriptors.
    pub nested: ByNumber<i32, Nested>,
    /// The one of these that was told last.
    pub nested_last: i32,
    /// Who is asked first, of one event: sets in this one, every other time.
    pub nested_first: bool,
    /// How often something has come into it of its sockets.
    pub came: u64,
    /// Threads that poll it (poll(2)).
    pub pollers: Vec<Waker>,
    /// How many threads wait for the kernel's descriptors in it alone.
    pub alone: u32,
    /// It is polled, or was, by a thread that the kernel alone tells of it.
    pub is_polled: bool,
    /// Descriptors of the kernel's are in it, or may be.
    pub has_kernels: bool,
}

/// A set's place in another.
#[derive(Copy, Clone)]
pub struct Nested {
    /// Its number.
    pub of: u64,
    pub events: u32,
    pub data: u64,
    /// How often something had come into it when it was last told of.
    pub seen: u64,
}

/// What a socket is ready for, in epoll's bits.
pub fn readiness(found: Found, wanted: u32) -> u32 {
    let socket = found.socket();
    if found.is_datagrams() {
        return found.datagram_readiness(wanted);
    }
    if socket.is(LISTENS) {
        return match found.is_readable() {
            _ if !found.listens() => OUT | WRNORM | HUP,
            true => IN | RDNORM,
            false => 0,
        };
    }
    let mut ready = 0;
    if found.has_enough() {
        ready |= IN | RDNORM;
    }
    if wanted & (OUT | WRNORM) != 0 && found.is_writable() {
        ready |= OUT | WRNORM;
    }
    if socket.error.load(Ordering::Relaxed) != 0 {
        ready |= ERR;
    }
    let ended = socket.is(FINISHED | OVER | NO_READS);
    if ended {
        ready |= RDHUP;
    }
    if socket.is(OVER) || (ended && socket.is(NO_WRITES)) {
        ready |= HUP;
    }
    ready
}

impl Set {
    /// One without a socket, that as many descriptors are.
    pub fn with_descriptors(descriptors: usize) -> Self {
        Self {
            descriptors,
            ..Self::default()
        }
    }

    /// Its waker in this process: a set that was made before a fork takes one of its own.
    pub fn waker(&mut self, here: &'static Here, fd: i32) -> Result<Waker, i32> {
        if let Some(waker) = self.waker.filter(|waker| waker.pid == here.pid()) {
            return Ok(waker);
        }
        let waker = Waker::new(here)?;
        let mut event = EpollEvent {
            events: IN | EDGE,
            data: OURS,
        };
        // SAFETY: the event lives as long as the call.
        if unsafe { system::epoll_ctl(fd, EPOLL_CTL_ADD, waker.fd, &mut event) } < 0 {
            let number = system::errno();
            waker.leave(here);
            return Err(number);
        }
        let numbers: Vec<u32> = self.members.keys().copied().collect();
        for number in numbers {
            here.shared.watch(number, waker.watcher, true);
            self.queue(number);
        }
        self.waker = Some(waker);
        // Those that wait for the kernel alone sleep on it from now on.
        let sleepers = &here.shared.watcher(waker.watcher).sleepers;
        sleepers.fetch_add(self.alone, Ordering::SeqCst);
        if self.alone > 0 {
            waker.wake();
        }
        Ok(waker)
    }

    /// A socket has come into it, or into a set in it: those that sleep look again, also who polls it without a watcher, and is told by
    /// the kernel alone.
    pub fn wake(&mut self, here: &'static Here, waker: Waker) {
        match std::mem::take(&mut self.is_polled) {
            true => waker.wake(),
            false => waker.wake_sleepers(here),
        }
    }

    /// The watcher of this process's, once the set has one.
    fn watcher(&self, here: &'static Here) -> Option<&'static Watcher> {
        let waker = self.waker.filter(|waker| waker.pid == here.pid())?;
        Some(here.shared.watcher(waker.watcher))
    }

    /// A thread waits no more for the kernel alone.
    pub fn waited_alone(&mut self, here: &'static Here) {
        let Some(others) = self.alone.checked_sub(1) else {
            return;
        };
        self.alone = others;
        if let Some(watcher) = self.watcher(here) {
            watcher.get_up();
        }
    }

    /// A thread that is awake was told of news in the place of one that sleeps, and looks at them next.
    pub fn hear(&self, here: &'static Here) {
        if let Some(watcher) = self.watcher(here) {
            watcher.hear();
        }
    }

    /// A socket may be ready; false: it is not in the set.
    pub fn queue(&mut self, number: u32) -> bool {
        let Some(member) = self.members.get_mut(&number) else {
            return false;
        };
        if member.queued == 0 {
            self.entries += 1;
            member.queued = self.entries;
            self.ready.push_back((number, self.entries));
        }
        true
    }

    /// Whether a socket may be ready.
    pub fn has_queued(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Queues what there is news of.
    fn take_news(&mut self, here: &Here) {
        let Some(waker) = self.waker else {
            return;
        };
        here.shared.watcher(waker.watcher).news.drain(|number| {
            self.came += u64::from(self.queue(number));
        });
    }

    /// The first of the next `left` in the queue that is ready, with what for; those before it, which are not, leave the queue.
    fn next_ready(
        &mut self,
        here: &'static Here,
        left: &mut usize,
        lost: &mut Vec<i32>,
    ) -> Option<(u32, u32)> {
        while *left > 0 {
            let &(number, entry) = self.ready.front()?;
            if let Some(ready) = self.look(here, (number, entry), lost) {
                return Some((number, ready));
            }
            self.ready.pop_front();
            *left -= 1;
        }
        None
    }

    /// What a socket in the queue is ready for; `None` where it is to leave the queue.
    fn look(
        &mut self,
        here: &'static Here,
        (number, entry): (u32, u64),
        lost: &mut Vec<i32>,
    ) -> Option<u32> {
        let member = self.members.get_mut(&number)?;
        if member.queued != entry {
            return None;
        }
        let generation = member.generation;
        let found = Found {
            here,
            number,
            generation,
        };
        if found.is_stale() {
            self.members.remove(&number);
            return None;
        }
        if found.socket().is(UNSHARED) {
            lost.push(member.fd);
            member.queued = 0;
            return None;
        }
        let wanted = member.events;
        let ready = readiness(found, wanted) & (wanted | ERR | HUP);
        // After it was told once, nothing is wanted of a member of that kind.
        let is_idle = wanted & !(EDGE | ONESHOT) == 0 && wanted & ONESHOT != 0;
        if ready == 0 || is_idle {
            member.queued = 0;
            return None;
        }
        Some(ready)
    }

    /// Whether any socket is ready; it is told of all the same.
    pub fn has_ready(&mut self, here: &'static Here, lost: &mut Vec<i32>) -> bool {
        self.take_news(here);
        let mut left = self.ready.len();
        self.next_ready(here, &mut left, lost).is_some()
    }

    /// Queues what there is news of, and gives what is ready; to `lost` go descriptors whose sockets are shared no more.
    pub fn collect(
        &mut self,
        here: &'static Here,
        events: &mut [EpollEvent],
        lost: &mut Vec<i32>,
    ) -> usize {
        self.take_news(here);
        let (mut count, mut left) = (0, self.ready.len());
        while count < events.len()
            && let Some((number, ready)) = self.next_ready(here, &mut left, lost)
        {
            self.ready.pop_front();
            left -= 1;
            let Some(member) = self.members.get_mut(&number) else {
                continue;
            };
            let wanted = member.events;
            member.queued = 0;
            events[count] = EpollEvent {
                events: ready,
                data: member.data,
            };
            count += 1;
            if wanted & ONESHOT != 0 {
                member.events = wanted & (EDGE | ONESHOT);
            } else if wanted & EDGE == 0 {
                self.queue(number);
            }
        }
        count
    }

    /// Another thread that sleeps takes what is left.
    pub fn pass_on(&self, here: &Here) {
        if let Some(waker) = self.waker {
            let watcher = here.shared.watcher(waker.watcher);
            if !self.ready.is_empty() || !watcher.news.is_empty() {
                waker.wake_sleepers(here);
            }
        }
    }
}
