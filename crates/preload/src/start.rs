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

/// The child is to have its sockets from its first moment on: they are counted before there is one. Several threads may be here at once.
extern "C" fn before_fork() {
    let Some(here) = here() else {
        return;
    };
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

extern "C" fn in_parent() {
    epoll::let_go();
    if here().is_some_and(|here| !here.has_part_for_child()) {
        sharing::go_on();
    }
}

extern "C" fn in_child() {
    let Some(here) = here() else {
        return;
    };
    epoll::let_go();
    sharing::go_on_alone();
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
