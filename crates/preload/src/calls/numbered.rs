//! Calls that a program makes by their numbers (syscall(2)): those that are answered by their names are answered so, for what is done
//! to a descriptor is to be known however it is done. libuv closes them so.

use super::descriptors::{close, close_range, dup, dup2, dup3, fcntl64, fstat64, ioctl, lseek64};
use super::limits::{getrlimit, prlimit, setrlimit};
use super::locking::mlockall;
use super::reading::{preadv64v2, read, readv, recvfrom, recvmmsg, recvmsg};
use super::sockets::{
    accept, accept4, bind, connect, getpeername, getsockname, getsockopt, listen, setsockopt,
    shutdown,
};
use super::waiting::{
    epoll_create1, epoll_ctl, epoll_pwait, epoll_pwait2, epoll_wait, poll, ppoll, pselect, select,
};
use super::writing::{pwritev64v2, sendfile64, sendmmsg, sendmsg, sendto, splice, write, writev};
use super::*;
use crate::system::number as n;

/// An argument that is an address.
pub(super) fn at<T>(word: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut(word)
}

/// The C library's takes as many arguments as the call has. The rest is in registers, or on the stack, and whatever is there.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: i64,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> i64 {
    let words = [a, b, c, d, e, f];
    if is_told()
        // SAFETY: the program's promise.
        && let Some(result) = unsafe { known(number, words).or_else(|| forking::by_number(number, words)) }
    {
        return result;
    }
    credentials::before_number(number, a);
    // SAFETY: as above.
    unsafe { system::call(number, words) }
}

/// The result of a call that is answered by its name.
unsafe fn known(number: i64, [a, b, c, d, e, f]: [usize; 6]) -> Option<i64> {
    let fd = a as i32;
    // SAFETY: as above: a call has the arguments of the function of its name, but for sizes of masks, which these know.
    let result = unsafe {
        match number {
            n::READ => read(fd, at(b), c) as i64,
            n::WRITE => write(fd, at(b), c) as i64,
            n::READV => readv(fd, at(b), c as i32) as i64,
            n::WRITEV => writev(fd, at(b), c as i32) as i64,
            n::PREADV2 => preadv64v2(fd, at(b), c as i32, d as i64, f as i32) as i64,
            n::PWRITEV2 => pwritev64v2(fd, at(b), c as i32, d as i64, f as i32) as i64,
            n::RECVFROM => recvfrom(fd, at(b), c, d as i32, at(e), at(f)) as i64,
            n::SENDTO => sendto(fd, at(b), c, d as i32, at(e), f as u32) as i64,
            n::RECVMSG => recvmsg(fd, at(b), c as i32) as i64,
            n::SENDMSG => sendmsg(fd, at(b), c as i32) as i64,
            n::LSEEK => lseek64(fd, b as i64, c as i32),
            n::SENDFILE => sendfile64(fd, b as i32, at(c), d) as i64,
            n::SPLICE => splice(fd, at(b), c as i32, at(d), e, f as u32) as i64,
            _ => i64::from(match number {
                n::CLOSE => close(fd),
                n::CLOSE_RANGE => close_range(a as u32, b as u32, c as i32),
                n::DUP => dup(fd),
                n::DUP2 => dup2(fd, b as i32),
                n::DUP3 => dup3(fd, b as i32, c as i32),
                n::FCNTL => fcntl64(fd, b as i32, c),
                n::IOCTL => ioctl(fd, b as u64, c),
                n::FSTAT => fstat64(fd, at(b)),
                n::NEWFSTATAT => fstatat64(fd, at(b), at(c), d as i32),
                n::STATX => statx(fd, at(b), c as i32, d as u32, at(e)),
                n::RECVMMSG => recvmmsg(fd, at(b), c as u32, d as i32, at(e)),
                n::SENDMMSG => sendmmsg(fd, at(b), c as u32, d as i32),
                n::ACCEPT => accept(fd, at(b), at(c)),
                n::ACCEPT4 => accept4(fd, at(b), at(c), d as i32),
                n::BIND => bind(fd, at(b), c as u32),
                n::CONNECT => connect(fd, at(b), c as u32),
                n::LISTEN => listen(fd, b as i32),
                n::SHUTDOWN => shutdown(fd, b as i32),
                n::GETSOCKNAME => getsockname(fd, at(b), at(c)),
                n::GETPEERNAME => getpeername(fd, at(b), at(c)),
                n::GETSOCKOPT => getsockopt(fd, b as i32, c as i32, at(d), at(e)),
                n::SETSOCKOPT => setsockopt(fd, b as i32, c as i32, at(d), e as u32),
                n::EPOLL_CREATE1 => epoll_create1(fd),
                n::EPOLL_CTL => epoll_ctl(fd, b as i32, c as i32, at(d)),
                n::EPOLL_WAIT => epoll_wait(fd, at(b), c as i32, d as i32),
                n::EPOLL_PWAIT => epoll_pwait(fd, at(b), c as i32, d as i32, at(e)),
                n::EPOLL_PWAIT2 => epoll_pwait2(fd, at(b), c as i32, at(d), at(e)),
                n::POLL => poll(at(a), b as u64, c as i32),
                n::PPOLL => ppoll(at(a), b as u64, at(c), at(d)),
                n::SELECT => select(fd, at(b), at(c), at(d), at(e)),
                n::GETRLIMIT => getrlimit(fd, at(b)),
                n::MLOCKALL => mlockall(fd),
                n::SETRLIMIT => setrlimit(fd, at(b)),
                n::PRLIMIT64 => prlimit(fd, b as i32, at(c), at(d)),
                n::PSELECT6 => pselect(fd, at(b), at(c), at(d), at(e), mask_of(f)),
                _ => return None,
            }),
        }
    };
    Some(result)
}

/// The mask of `pselect6`, which stands with its size where the last argument says.
unsafe fn mask_of(word: usize) -> *const u8 {
    match word {
        0 => std::ptr::null(),
        // SAFETY: the program's promise.
        word => unsafe { at::<*const u8>(word).read_unaligned() },
    }
}
