//! epoll sets with shared sockets in them (epoll(7)).
//!
//! The kernel's set is beneath, under its descriptor: with the kernel's descriptors in it, and one of ours that wakes who waits.
//! Here stands what calls do to them. Which descriptor is which set is in `table`, one set in `set`, sets within sets in `nested`; waiting for one,
//! which may end the sharing of sockets, is above ([`crate::epoll_wait`]).

mod nested;
pub(crate) mod set;
mod table;

use crate::process::{Found, Here, NO_WATCHER};
use crate::system::{
    EDGE, EEXIST, EFAULT, EINVAL, ENOENT, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, ERR,
    EXCLUSIVE, EpollEvent, HUP, IN, OUT,
};

pub use nested::{
    Teller, among, collect, lie_down, readiness, teller, waited_alone, watch, without_doubles,
};
use set::Member;
pub use table::{hold, knows, let_go, with_set};
use table::{note, unnote, with};

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
        if what == EPOLL_CTL_ADD {
            sets.found(at);
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

/// The descriptors of the sockets in a set, and in those in it, which are to be shared no more: there is no watcher for a thread that is
/// about to wait for it.
pub fn sockets_in(fd: i32) -> Vec<i32> {
    with(|sets| {
        let mut sockets = Vec::new();
        if let Some(&number) = sets.by_fd.get(&fd) {
            sets.sockets_in(number, &mut sockets);
        }
        sockets
    })
}

/// A descriptor of the kernel's has been added to a set of the kernel's, changed, or taken out.
pub fn remember(here: &'static Here, set: i32, what: i32, fd: i32, event: Option<EpollEvent>) {
    note(fd);
    with(|sets| {
        let number = sets.found(set);
        let mut places = sets.others.remove(&fd).unwrap_or_default();
        // Nor is it in those that were closed.
        places.retain(|(of, _)| *of != number && sets.all.contains_key(of));
        if let (EPOLL_CTL_ADD | EPOLL_CTL_MOD, Some(event)) = (what, event) {
            places.push((number, event));
        }
        if !places.is_empty() {
            sets.others.insert(fd, places);
        }
        sets.remember_nested(here, (set, fd), what, event);
        if let Some(set) = sets.of(set) {
            set.has_kernels |= what == EPOLL_CTL_ADD;
        }
    });
}

/// A descriptor stands in none of the kernel's sets any more. Gives those that it stood in, and how; not those that were closed since,
/// whose descriptors may be other sets by now.
pub fn take_out(fd: i32) -> Vec<(i32, EpollEvent)> {
    with(|sets| {
        let places = sets.others.remove(&fd).unwrap_or_default();
        let place = |(of, event)| Some((sets.fd_of(of)?, event));
        places.into_iter().filter_map(place).collect()
    })
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
    unnote(fd);
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
    // Nothing is allocated, also where a child of one of several threads closes what it does not need.
    let next = || {
        with(|sets| {
            let mut known = sets.by_fd.keys().chain(sets.others.keys());
            let is_inside = |fd: &&i32| (first..=last).contains(&(**fd as u32));
            known.find(is_inside).copied()
        })
    };
    while let Some(fd) = next() {
        closed(here, fd);
    }
}
