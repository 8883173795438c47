//! The beginning of this process, and its forks.

use crate::ask::ask;
use crate::memory::Ask;
use crate::process::{begin, here};
use crate::{datagrams, epoll, sharing, system};

extern "C" fn start() {
    let before = system::errno();
    if begin().is_some() {
        // SAFETY: the functions are there as long as the process.
        unsafe { system::pthread_atfork(before_fork, in_parent, in_child) };
    }
    system::set_errno(before);
}

/// Called when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// The child is to have its sockets from its first moment on: they are counted before there is one.
extern "C" fn before_fork() {
    if let Some(here) = here() {
        match here.takes_part_for_child() {
            true => datagrams::share_unused(here),
            // Its descriptors are Unix sockets, as this process's.
            false => sharing::unshare_all(here),
        }
        epoll::hold();
        here.has_child();
    }
}

extern "C" fn in_parent() {
    epoll::let_go();
}

extern "C" fn in_child() {
    let Some(here) = here() else {
        return;
    };
    epoll::let_go();
    let Some(part) = here.is_child() else {
        return;
    };
    // Another thread may have closed some before there was the child.
    let descriptors: Vec<_> = here.shared.descriptors(part).collect();
    for (fd, _) in descriptors {
        const F_GETFD: i32 = 1;
        // SAFETY: always.
        if unsafe { system::fcntl64(fd, F_GETFD, 0) } < 0 {
            sharing::forget(here, fd);
        }
    }
    ask(-1, Ask::Register, part as usize);
}
