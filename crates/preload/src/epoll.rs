//! epoll sets with shared sockets in them (epoll(7)).
//!
//! The kernel's set is beneath, under its descriptor: with the kernel's descriptors in it, and one of ours that wakes who waits.
//! Which of its descriptors is which set, and what calls do to them; one set is in `set`, sets within sets in `nested`, waiting in
//! `wait`.

mod nested;
pub(crate) mod set;
mod wait;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::by_number::ByNumber;
use crate::memory::DESCRIPTORS;
use crate::process::{Found, Here, NO_WATCHER};
use crate::sharing::unshare_fd;
use crate::signals::Section;
use crate::system::{
    EDGE, EEXIST, EFAULT, EINVAL, ENOENT, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, ERR,
    EXCLUSIVE, EpollEvent, HUP, IN, OUT,
};

use nested::{Teller, collect, lie_down, teller, waited_alone, without_doubles};
use set::{Member, Set};

pub use nested::{among, readiness, watch};
pub use wait::wait;

#[derive(Default)]
struct Sets {
    /// By descriptor.
    by_fd: ByNumber<i32, u64>,
    all: ByNumber<u64, Set>,
    made: u64,
    /// The kernel's descriptors, by number: in which sets, and how. A socket of the kernel's may become a shared one.
    others: ByNumber<i32, Vec<(i32, EpollEvent)>>,
}

static SETS: Mutex<Option<Sets>> = Mutex::new(None);

/// Descriptors that may be sets, or of the kernel's in one: a bit for each. Those beyond the last always may.
static KNOWN: [AtomicU64; DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; DESCRIPTORS / 64];

fn note(fd: i32) {
    if let Some(word) = KNOWN.get(fd as usize / 64) {
        word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
    }
}

/// Whether [`closed`] is to be told when a descriptor is closed.
pub fn knows(fd: i32) -> bool {
    let word = KNOWN.get(fd as usize / 64);
    word.is_none_or(|word| word.load(Ordering::Relaxed) & (1 << (fd % 64)) != 0)
}

fn lock() -> MutexGuard<'static, Option<Sets>> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<R>(look: impl FnOnce(&mut Sets) -> R) -> R {
    let _handlers_wait = Section::enter();
    look(lock().get_or_insert_with(Sets::default))
}

/// Looks at the set of a descriptor, if it has a shared socket in it, or had.
pub fn with_set<R>(fd: i32, look: impl FnOnce(&mut Set) -> R) -> Option<R> {
    with(|sets| sets.of(fd).map(look))
}

impl Sets {
    /// The set of a descriptor.
    fn of(&mut self, fd: i32) -> Option<&mut Set> {
        let number = self.by_fd.get(&fd)?;
        self.all.get_mut(number)
    }

    fn made(&mut self, fd: i32) -> &mut Set {
        note(fd);
        let made = &mut self.made;
        let number = *self.by_fd.entry(fd).or_insert_with(|| {
            *made += 1;
            *made
        });
        self.all
            .entry(number)
            .or_insert_with(|| Set::with_descriptors(1))
    }

    /// Adds the descriptors of the sockets in a set, and in those in it, of which the kernel is to tell from now on.
    fn sockets_in(&mut self, number: u64, sockets: &mut Vec<i32>) {
        let Some(set) = self.all.get_mut(&number) else {
            return;
        };
        set.is_polled = true;
        sockets.extend(set.members.values().map(|member| member.fd));
        let nested: Vec<u64> = set.nested.values().map(|inner| inner.of).collect();
        for inner in nested {
            self.sockets_in(inner, sockets);
        }
    }
}

