//! What programs ask of network interfaces by way of any socket (netdevice(7)), a shared one among them: a socket of the kernel's, which this
//! process makes once and keeps, tells it. A name server asks with each packet by which interface that came.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::process::{Here, OWN_DESCRIPTORS_MIN, here};
use crate::system::{self, AF_INET, EBADF, ENOTTY, O_CLOEXEC, SOCK_DGRAM};

/// From SIOCADDRT on to the last of a network device.
pub const REQUESTS: RangeInclusive<i32> = 0x890b..=0x89ff;

/// The socket that is kept; -1: there is none.
static KEPT: AtomicI32 = AtomicI32::new(-1);

/// Whether one is: not where threads are in several networks, for a socket tells of that in which it was made (network_namespaces(7)).
static KEEPS: AtomicBool = AtomicBool::new(true);

/// A thread goes to another network.
pub fn keep_none() {
    KEEPS.store(false, Ordering::Relaxed);
}

/// Asks the kernel.
pub fn ask(what: u64, argument: usize) -> i32 {
    // SAFETY: the caller's argument goes where it would have gone; the descriptor is our own.
    let ask = |fd| unsafe { system::ioctl(fd, what, argument) };
    let kept = KEPT.load(Ordering::Relaxed);
    if kept >= 0 && KEEPS.load(Ordering::Relaxed) {
        let result = ask(kept);
        // Code beneath the library may have closed it, and another file have its number.
        if result >= 0 || ![EBADF, ENOTTY].contains(&system::errno()) {
            return result;
        }
        if system::errno() == EBADF {
            forget(kept);
        }
    }
    // SAFETY: always.
    let made = unsafe { system::socket(AF_INET, SOCK_DGRAM | O_CLOEXEC, 0) };
    if made < 0 {
        return -1;
    }
    let result = ask(made);
    let number = system::errno();
    keep_or_close(made);
    system::set_errno(number);
    result
}

/// Keeps a socket where there is none yet and this process can.
fn keep_or_close(made: i32) {
    // Without a part of the memory nothing has the program leave it open. A child that shares this memory (vfork(2)) has other descriptors.
    let keeps = |here: &&Here| here.part().is_some() && here.is_here();
    let is_none = KEPT.load(Ordering::Relaxed) < 0 && KEEPS.load(Ordering::Relaxed);
    let Some(here) = here().filter(keeps).filter(|_| is_none) else {
        // SAFETY: a descriptor of our own.
        unsafe { system::close(made) };
        return;
    };
    let made = here.own(made);
    // A low number is the program's, where its limit leaves no others. And another thread may have kept one.
    let is_high = made >= OWN_DESCRIPTORS_MIN;
    let keep = || KEPT.compare_exchange(-1, made, Ordering::Relaxed, Ordering::Relaxed);
    if !is_high || keep().is_err() {
        here.disown(made);
    }
}

/// It is closed.
fn forget(kept: i32) {
    let is_first = KEPT.compare_exchange(kept, -1, Ordering::Relaxed, Ordering::Relaxed);
    if let Some(here) = here().filter(|_| is_first.is_ok()) {
        here.forget_own(kept);
    }
}
