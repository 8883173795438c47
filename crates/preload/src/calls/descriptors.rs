//! Calls that close, copy and change descriptors, and make processes (close(2), dup(2), fcntl(2), fork(2)).

use super::*;
use crate::trace::number as n;

/// A descriptor is closed.
fn gone(here: &'static Here, fd: i32) {
    untouched::forget(fd);
    if (here.knows(fd) || epoll::knows(fd)) && here.is_here() {
        forget(here, fd);
        epoll::closed(here, fd);
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn close(fd: i32) -> i32 {
    traced!(n::CLOSE, [fd], {
        if let Some(here) = here() {
            if here.is_own(fd) {
                set_errno(EBADF);
                return -1;
            }
            gone(here, fd);
        }
        // SAFETY: as above.
        unsafe { system::close(fd) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn close_range(first: u32, last: u32, flags: i32) -> i32 {
    let mut from = first;
    untouched::forget_all();
    if let Some(here) = here().filter(|here| here.is_here()) {
        for (fd, is_own) in here.known() {
            let fd = fd as u32;
            if !(from..=last).contains(&fd) {
                continue;
            }
            if is_own {
                // The library's stay open.
                if fd > from {
                    // SAFETY: as above.
                    unsafe { system::close_range(from, fd - 1, flags) };
                }
                from = fd + 1;
            } else if flags & CLOSE_RANGE_CLOEXEC == 0 {
                forget(here, fd as i32);
            }
        }
        if flags & CLOSE_RANGE_CLOEXEC == 0 {
            epoll::closed_range(here, first, last);
        }
    }
    match from > last && from != first {
        true => 0,
        // SAFETY: as above.
        false => unsafe { system::close_range(from, last, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: i32) {
    // SAFETY: as above.
    unsafe { close_range(first.max(0) as u32, u32::MAX, 0) };
}

/// Standard error: the last descriptor that the C library has a stream for from the beginning.
const STANDARD_LAST: i32 = 2;

/// A descriptor has been made that is what another is.
fn copied(from: i32, made: i32) -> i32 {
    untouched::forget(from);
    let known = here().filter(|here| here.knows(from) || epoll::knows(from));
    if let Some(here) = known
        && made >= 0
        && here.is_here()
    {
        match find(from) {
            Some(found) => {
                here.assign(made, found.number);
                if made <= STANDARD_LAST {
                    // The C library's streams read and write beneath us.
                    unshare_fd(made);
                }
            }
            None => epoll::copied(from, made),
        }
    }
    made
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn dup(fd: i32) -> i32 {
    traced!(n::DUP, [fd], {
        datagrams::share_made(fd);
        // SAFETY: as above.
        copied(fd, unsafe { system::dup(fd) })
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn dup2(fd: i32, to: i32) -> i32 {
    traced!(n::DUP2, [fd, to], {
        if fd == to {
            // SAFETY: as above.
            return unsafe { system::dup2(fd, to) };
        }
        // SAFETY: as above.
        put_at(fd, to, || unsafe { system::dup2(fd, to) })
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn dup3(fd: i32, to: i32, flags: i32) -> i32 {
    traced!(n::DUP3, [fd, to, flags], {
        // SAFETY: as above.
        put_at(fd, to, || unsafe { system::dup3(fd, to, flags) })
    })
}

/// Makes a copy of a descriptor at a number, where another may be.
fn put_at(fd: i32, to: i32, put: impl FnOnce() -> i32) -> i32 {
    if let Some(here) = here()
        && here.is_own(to)
    {
        set_errno(EBADF);
        return -1;
    }
    datagrams::share_made(fd);
    if let Some(found) = find(fd)
        && !found.here.is_here()
    {
        // A child that shares our memory and is about to become another program: there the number is all that is known of it.
        unshare_fd(fd);
    }
    let made = put();
    if made >= 0
        && let Some(here) = here()
    {
        gone(here, to);
    }
    copied(fd, made)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn fcntl64(fd: i32, what: i32, argument: usize) -> i32 {
    traced!(n::FCNTL, [fd, what, argument], {
        let found = find(fd);
        // Whether calls wait is a matter of the socket: its descriptors are copies of one file.
        if let Some(found) = found {
            match what {
                F_GETFL => {
                    let nonblocking = found.socket().has(NONBLOCK);
                    return O_RDWR | if nonblocking { O_NONBLOCK } else { 0 };
                }
                F_SETFL => {
                    let on = argument as i32 & O_NONBLOCK != 0;
                    found.socket().set_option(NONBLOCK, on);
                    if argument as i32 & O_ASYNC == 0 {
                        return 0;
                    }
                    unshare_fd(fd);
                }
                // Signals tell of a Unix socket.
                F_SETOWN | F_SETOWN_EX | F_SETSIG => unshare_fd(fd),
                _ => {}
            }
        }
        if what == F_DUPFD || what == F_DUPFD_CLOEXEC {
            datagrams::share_made(fd);
        }
        // SAFETY: as above.
        let result = unsafe { system::fcntl64(fd, what, argument) };
        match what {
            F_DUPFD | F_DUPFD_CLOEXEC => copied(fd, result),
            _ => result,
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: i32, what: i32, argument: usize) -> i32 {
    // SAFETY: as above.
    unsafe { fcntl64(fd, what, argument) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn ioctl(fd: i32, what: u64, argument: usize) -> i32 {
    traced!(n::IOCTL, [fd, what, argument], {
        let Some(found) = find(fd) else {
            // SAFETY: as above.
            let kernel = || unsafe { system::ioctl(fd, what, argument) };
            return own_addresses::ask_for(what, argument, kernel);
        };
        let at: *mut i32 = std::ptr::with_exposed_provenance_mut(argument);
        match what as i32 {
            request if interfaces::REQUESTS.contains(&request) => {
                own_addresses::ask_for(what, argument, || interfaces::ask(what, argument))
            }
            FIONREAD | SIOCOUTQ => {
                let waiting = found.waiting(what as i32 == SIOCOUTQ);
                // SAFETY: as above.
                done(waiting.map(|waiting| unsafe { *at = waiting as i32 }))
            }
            FIONBIO => {
                // SAFETY: as above.
                let on = unsafe { *at } != 0;
                found.socket().set_option(NONBLOCK, on);
                0
            }
            // There is no urgent data that could have been reached.
            SIOCATMARK if !found.is_datagrams() => {
                // SAFETY: as above.
                unsafe { *at = 0 };
                0
            }
            request @ (FIOCLEX | FIONCLEX | FIOASYNC) => {
                // SAFETY: as above.
                if request == FIOASYNC && unsafe { *at } != 0 {
                    // Signals tell of a Unix socket.
                    unshare_fd(fd);
                }
                // SAFETY: as above.
                unsafe { system::ioctl(fd, what, argument) }
            }
            _ => done(Err(ENOTTY)),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_adddup2(
    actions: *mut c_void,
    fd: i32,
    to: i32,
) -> i32 {
    // The C library copies it beneath us.
    unshare_fd(fd);
    // SAFETY: as above.
    unsafe { system::posix_spawn_file_actions_adddup2(actions, fd, to) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn lseek64(fd: i32, offset: i64, whence: i32) -> i64 {
    match find(fd) {
        Some(_) => answer(Err(ESPIPE)) as i64,
        // SAFETY: as above.
        None => unsafe { system::lseek64(fd, offset, whence) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lseek(fd: i32, offset: i64, whence: i32) -> i64 {
    // SAFETY: as above.
    unsafe { lseek64(fd, offset, whence) }
}

/// What it is of a socket.
const SOCKET: u16 = 0o140_777;

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn fstat64(fd: i32, into: *mut u8) -> i32 {
    // SAFETY: as above.
    unsafe {
        let result = system::fstat64(fd, into);
        if result == 0 && find(fd).is_some() {
            into.add(MODE_AT)
                .cast::<u32>()
                .write_unaligned(SOCKET.into());
        }
        result
    }
}

/// Whether a call that takes a folder's descriptor and a path is of the descriptor itself.
unsafe fn is_of_descriptor(path: *const c_char, flags: i32) -> bool {
    // SAFETY: the program's promise.
    flags & AT_EMPTY_PATH != 0 && (path.is_null() || unsafe { *path } == 0)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn fstatat64(
    fd: i32,
    path: *const c_char,
    into: *mut u8,
    flags: i32,
) -> i32 {
    // SAFETY: as above.
    unsafe {
        match is_of_descriptor(path, flags) && find(fd).is_some() {
            true => fstat64(fd, into),
            false => system::fstatat64(fd, path, into, flags),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstatat(fd: i32, path: *const c_char, into: *mut u8, flags: i32) -> i32 {
    // SAFETY: as above.
    unsafe { fstatat64(fd, path, into, flags) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn statx(
    fd: i32,
    path: *const c_char,
    flags: i32,
    mask: u32,
    into: *mut u8,
) -> i32 {
    /// The offset of `stx_mode`.
    const MODE_AT: usize = 28;
    // SAFETY: as above.
    unsafe {
        let result = system::statx(fd, path, flags, mask, into);
        if result == 0 && is_of_descriptor(path, flags) && find(fd).is_some() {
            into.add(MODE_AT).cast::<u16>().write_unaligned(SOCKET);
        }
        result
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstat(fd: i32, into: *mut u8) -> i32 {
    // SAFETY: as above.
    unsafe { fstat64(fd, into) }
}