/// The lock is let go of before handlers may run.
type Held = (MutexGuard<'static, Option<Sets>>, Section);

thread_local! {
    /// Held while the process forks: the child finds it as it was.
    static HELD: std::cell::Cell<Option<Held>> = const { std::cell::Cell::new(None) };
}

pub fn hold() {
    let handlers_wait = Section::enter();
    let mut held = lock();
    // Either process may put descriptors of the kernel's into sets of both.
    let sets = held.iter_mut().flat_map(|sets| sets.all.values_mut());
    sets.for_each(|set| set.has_kernels = true);
    HELD.set(Some((held, handlers_wait)));
}

pub fn let_go() {
    drop(HELD.take());
}

/// A set has been made (epoll_create(2)).
pub fn made(fd: i32) {
    with(|sets| {
        sets.made(fd);
    });
}

/// A descriptor has been copied, that may be a set's.
pub fn copied(from: i32, to: i32) {
    if !knows(from) {
        return;
    }
    with(|sets| {
        if let Some(&number) = sets.by_fd.get(&from) {
            sets.by_fd.insert(to, number);
            note(to);
            if let Some(set) = sets.all.get_mut(&number) {
                set.descriptors += 1;
            }
        }
    });
}

/// The descriptor by which a socket is in a set.
pub fn member(at: i32, number: u32) -> Option<i32> {
    with_set(at, |set| set.members.get(&number).map(|member| member.fd))?
}

/// Whether a socket may be waited for in this way (`EPOLLEXCLUSIVE`).
fn may_be(what: i32, before: u32, events: u32) -> Result<(), i32> {
    const BESIDE_EXCLUSIVE: u32 = IN | OUT | ERR | HUP | EDGE | EXCLUSIVE | 1 << 29;
    let is_exclusive = events & EXCLUSIVE != 0;
    let is_refused = match what {
        EPOLL_CTL_MOD => is_exclusive || before & EXCLUSIVE != 0,
        _ => is_exclusive && events & !BESIDE_EXCLUSIVE != 0,
    };
    match is_refused {
        true => Err(EINVAL),
        false => Ok(()),
    }
}

/// Whether a set takes in, changes or lets go of a socket by this descriptor, of which it has this.
fn may_be_done(what: i32, fd: i32, member: Option<&Member>) -> Result<(), i32> {
    match (what, member) {
        // The kernel's sets know a socket by each of its descriptors, ours by its number.
        (EPOLL_CTL_ADD, Some(member)) if member.fd != fd => Err(NO_WATCHER),
        (_, Some(member)) if member.fd != fd => Err(ENOENT),
        (EPOLL_CTL_ADD, Some(_)) => Err(EEXIST),
        (EPOLL_CTL_MOD | EPOLL_CTL_DEL, None) => Err(ENOENT),
        (EPOLL_CTL_ADD | EPOLL_CTL_MOD | EPOLL_CTL_DEL, _) => Ok(()),
        _ => Err(EINVAL),
    }
}

/// epoll_ctl(2) of a shared socket.
pub fn control(
    at: i32,
    what: i32,
    fd: i32,
    found: Found,
    event: Option<EpollEvent>,
) -> Result<(), i32> {
    let here = found.here;
    with(|sets| {
        if what == EPOLL_CTL_ADD && !sets.by_fd.contains_key(&at) {
            // Who waits for it is not known, nor what is in it.
            let set = sets.made(at);
            (set.alone, set.has_kernels) = (1, true);
        }
        let set = sets.of(at).ok_or(ENOENT)?;
        let waker = set.waker(here, at)?;
        // One of a socket that had the number before is over.
        if let Some(member) = set.members.get(&found.number)
            && member.generation != found.generation
        {
            set.members.remove(&found.number);
        }
        may_be_done(what, fd, set.members.get(&found.number))?;
        if what == EPOLL_CTL_DEL {
            set.members.remove(&found.number);
            here.shared.watch(found.number, waker.watcher, false);
            return Ok(());
        }
        let event = event.ok_or(EFAULT)?;
        let before = set
            .members
            .get(&found.number)
            .map_or(0, |member| member.events);
        may_be(what, before, event.events)?;
        let member = set.members.entry(found.number).or_insert(Member {
            fd,
            generation: found.generation,
            events: 0,
            data: 0,
            queued: 0,
        });
        (member.events, member.data) = (event.events, event.data);
        here.shared.watch(found.number, waker.watcher, true);
        // What is ready already is told, also to those that sleep.
        set.queue(found.number);
        set.came += 1;
        set.wake(here, waker);
        if let Some(&number) = sets.by_fd.get(&at) {
            sets.wake_around(here, number);
        }
        Ok(())
    })
}

/// The sockets in a set, and in those in it, are shared no more: there is no watcher for a thread that is about to wait for it.
pub fn unshare_in(fd: i32) {
    let sockets = with(|sets| {
        let mut sockets = Vec::new();
        if let Some(&number) = sets.by_fd.get(&fd) {
            sets.sockets_in(number, &mut sockets);
        }
        sockets
    });
    sockets.into_iter().for_each(unshare_fd);
}

/// A descriptor of the kernel's has been added to a set of the kernel's, changed, or taken out.
pub fn remember(here: &'static Here, set: i32, what: i32, fd: i32, event: Option<EpollEvent>) {
    note(fd);
    with(|sets| {
        let places = sets.others.entry(fd).or_default();
        places.retain(|(of, _)| *of != set);
        if let (EPOLL_CTL_ADD | EPOLL_CTL_MOD, Some(event)) = (what, event) {
            places.push((set, event));
        }
        if places.is_empty() {
            sets.others.remove(&fd);
        }
        sets.remember_nested(here, (set, fd), what, event);
        if let Some(set) = sets.of(set) {
            set.has_kernels |= what == EPOLL_CTL_ADD;
        }
    });
}

/// A descriptor stands in none of the kernel's sets any more. Gives those that it stood in, and how.
pub fn take_out(fd: i32) -> Vec<(i32, EpollEvent)> {
    with(|sets| sets.others.remove(&fd)).unwrap_or_default()
}

/// The sets that a shared socket is in under this descriptor, which it leaves for what the kernel has in its place.
pub fn places(fd: i32, number: u32) -> Vec<(i32, EpollEvent)> {
    with(|sets| {
        let mut places = Vec::new();
        for (&at, set) in &sets.by_fd {
            let Some(set) = sets.all.get_mut(set) else {
                continue;
            };
            let is_it = |member: &Member| member.fd == fd;
            if set.members.get(&number).is_some_and(is_it)
                && let Some(member) = set.members.remove(&number)
            {
                let (events, data) = (member.events, member.data);
                places.push((at, EpollEvent { events, data }));
                set.has_kernels = true;
            }
        }
        places
    })
}

/// No descriptor of this process refers to a socket any more.
pub fn forget(here: &Here, number: u32) {
    with(|sets| {
        for set in sets.all.values_mut() {
            // A child's copy of its parent's set goes on in the parent.
            if set.members.remove(&number).is_some()
                && let Some(waker) = set.waker.filter(|waker| waker.pid == here.pid())
            {
                here.shared.watch(number, waker.watcher, false);
            }
        }
    });
}

/// A descriptor is closed, that may be a set's, or stand in one.
pub fn closed(here: &'static Here, fd: i32) {
    if let Some(word) = KNOWN.get(fd as usize / 64) {
        word.fetch_and(!(1 << (fd % 64)), Ordering::Relaxed);
    }
    let set = with(|sets| {
        sets.others.remove(&fd);
        let number = sets.by_fd.remove(&fd)?;
        let set = sets.all.get_mut(&number)?;
        set.descriptors -= 1;
        if set.descriptors > 0 {
            // It stays in the sets that it is in.
            return None;
        }
        for set in sets.all.values_mut() {
            set.nested.retain(|_, inner| inner.of != number);
        }
        sets.all.remove(&number)
    });
    let Some(set) = set else {
        return;
    };
    if let Some(waker) = set.waker.filter(|waker| waker.pid == here.pid()) {
        for &number in set.members.keys() {
            here.shared.watch(number, waker.watcher, false);
        }
        waker.leave(here);
    }
}

/// Descriptors are closed, of which any may be a set's, or stand in one.
pub fn closed_range(here: &'static Here, first: u32, last: u32) {
    let known = with(|sets| {
        let known = sets.by_fd.keys().chain(sets.others.keys());
        let inside = known.filter(|fd| (first..=last).contains(&(**fd as u32)));
        inside.copied().collect::<Vec<i32>>()
    });
    known.into_iter().for_each(|fd| closed(here, fd));
}
