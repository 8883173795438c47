//! Sets within sets: the outer one tells that the inner one is ready, and so do poll(2) and select(2).
//!
//! Of the kernel's descriptors in the inner set the kernel tells by itself. Of the sockets in it the library does: a thread that
//! waits for the outer set has its own watcher hear of them, too, and asks the inner set whether any is ready. What is asked takes
//! nothing out of the inner set. By edge (`EPOLLET`) the outer set tells once for each time that something came into the inner one.

use super::set::{Nested, Set};
use super::table::{Sets, knows, with};
use crate::memory::Watcher;
use crate::process::{Here, NO_WATCHER};
use crate::system::{
    self, EDGE, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EpollEvent, IN, ONESHOT, PollFd, RDNORM,
};
use crate::waker::Waker;

/// What a set can be ready for.
const READY: u32 = IN | RDNORM;

impl Nested {
    /// Whether it is told of when it is ready, and so much has come into it.
    fn tells(&self, came: u64) -> bool {
        self.events & READY != 0 && (self.events & EDGE == 0 || came != self.seen)
    }
}

impl Sets {
    /// A set has been put into another, changed there, or taken out.
    pub(super) fn remember_nested(
        &mut self,
        here: &'static Here,
        (outer, inner): (i32, i32),
        what: i32,
        event: Option<EpollEvent>,
    ) {
        let Some(&of) = self.by_fd.get(&inner) else {
            return;
        };
        let outer = match what {
            EPOLL_CTL_ADD => self.made(outer),
            _ => match self.of(outer) {
                Some(outer) => outer,
                None => return,
            },
        };
        match (what, event) {
            (EPOLL_CTL_ADD | EPOLL_CTL_MOD, Some(event)) => {
                let (events, data) = (event.events, event.data);
                // Nothing of it was seen: what is ready is told.
                let seen = 0;
                let nested = Nested {
                    of,
                    events,
                    data,
                    seen,
                };
                outer.nested.insert(inner, nested);
                if self.has_sockets(of) {
                    self.wake_around(here, of);
                }
            }
            _ => {
                outer.nested.remove(&inner);
            }
        }
    }

    /// Whether sockets are in a set, or in those that are in it.
    fn has_sockets(&self, number: u64) -> bool {
        self.all.get(&number).is_some_and(|set| {
            let mut inner = set.nested.values();
            set.waker.is_some() || inner.any(|inner| self.has_sockets(inner.of))
        })
    }

    /// What wakes those that wait for a set; `None` where no socket is in it, and the kernel alone is waited for.
    fn waker_of(&mut self, here: &'static Here, fd: i32) -> Result<Option<Waker>, i32> {
        match self.by_fd.get(&fd).copied() {
            // Of a set that was made before a fork it is one of this process's own from now on.
            Some(number) if self.has_sockets(number) => {
                let set = self.all.get_mut(&number);
                set.map(|set| set.waker(here, fd)).transpose()
            }
            _ => Ok(None),
        }
    }

    /// Those that wait for the sets around one look again: there is something new in it.
    pub(super) fn wake_around(&mut self, here: &'static Here, number: u64) {
        let Some(set) = self.all.get_mut(&number) else {
            return;
        };
        set.pollers.retain(|waker| waker.pid == here.pid());
        set.pollers
            .iter()
            .for_each(|waker| waker.wake_sleepers(here));
        let inner = set.waker;
        let is_around = |set: &Set| set.nested.values().any(|inner| inner.of == number);
        let around = self.all.iter().filter(|(_, set)| is_around(set));
        let around: Vec<u64> = around.map(|(&around, _)| around).collect();
        for outer in around {
            let fd = self.fd_of(outer);
            let set = self.all.get_mut(&outer);
            if let (Some(fd), Some(set)) = (fd, set) {
                match (set.waker(here, fd), inner) {
                    (Ok(waker), _) => set.wake(here, waker),
                    // Who waits for it alone is told by the kernel that the inner one is ready.
                    (Err(_), Some(inner)) => inner.wake(),
                    (Err(_), None) => {}
                }
            }
            self.wake_around(here, outer);
        }
    }

    pub(super) fn fd_of(&self, number: u64) -> Option<i32> {
        let mut all = self.by_fd.iter();
        all.find(|(_, of)| **of == number).map(|(&fd, _)| fd)
    }

