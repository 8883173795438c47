//! Shared sockets of this process: found by their descriptors, moved into epoll sets, let go of, and shared no more.

pub mod untouched;

use std::sync::atomic::{AtomicU32, Ordering};

use crate::ask::ask;
use crate::epoll;
use crate::memory::{Ask, state};
use crate::process::{Found, Here, NO_WATCHER, here, leaves};
use crate::system::{self, EPOLL_CTL_ADD, EpollEvent};

/// The socket that a descriptor is.
pub fn find(fd: i32) -> Option<Found> {
    let here = here()?;
    let number = here.number(fd)?;
    let socket = here.shared.socket(number);
    let generation = socket.generation.load(Ordering::SeqCst);
    if socket.is(state::UNSHARED) {
        unshare(here, fd, number);
        return None;
    }
    Some(Found {
        here,
        number,
        generation,
    })
}

/// Has a descriptor be a Unix socket in place of a shared one; what epoll sets wait for of it, they go on to wait for.
pub fn unshare(here: &'static Here, fd: i32, number: u32) {
    if !here.is_here() {
        // Of a child whose descriptors are its own, but whose memory is ours.
        ask(fd, Ask::Unshare, number as usize);
        return;
    }
    let generation = here.shared.socket(number).generation.load(Ordering::SeqCst);
    // Another thread may have closed it meanwhile, and opened another.
    if ask(fd, Ask::Unshare, number as usize) >= 0 && here.number(fd) == Some(number) {
        let places = epoll::places(fd, number);
        leaves(number, generation);
        forget(here, fd);
        for (set, event) in places {
            let mut event = event;
            // SAFETY: the event lives as long as the call.
            unsafe { system::epoll_ctl(set, system::EPOLL_CTL_ADD, fd, &mut event) };
        }
    }
}

/// As above, for a descriptor that may be a shared socket.
pub fn unshare_fd(fd: i32) {
    if let Some(found) = find(fd) {
        unshare(found.here, fd, found.number);
    }
}

/// As above, for the sockets in an epoll set, and in those in it.
pub fn unshare_in(set: i32) {
    epoll::sockets_in(set).into_iter().for_each(unshare_fd);
}

/// As above, for all descriptors of this process.
pub fn unshare_all(here: &'static Here) {
    for (fd, number) in descriptors(here) {
        unshare(here, fd, number);
    }
}

fn descriptors(here: &Here) -> impl Iterator<Item = (i32, u32)> {
    let part = here.part().into_iter();
    part.flat_map(|part| here.shared.descriptors(part))
}

/// Whether this process has a shared socket.
pub fn is_any(here: &Here) -> bool {
    descriptors(here).next().is_some()
}

/// How many children are being made that have no part of the memory: meanwhile no connection comes to be shared, for it would not be one
/// in the child.
static STOPPED: AtomicU32 = AtomicU32::new(0);

pub fn stop() {
    STOPPED.fetch_add(1, Ordering::SeqCst);
}

pub fn go_on() {
    STOPPED.fetch_sub(1, Ordering::SeqCst);
}

/// In a child, which has one thread.
pub fn go_on_alone() {
    STOPPED.store(0, Ordering::SeqCst);
}

/// Whether a socket of the kernel's may become a shared one now.
pub fn may_share() -> bool {
    here().is_some() && STOPPED.load(Ordering::SeqCst) == 0
}

/// A descriptor is a socket no more.
pub fn forget(here: &Here, fd: i32) {
    let (Some(part), Some(number)) = (here.part(), here.number(fd)) else {
        return;
    };
    // Before it is let go of: from then on the number may be another's.
    let is_only = here.shared.socket(number).refs.load(Ordering::Acquire) == 1;
    let mut descriptors = here.shared.descriptors(part);
    let is_it = |(other, of): (i32, u32)| other != fd && of == number;
    if is_only || !descriptors.any(is_it) {
        epoll::forget(here, number);
    }
    if matches!(here.shared.unassign(part, fd), Some((_, true))) {
        here.submit(number);
    }
}

/// A socket of the kernel's has become a shared one, under its number: it goes on in the sets that it is in.
pub fn move_in(fd: i32) {
    if find(fd).is_none() {
        return;
    }
    for (set, event) in epoll::take_out(fd) {
        // It was in there: what fails now has failed before.
        let _ = change_set(set, EPOLL_CTL_ADD, fd, Some(event));
    }
}

/// epoll_ctl(2). A socket for which there is no watcher, or which is in the set by another descriptor, is shared no more, and the kernel
/// tells of it.
pub fn change_set(set: i32, what: i32, fd: i32, event: Option<EpollEvent>) -> Result<(), i32> {
    if let Some(found) = find(fd) {
        match epoll::control(set, what, fd, found, event) {
            Err(NO_WATCHER) => {
                let other = epoll::member(set, found.number);
                [Some(fd), other].into_iter().flatten().for_each(unshare_fd);
            }
            result => return result,
        }
    }
    let mut wanted = event;
    let at = wanted
        .as_mut()
        .map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the event, if there is one, lives as long as the call.
    if unsafe { system::epoll_ctl(set, what, fd, at) } < 0 {
        return Err(system::errno());
    }
    if let Some(here) = here() {
        epoll::remember(here, set, what, fd, event);
    }
    Ok(())
}
