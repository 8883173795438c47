//! The beginning of this process, and its forks.
//!
//! When the library is loaded it takes down where the memory is, and no more: a program that never has to do with a network socket, as
//! most children of a shell or of inetd, does without the memory. It is opened by the first call that may need it ([`begun`]). A program
//! whose calls are printed opens it at once, so that its first ones are: the memory keeps what they are written to from being closed.

mod unwinding;

use std::cell::Cell;
use std::env;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory::VARIABLE;
use crate::process::{Here, here};
use crate::sharing::untouched;
use crate::signals::Section;
use crate::{datagrams, epoll, sharing, system};

/// What the environment says of the memory: the process whose descriptors these are, the memory, the bell.
static TOLD: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];

/// The process that was told and has not begun; zero: there is nothing to begin.
static WAITS: AtomicU32 = AtomicU32::new(0);

/// One begins, or forks before it has begun.
static BUSY: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// It is this thread.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Whether sockets of this process are shared, or will be.
pub fn is_told() -> bool {
    here().is_some() || WAITS.load(Ordering::Relaxed) != 0
}

/// This process, which shares sockets from now on: for calls that have to do with network sockets or epoll sets, and for those behind
/// which it may not find the memory any more. One that makes none of them does without the memory.
pub fn begun() -> Option<&'static Here> {
    here().or_else(|| match WAITS.load(Ordering::Relaxed) {
        0 => None,
        _ => begin(),
    })
}

#[cold]
fn begin() -> Option<&'static Here> {
    // In a handler, in the middle of it.
    if IS_BUSY.get() {
        return None;
    }
    // A child without our knowing (vfork(2), clone(2) with its parent's memory) has that memory, be it in the middle of another thread's turn.
    // SAFETY: always.
    let is_this_one = || WAITS.load(Ordering::Acquire) == unsafe { system::getpid() } as u32;
    if !is_this_one() {
        return here();
    }
    let before = system::errno();
    let _section = Section::enter();
    take_turn();
    if is_this_one() {
        Here::begin(TOLD.each_ref().map(|word| word.load(Ordering::Relaxed)));
        // What has failed fails again.
        WAITS.store(0, Ordering::Release);
    }
    leave_turn();
    system::set_errno(before);
    here()
}

/// A handler does not wait for its own thread: it is busy from before it has the turn until it has it no more.
fn take_turn() {
    IS_BUSY.set(true);
    let free = || BUSY.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
    while free().is_err() {
        std::thread::yield_now();
    }
}

fn leave_turn() {
    BUSY.store(0, Ordering::Release);
    IS_BUSY.set(false);
}

extern "C" fn start() {
    let before = system::errno();
    if let Some(pipe) = told() {
        // SAFETY: the functions are there as long as the process.
        unsafe {
            WAITS.store(system::getpid() as u32, Ordering::Relaxed);
            system::pthread_atfork(before_fork, in_parent, in_child);
        }
        if let Some(pipe) = pipe
            && let Some(here) = begun()
        {
            here.print_to(TOLD[0].load(Ordering::Relaxed), pipe);
        }
    }
    system::set_errno(before);
}

/// Takes down what the environment says, and gives the pipe for printed calls, if there is one.
fn told() -> Option<Option<u32>> {
    let said = env::var_os(VARIABLE)?;
    let mut words = said.to_str()?.split(':');
    for word in &TOLD {
        word.store(words.next()?.parse().ok()?, Ordering::Relaxed);
    }
    Some(words.next().and_then(|pipe| pipe.parse().ok()))
}

/// Called when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// The child is to have its sockets from its first moment on: they are counted before there is one. Several threads may be here at once.
pub extern "C" fn before_fork() {
    if WAITS.load(Ordering::Relaxed) != 0 && !IS_BUSY.get() {
        // No other thread begins meanwhile: the child would be half of one that has.
        let _section = Section::enter();
        take_turn();
        if here().is_none() {
            return;
        }
        leave_turn();
    }
    let Some(here) = here() else {
        return;
    };
    untouched::forget_all();
    if here.takes_part_for_child() {
        datagrams::share_unused(here);
        epoll::hold();
        here.has_child();
        return;
    }
    // The child's descriptors are Unix sockets, as this process's.
    sharing::stop();
    sharing::unshare_all(here);
    epoll::hold();
    if sharing::is_any(here) {
        // Of a thread that began to share it before.
        epoll::let_go();
        sharing::unshare_all(here);
        epoll::hold();
    }
}

pub extern "C" fn in_parent() {
    if IS_BUSY.get() {
        return leave_turn();
    }
    // Another thread may have made one since `before_fork`.
    untouched::forget_all();
    epoll::let_go();
    if here().is_some_and(|here| !here.has_part_for_child()) {
        sharing::go_on();
    }
}

pub extern "C" fn in_child() {
    if IS_BUSY.get() {
        // SAFETY: always.
        WAITS.store(unsafe { system::getpid() } as u32, Ordering::Relaxed);
        return leave_turn();
    }
    let Some(here) = here() else {
        return;
    };
    untouched::forget_all();
    epoll::let_go();
    sharing::go_on_alone();
    let Some(part) = here.is_child() else {
        return;
    };
    if !here.registers(part) {
        return here.has_no_part();
    }
    // Another thread may have closed some before there was the child.
    for (fd, _) in here.shared.descriptors(part) {
        const F_GETFD: i32 = 1;
        // SAFETY: always.
        if unsafe { system::fcntl64(fd, F_GETFD, 0) } < 0 {
            sharing::forget(here, fd);
        }
    }
}

/// Behind all of it: the child's number in the parent, zero in the child, or a negative one of none.
pub fn has_forked(child: i64) {
    match here() {
        Some(here) if child < 0 => here.has_no_child(),
        Some(here) if child > 0 => here.has_made(child as u32),
        _ => {}
    }
}
