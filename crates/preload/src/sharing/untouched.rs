//! Sockets of TCP that nothing was done to since this process made them: when one is connected, the other side is told so, and need not
//! ask the kernel what it is and which options it has. What is done beneath the library is not seen here; of `bind` and `setsockopt` the other
//! side knows.

use crate::memory::Untouched;
use crate::process::descriptor_set::DescriptorSet;
use crate::process::here;
use crate::system::{self, F_GETFD, F_GETFL, FD_CLOEXEC, O_NONBLOCK};

/// Those of IPv4, and those of IPv6.
static MADE: [DescriptorSet; 2] = [const { DescriptorSet::new() }; 2];

/// One was made.
pub fn made(fd: i32, is_v6: bool) {
    MADE[usize::from(is_v6)].insert(fd);
}

/// Something is done to one, or the number is to be another file's.
pub fn forget(fd: i32) {
    for set in &MADE {
        set.remove(fd);
    }
}

/// There may be another descriptor of each.
pub fn forget_all() {
    for set in &MADE {
        set.drain(|_| {});
    }
}

/// What is told of one that is about to be connected, once; zero of any other.
pub fn take(fd: i32) -> u64 {
    let [is_v4, is_v6] = MADE.each_ref().map(|set| set.remove(fd));
    let Some(here) = here().filter(|here| (is_v4 || is_v6) && here.is_here()) else {
        return 0;
    };
    // SAFETY: the calls touch no memory.
    let [status, flags] = [F_GETFL, F_GETFD].map(|what| unsafe { system::fcntl64(fd, what, 0) });
    let part = here.part().filter(|_| status >= 0 && flags >= 0);
    let what = part.map(|part| Untouched {
        part,
        is_v6,
        nonblocking: status & O_NONBLOCK != 0,
        close_on_exec: flags & FD_CLOEXEC != 0,
    });
    what.map_or(0, Untouched::word)
}