    /// Whether sockets in a set are ready, or in those in it; and how often something has come into these. To `lost` go
    /// descriptors whose sockets are shared no more.
    fn is_ready(&mut self, here: &'static Here, number: u64, lost: &mut Vec<i32>) -> (bool, u64) {
        let fd = self.fd_of(number);
        let Some(set) = self.all.get_mut(&number) else {
            return (false, 0);
        };
        if let (Some(_), Some(fd)) = (set.waker, fd) {
            // A child's own; without one it hears nothing.
            let _ = set.waker(here, fd);
        }
        let (mut ready, mut came) = (set.has_ready(here, lost), set.came);
        let is_wanted = |inner: &&Nested| inner.events & READY != 0;
        let inner = set.nested.values().filter(is_wanted).copied();
        for inner in inner.collect::<Vec<_>>() {
            let (is_ready, more) = self.is_ready(here, inner.of, lost);
            ready |= is_ready && inner.tells(more);
            came += more;
        }
        (ready, came)
    }

    /// The sets in one of which it is to tell, each with how often something has come into it: those behind the one that was told last
    /// are the first.
    fn nested_ready(
        &mut self,
        here: &'static Here,
        fd: i32,
        lost: &mut Vec<i32>,
    ) -> Vec<(i32, u64)> {
        let Some(set) = self.of(fd).filter(|set| !set.nested.is_empty()) else {
            return Vec::new();
        };
        let mut all: Vec<(i32, Nested)> =
            set.nested.iter().map(|(&fd, inner)| (fd, *inner)).collect();
        let last = set.nested_last;
        all.sort_unstable_by_key(|(fd, _)| (*fd <= last, *fd));
        let told = all.into_iter().filter_map(|(fd, inner)| {
            let (is_ready, came) = self.is_ready(here, inner.of, lost);
            (is_ready && inner.tells(came)).then_some((fd, came))
        });
        told.collect()
    }

    /// Tells of the sets in one that are ready.
    fn collect_nested(
        &mut self,
        here: &'static Here,
        at: i32,
        events: &mut [EpollEvent],
        lost: &mut Vec<i32>,
    ) -> usize {
        let mut count = 0;
        for (fd, came) in self.nested_ready(here, at, lost) {
            let (Some(set), Some(event)) = (self.of(at), events.get_mut(count)) else {
                break;
            };
            let Some(inner) = set.nested.get_mut(&fd) else {
                continue;
            };
            set.nested_last = fd;
            let (of, told, data) = (inner.of, inner.events & READY, inner.data);
            *event = EpollEvent { events: told, data };
            inner.seen = came;
            count += 1;
            if inner.events & ONESHOT != 0 {
                inner.events &= !READY;
                let mut event = EpollEvent {
                    events: ONESHOT,
                    data,
                };
                if self.by_fd.get(&fd) == Some(&of) {
                    // SAFETY: the event lives as long as the call.
                    unsafe { system::epoll_ctl(at, EPOLL_CTL_MOD, fd, &mut event) };
                }
            }
        }
        count
    }

    fn without_doubles(&mut self, at: i32, events: &mut [EpollEvent], ours: usize) -> usize {
        let mut count = events.len();
        let Some(set) = self.of(at).filter(|set| !set.nested.is_empty()) else {
            return count;
        };
        let mut next = ours;
        while next < count {
            let data = events[next].data;
            let inner = set.nested.values_mut().find(|inner| inner.data == data);
            if inner.is_some() && events[..ours].iter().any(|event| event.data == data) {
                count -= 1;
                events.swap(next, count);
                continue;
            }
            if let Some(inner) = inner.filter(|inner| inner.events & ONESHOT != 0) {
                inner.events &= !READY;
            }
            next += 1;
        }
        count
    }

    /// Has a watcher hear of the sockets in a set, and in those in it, or no more.
    fn watch_all(&self, here: &Here, number: u64, watcher: u32, on: bool) {
        let Some(set) = self.all.get(&number) else {
            return;
        };
        for &socket in set.members.keys() {
            here.shared.watch(socket, watcher, on);
        }
        for inner in set.nested.values() {
            self.watch_all(here, inner.of, watcher, on);
        }
    }

    /// Has a set's watcher hear of the sockets of those in it.
    fn watch_nested(&self, here: &Here, fd: i32, watcher: u32) {
        let set = self.by_fd.get(&fd).and_then(|number| self.all.get(number));
        for inner in set.iter().flat_map(|set| set.nested.values()) {
            self.watch_all(here, inner.of, watcher, true);
        }
    }
}

/// Which of these are sets with sockets in them. Of the others it is noted where a thread is about to sleep.
pub fn among(fds: &[PollFd], sleeps: bool) -> Vec<(usize, i32)> {
    let known = fds
        .iter()
        .enumerate()
        .filter(|(_, fd)| fd.fd >= 0 && knows(fd.fd));
    let known = known.map(|(at, fd)| (at, fd.fd)).collect::<Vec<_>>();
    if known.is_empty() {
        return known;
    }
    with(|sets| {
        let mut known = known;
        known.retain(|(_, fd)| match sets.by_fd.get(fd).copied() {
            Some(number) if sets.has_sockets(number) => true,
            Some(number) => {
                // The kernel alone tells of it, also when a socket comes into it.
                sets.all
                    .entry(number)
                    .and_modify(|set| set.is_polled |= sleeps);
                false
            }
            None => false,
        });
        known
    })
}

/// Whether a set is ready for what poll(2) wants of it, by its sockets: in poll's bits. To `lost` go descriptors whose sockets are
/// shared no more.
pub fn readiness(here: &'static Here, fd: i32, wanted: u32, lost: &mut Vec<i32>) -> u32 {
    let is_ready = with(|sets| {
        let number = sets.by_fd.get(&fd).copied();
        number.is_some_and(|number| sets.is_ready(here, number, lost).0)
    });
    if is_ready { wanted & READY } else { 0 }
}

/// Has a thread that polls a set be woken by its sockets, or no more.
pub fn watch(here: &'static Here, fd: i32, waker: Waker, on: bool) {
    with(|sets| {
        let Some(&number) = sets.by_fd.get(&fd) else {
            return;
        };
        sets.watch_all(here, number, waker.watcher, on);
        if let Some(set) = sets.all.get_mut(&number) {
            set.pollers.retain(|other| other.fd != waker.fd);
            set.pollers.extend(on.then_some(waker));
        }
    });
}

/// Who tells a thread that waits for a set.
#[derive(Clone, Copy, PartialEq)]
pub enum Teller {
    /// The kernel alone, until [`waited_alone`].
    Kernel,
    /// The library: nothing of the kernel's is in it, but what wakes.
    Library,
    Both,
}

/// Who tells a thread that is about to wait for a set.
///
/// # Errors
///
/// [`NO_WATCHER`] where it is the kernel alone, once the sockets in the set are shared no more.
pub fn teller(here: &'static Here, fd: i32) -> Result<Teller, i32> {
    with(|sets| {
        let has_sockets = sets.waker_of(here, fd);
        let set = sets.of(fd);
        match (has_sockets, set) {
            (Ok(Some(_)), Some(set)) if !set.has_kernels => Ok(Teller::Library),
            (Ok(Some(_)), _) => Ok(Teller::Both),
            (Ok(None) | Err(NO_WATCHER), set) => {
                if let Some(set) = set {
                    set.alone += 1;
                }
                has_sockets.map(|_| Teller::Kernel)
            }
            (Err(number), _) => Err(number),
        }
    })
}

/// A thread waits no more for the kernel alone.
pub fn waited_alone(here: &'static Here, fd: i32) {
    with(|sets| {
        if let Some(set) = sets.of(fd) {
            set.waited_alone(here);
        }
    });
}

/// What is ready of a set, without the kernel's descriptors: of more than one event the last is for sets in it, and a single one is
/// every other time. With `turns` the kernel is asked first every other time.
pub fn collect(
    here: &'static Here,
    fd: i32,
    events: &mut [EpollEvent],
    turns: bool,
    lost: &mut Vec<i32>,
) -> usize {
    with(|sets| {
        let Some(set) = sets.of(fd) else {
            return 0;
        };
        set.kernel_first ^= turns;
        if set.kernel_first && turns {
            return 0;
        }
        if set.nested.is_empty() {
            return set.collect(here, events, lost);
        }
        let is_single = events.len() == 1;
        set.nested_first ^= is_single;
        if is_single && set.nested_first {
            let count = sets.collect_nested(here, fd, events, lost);
            if count > 0 {
                return count;
            }
        }
        let most = (events.len() - 1).max(1);
        let own = sets
            .of(fd)
            .map_or(0, |set| set.collect(here, &mut events[..most], lost));
        own + sets.collect_nested(here, fd, &mut events[own..], lost)
    })
}

/// Behind events of ours stand the kernel's, which may tell of the same sets: each is told once. Gives how many there are.
pub fn without_doubles(fd: i32, events: &mut [EpollEvent], ours: usize) -> usize {
    with(|sets| sets.without_doubles(fd, events, ours))
}

/// A thread is about to sleep: the set's watcher, and whether it may.
pub fn lie_down(
    here: &'static Here,
    fd: i32,
    lost: &mut Vec<i32>,
) -> Option<(&'static Watcher, bool)> {
    with(|sets| {
        let waker = sets.of(fd)?.waker?;
        sets.watch_nested(here, fd, waker.watcher);
        let watcher = here.shared.watcher(waker.watcher);
        watcher.lie_down();
        let has_nested = !sets.nested_ready(here, fd, lost).is_empty();
        let is_quiet = watcher.news.is_empty() && !has_nested && lost.is_empty();
        let is_empty = sets.of(fd).is_none_or(|set| !set.has_queued());
        Some((watcher, is_quiet && is_empty))
    })
}
