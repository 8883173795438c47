//! The functions that take the place of the C library's, each with its arguments (POSIX, and the manual's section 2). For what is no
//! shared socket they call the one beneath.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use crate::memory::options::{NONBLOCK, UNHEARD};
use crate::process::{AGAIN, Found, Here, find, here, unshare_fd};
use crate::sockets::put_address;
use crate::system::*;
use crate::{epoll, poll, system};

/// The stretches of memory of a vectored call.
unsafe fn parts<'a>(iov: *const Iovec, count: usize) -> Result<&'a [Iovec], i32> {
    const MOST: usize = 1024;
    match count {
        0 => Ok(&[]),
        1..=MOST if !iov.is_null() => {
            // SAFETY: the program says that there are so many.
            Ok(unsafe { std::slice::from_raw_parts(iov, count) })
        }
        1..=MOST => Err(EFAULT),
        _ => Err(EINVAL),
    }
}

fn one(base: *mut u8, len: usize) -> [Iovec; 1] {
    [Iovec { base, len }]
}

/// Makes a call on a shared socket; again on what is in its place, when it is shared no more.
macro_rules! on_shared {
    ($fd:expr, $found:ident => $shared:expr, else $kernel:expr) => {
        loop {
            let Some($found) = find($fd) else {
                break $kernel;
            };
            match $shared {
                Err(AGAIN) => {}
                result => break answer(result),
            }
        }
    };
}

/// An answer that is a number or an error.
fn number(result: Result<usize, i32>) -> i32 {
    answer(result) as i32
}

fn done(result: Result<(), i32>) -> i32 {
    number(result.map(|()| 0))
}

// Reading.

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: i32, to: *mut u8, size: Size) -> Signed {
    // SAFETY: of this and of all calls below: the program's promise.
    unsafe { on_shared!(fd, found => found.read(&one(to, size)), else system::read(fd, to, size)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(fd: i32, to: *mut u8, size: Size, _room: Size) -> Signed {
    // SAFETY: as above.
    unsafe { read(fd, to, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readv(fd: i32, iov: *const Iovec, count: i32) -> Signed {
    // SAFETY: as above.
    unsafe {
        on_shared!(
            fd,
            found => parts(iov, count as usize).and_then(|parts| found.read(parts)),
            else system::readv(fd, iov, count)
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: i32, to: *mut u8, size: Size, flags: i32) -> Signed {
    // SAFETY: as above.
    unsafe {
        on_shared!(
            fd,
            found => found.receive(&one(to, size), flags),
            else system::recv(fd, to, size, flags)
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __recv_chk(
    fd: i32,
    to: *mut u8,
    size: Size,
    _room: Size,
    flags: i32,
) -> Signed {
    // SAFETY: as above.
    unsafe { recv(fd, to, size, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvfrom(
    fd: i32,
    to: *mut u8,
    size: Size,
    flags: i32,
    name: *mut u8,
    name_len: *mut u32,
) -> Signed {
    // SAFETY: as above.
    unsafe {
        on_shared!(
            fd,
            found => {
                if !name_len.is_null() {
                    *name_len = 0;
                }
                found.receive(&one(to, size), flags)
            },
            else system::recvfrom(fd, to, size, flags, name, name_len)
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __recvfrom_chk(
    fd: i32,
    to: *mut u8,
    size: Size,
    _room: Size,
    flags: i32,
    name: *mut u8,
    name_len: *mut u32,
) -> Signed {
    // SAFETY: as above.
    unsafe { recvfrom(fd, to, size, flags, name, name_len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(fd: i32, message: *mut Message, flags: i32) -> Signed {
    // SAFETY: as above.
    unsafe {
        on_shared!(
            fd,
            found => {
                let message = &mut *message;
                let parts = parts(message.iov, message.iov_len);
                let got = parts.and_then(|parts| found.receive(parts, flags));
                if got.is_ok() {
                    (message.name_len, message.control_len, message.flags) = (0, 0, 0);
                }
                got
            },
            else system::recvmsg(fd, message, flags)
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmmsg(
    fd: i32,
    messages: *mut ManyMessage,
    count: u32,
    flags: i32,
    timeout: *mut Timespec,
) -> i32 {
    // SAFETY: as above.
    unsafe {
        if find(fd).is_none() {
            return system::recvmmsg(fd, messages, count, flags, timeout);
        }
        for n in 0..count {
            let one = &mut *messages.add(n as usize);
            let flags = if n == 0 { flags } else { flags | MSG_DONTWAIT };
            match recvmsg(fd, &mut one.message, flags) {
                len @ 1.. => one.len = len as u32,
                // The end is an empty message.
                0 => {
                    one.len = 0;
                    return n as i32 + 1;
                }
                _ if n > 0 => return n as i32,
                _ => return -1,
            }
        }
        count as i32
    }
}

// Writing.

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: i32, from: *const u8, size: Size) -> Signed {
    // SAFETY: as above.
    unsafe {
        on_shared!(
            fd,
            found => found.transmit(&one(from.cast_mut(), size), 0),
            else system::write(fd, from, size)
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: i32, iov: *const Iovec, count: i32) -> Signed {
    // SAFETY: as above.
    unsafe {
        on_shared!(
            fd,
            found => parts(iov, count as usize).and_then(|parts| found.transmit(parts, 0)),
            else system::writev(fd, iov, count)
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: i32, from: *const u8, size: Size, flags: i32) -> Signed {
    // SAFETY: as above.
    unsafe {
        on_shared!(
            fd,
            found => found.transmit(&one(from.cast_mut(), size), flags),
            else system::send(fd, from, size, flags)
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendto(
    fd: i32,
    from: *const u8,
    size: Size,
    flags: i32,
    name: *const u8,
    name_len: u32,
) -> Signed {
    // SAFETY: as above.
    unsafe {
        // A connection has its peer already.
        on_shared!(
            fd,
            found => found.transmit(&one(from.cast_mut(), size), flags),
            else system::sendto(fd, from, size, flags, name, name_len)
        )
    }
}

/// The descriptors that a message passes to another process (unix(7)) are to be real sockets.
unsafe fn unshare_passed(message: &Message) {
    const HEAD: usize = 16;
    let mut at = 0;
    while !message.control.is_null() && at + HEAD <= message.control_len {
        // SAFETY: within the program's message.
        unsafe {
            let head = message.control.add(at);
            let len = head.cast::<usize>().read_unaligned();
            let level = head.add(8).cast::<i32>().read_unaligned();
            let kind = head.add(12).cast::<i32>().read_unaligned();
            if len < HEAD || at + len > message.control_len {
                return;
            }
            if (level, kind) == (SOL_SOCKET, SCM_RIGHTS) {
                for n in 0..(len - HEAD) / 4 {
                    unshare_fd(head.add(HEAD + 4 * n).cast::<i32>().read_unaligned());
                }
            }
            at += len.next_multiple_of(8);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(fd: i32, message: *const Message, flags: i32) -> Signed {
    // SAFETY: as above.
    unsafe {
        on_shared!(
            fd,
            found => {
                let parts = parts((*message).iov, (*message).iov_len);
                parts.and_then(|parts| found.transmit(parts, flags))
            },
            else {
                if here().is_some() && !message.is_null() {
                    unshare_passed(&*message);
                }
                system::sendmsg(fd, message, flags)
            }
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmmsg(fd: i32, messages: *mut ManyMessage, count: u32, flags: i32) -> i32 {
    // SAFETY: as above.
    unsafe {
        if find(fd).is_none() {
            return system::sendmmsg(fd, messages, count, flags);
        }
        for n in 0..count {
            let one = &mut *messages.add(n as usize);
            match sendmsg(fd, &one.message, flags) {
                len @ 0.. => one.len = len as u32,
                _ if n > 0 => return n as i32,
                _ => return -1,
            }
        }
        count as i32
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile64(out: i32, from: i32, offset: *mut i64, size: Size) -> Signed {
    // SAFETY: as above.
    unsafe {
        on_shared!(
            out,
            found => {
                let at = (!offset.is_null()).then(|| *offset);
                let sent = found.transmit_file(from, at, size);
                if let (Ok(count), Some(at)) = (sent, at) {
                    *offset = at + count as i64;
                }
                sent
            },
            else system::sendfile64(out, from, offset, size)
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile(out: i32, from: i32, offset: *mut i64, size: Size) -> Signed {
    // SAFETY: as above.
    unsafe { sendfile64(out, from, offset, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn splice(
    from: i32,
    from_offset: *mut i64,
    to: i32,
    to_offset: *mut i64,
    size: Size,
    flags: u32,
) -> Signed {
    unshare_fd(from);
    unshare_fd(to);
    // SAFETY: as above.
    unsafe { system::splice(from, from_offset, to, to_offset, size, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: i32, mode: *const c_char) -> *mut c_void {
    // The C library's files read and write beneath us.
    unshare_fd(fd);
    // SAFETY: as above.
    unsafe { system::fdopen(fd, mode) }
}

// Descriptors.

/// A descriptor is closed.
fn gone(here: &'static Here, fd: i32) {
    if (here.knows(fd) || epoll::knows(fd)) && here.is_here() {
        here.forget(fd);
        epoll::closed(here, fd);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: i32) -> i32 {
    if let Some(here) = here() {
        if here.is_own(fd) {
            set_errno(EBADF);
            return -1;
        }
        gone(here, fd);
    }
    // SAFETY: as above.
    unsafe { system::close(fd) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close_range(first: u32, last: u32, flags: i32) -> i32 {
    let mut from = first;
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
                here.forget(fd as i32);
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

/// A descriptor has been made that is what another is.
fn copied(from: i32, made: i32) -> i32 {
    let known = here().filter(|here| here.knows(from) || epoll::knows(from));
    if let Some(here) = known
        && made >= 0
        && here.is_here()
    {
        match find(from) {
            Some(found) => here.assign(made, found.number),
            None => epoll::copied(from, made),
        }
    }
    made
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup(fd: i32) -> i32 {
    // SAFETY: as above.
    copied(fd, unsafe { system::dup(fd) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(fd: i32, to: i32) -> i32 {
    if fd == to {
        // SAFETY: as above.
        return unsafe { system::dup2(fd, to) };
    }
    // SAFETY: as above.
    put_at(fd, to, || unsafe { system::dup2(fd, to) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(fd: i32, to: i32, flags: i32) -> i32 {
    // SAFETY: as above.
    put_at(fd, to, || unsafe { system::dup3(fd, to, flags) })
}

/// Makes a copy of a descriptor at a number, where another may be.
fn put_at(fd: i32, to: i32, put: impl FnOnce() -> i32) -> i32 {
    if let Some(here) = here()
        && here.is_own(to)
    {
        set_errno(EBADF);
        return -1;
    }
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
unsafe extern "C" fn fcntl64(fd: i32, what: i32, argument: usize) -> i32 {
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
                return 0;
            }
            _ => {}
        }
    }
    // SAFETY: as above.
    let result = unsafe { system::fcntl64(fd, what, argument) };
    match what {
        F_DUPFD | F_DUPFD_CLOEXEC => copied(fd, result),
        _ => result,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: i32, what: i32, argument: usize) -> i32 {
    // SAFETY: as above.
    unsafe { fcntl64(fd, what, argument) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: i32, what: u64, argument: usize) -> i32 {
    let Some(found) = find(fd) else {
        // SAFETY: as above.
        return unsafe { system::ioctl(fd, what, argument) };
    };
    let at: *mut i32 = std::ptr::with_exposed_provenance_mut(argument);
    match what as i32 {
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
        _ => done(Err(ENOTTY)),
    }
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

/// The offset of `st_mode` in `struct stat`.
const MODE_AT: usize = if cfg!(target_arch = "x86_64") { 24 } else { 16 };

#[unsafe(no_mangle)]
unsafe extern "C" fn fstat64(fd: i32, into: *mut u8) -> i32 {
    const SOCKET: u32 = 0o140_777;
    // SAFETY: as above.
    unsafe {
        let result = system::fstat64(fd, into);
        if result == 0 && find(fd).is_some() {
            into.add(MODE_AT).cast::<u32>().write_unaligned(SOCKET);
        }
        result
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstat(fd: i32, into: *mut u8) -> i32 {
    // SAFETY: as above.
    unsafe { fstat64(fd, into) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fork() -> i32 {
    // SAFETY: as above.
    let child = unsafe { system::fork() };
    if child < 0
        && let Some(here) = here()
    {
        here.has_no_child();
    }
    child
}

// Sockets.

#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(fd: i32, name: *mut u8, name_len: *mut u32, flags: i32) -> i32 {
    // SAFETY: as above.
    unsafe {
        on_shared!(
            fd,
            found => found.accept(flags).map(|(fd, peer)| {
                put_address(peer, name, name_len);
                fd as usize
            }),
            else system::accept4(fd, name, name_len, flags) as Signed
        ) as i32
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept(fd: i32, name: *mut u8, name_len: *mut u32) -> i32 {
    // SAFETY: as above.
    unsafe { accept4(fd, name, name_len, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn connect(fd: i32, name: *const u8, name_len: u32) -> i32 {
    use crate::memory::state::{OVER, STANDS};
    let Some(found) = find(fd) else {
        // SAFETY: as above.
        let result = match here() {
            // SAFETY: as above.
            None => unsafe { system::connect(fd, name, name_len) },
            // SAFETY: as above; the kernel looks at the first three arguments.
            Some(_) => unsafe { system::marked(SYS_CONNECT, fd, name.addr(), name_len as usize) },
        };
        let number = errno();
        epoll::move_in(fd);
        if result < 0
            && number != EINPROGRESS
            && let Some(found) = find(fd)
        {
            let _ = found.renew(fd, 0);
        }
        set_errno(number);
        return result;
    };
    let socket = found.socket();
    let result = if socket.is(STANDS) && !socket.is(OVER) && socket.has(UNHEARD) {
        socket.set_option(UNHEARD, false);
        Ok(())
    } else if found.listens() || socket.is(STANDS) {
        Err(EISCONN)
    } else if let Err(number) = found.take_error() {
        let _ = found.renew(fd, 0);
        Err(number)
    } else if socket.is(OVER) {
        let _ = found.renew(fd, 0);
        Err(ECONNABORTED)
    } else {
        Err(EALREADY)
    };
    done(result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bind(fd: i32, name: *const u8, name_len: u32) -> i32 {
    if find(fd).is_some() {
        return done(Err(EINVAL));
    }
    // SAFETY: as above.
    unsafe { system::bind(fd, name, name_len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn listen(fd: i32, backlog: i32) -> i32 {
    if let Some(found) = find(fd) {
        return done(found.listen());
    }
    // SAFETY: as above.
    let result = match here() {
        // SAFETY: as above.
        None => unsafe { system::listen(fd, backlog) },
        // SAFETY: as above; the kernel looks at the first two arguments.
        Some(_) => unsafe { system::marked(SYS_LISTEN, fd, backlog as usize, 0) },
    };
    epoll::move_in(fd);
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shutdown(fd: i32, how: i32) -> i32 {
    match find(fd) {
        // SAFETY: as above.
        None => unsafe { system::shutdown(fd, how) },
        Some(found) => done(match found.shut(how) {
            Err(ENOTCONN) => found.stop_connecting(fd),
            shut => shut,
        }),
    }
}

unsafe fn name_of(found: Found, of_peer: bool, name: *mut u8, len: *mut u32) -> i32 {
    done(found.address(of_peer).map(|address| {
        // SAFETY: as above.
        unsafe { put_address(address, name, len) };
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockname(fd: i32, name: *mut u8, len: *mut u32) -> i32 {
    // SAFETY: as above.
    unsafe {
        match find(fd) {
            None => system::getsockname(fd, name, len),
            Some(found) => name_of(found, false, name, len),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpeername(fd: i32, name: *mut u8, len: *mut u32) -> i32 {
    // SAFETY: as above.
    unsafe {
        match find(fd) {
            None => system::getpeername(fd, name, len),
            Some(found) => name_of(found, true, name, len),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockopt(
    fd: i32,
    level: i32,
    option: i32,
    value: *mut u8,
    len: *mut u32,
) -> i32 {
    // SAFETY: as above.
    unsafe {
        match find(fd) {
            None => system::getsockopt(fd, level, option, value, len),
            Some(found) => done(found.get_option((level, option), value, len)),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(
    fd: i32,
    level: i32,
    option: i32,
    value: *const u8,
    len: u32,
) -> i32 {
    // SAFETY: as above.
    unsafe {
        let Some(found) = find(fd) else {
            return system::setsockopt(fd, level, option, value, len);
        };
        let value = match value.is_null() {
            true => &[],
            false => std::slice::from_raw_parts(value, len as usize),
        };
        done(found.set_option((level, option), value))
    }
}

// Waiting.

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_create1(flags: i32) -> i32 {
    // SAFETY: as above.
    let made = unsafe { system::epoll_create1(flags) };
    if made >= 0 && here().is_some_and(Here::is_here) {
        epoll::made(made);
    }
    made
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_create(size: i32) -> i32 {
    if size <= 0 {
        return done(Err(EINVAL));
    }
    // SAFETY: as above.
    unsafe { epoll_create1(0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_ctl(set: i32, what: i32, fd: i32, event: *mut EpollEvent) -> i32 {
    // SAFETY: as above.
    unsafe {
        let wanted = (!event.is_null()).then(|| event.read_unaligned());
        match find(fd) {
            Some(found) => done(epoll::control(set, what, fd, found, wanted)),
            None => {
                let result = system::epoll_ctl(set, what, fd, event);
                if result == 0 && here().is_some() {
                    epoll::remember(set, what, fd, wanted);
                }
                result
            }
        }
    }
}

/// A time limit in milliseconds; a negative one is none.
fn limit(ms: i32) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

unsafe fn time(time: *const Timespec) -> Option<Duration> {
    // SAFETY: as above.
    let time = unsafe { time.as_ref()? };
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    Some(Duration::new(
        seconds,
        time.nanoseconds.clamp(0, 999_999_999) as u32,
    ))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait(
    set: i32,
    events: *mut EpollEvent,
    most: i32,
    timeout: i32,
    mask: *const u8,
) -> i32 {
    // SAFETY: as above.
    unsafe {
        if most > 0 && !events.is_null() {
            let events = std::slice::from_raw_parts_mut(events, most as usize);
            if let Some(result) = epoll::wait(set, events, limit(timeout), mask) {
                return number(result);
            }
        }
        system::epoll_pwait(set, events, most, timeout, mask)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(set: i32, events: *mut EpollEvent, most: i32, timeout: i32) -> i32 {
    // SAFETY: as above.
    unsafe { epoll_pwait(set, events, most, timeout, std::ptr::null()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait2(
    set: i32,
    events: *mut EpollEvent,
    most: i32,
    timeout: *const Timespec,
    mask: *const u8,
) -> i32 {
    // SAFETY: as above.
    unsafe {
        let limit = time(timeout);
        if most > 0 && !events.is_null() {
            let events = std::slice::from_raw_parts_mut(events, most as usize);
            if let Some(result) = epoll::wait(set, events, limit, mask) {
                return number(result);
            }
        }
        let ms = limit.map_or(-1, |limit| limit.as_nanos().div_ceil(1_000_000) as i32);
        system::epoll_pwait(set, events, most, ms, mask)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(
    fds: *mut PollFd,
    count: u64,
    timeout: *const Timespec,
    mask: *const u8,
) -> i32 {
    // SAFETY: as above.
    unsafe {
        if here().is_some() && count > 0 && !fds.is_null() {
            let all = std::slice::from_raw_parts_mut(fds, count as usize);
            if let Some(result) = poll::poll(all, time(timeout), mask) {
                return number(result);
            }
            if let Some(here) = here() {
                here.let_go();
            }
        }
        system::ppoll(fds, count, timeout, mask)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __ppoll_chk(
    fds: *mut PollFd,
    count: u64,
    timeout: *const Timespec,
    mask: *const u8,
    _room: Size,
) -> i32 {
    // SAFETY: as above.
    unsafe { ppoll(fds, count, timeout, mask) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn poll(fds: *mut PollFd, count: u64, timeout: i32) -> i32 {
    let limit = limit(timeout).map(|limit| Timespec {
        seconds: limit.as_secs() as i64,
        nanoseconds: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: as above.
    unsafe { ppoll(fds, count, limit, std::ptr::null()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __poll_chk(fds: *mut PollFd, count: u64, timeout: i32, _room: Size) -> i32 {
    // SAFETY: as above.
    unsafe { poll(fds, count, timeout) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn select(
    count: i32,
    read: *mut u64,
    write: *mut u64,
    other: *mut u64,
    timeout: *mut [i64; 2],
) -> i32 {
    // SAFETY: as above.
    unsafe {
        let limit = timeout.as_ref().map(|[seconds, micros]| {
            let seconds = Duration::from_secs(u64::try_from(*seconds).unwrap_or(0));
            seconds + Duration::from_micros(u64::try_from(*micros).unwrap_or(0))
        });
        match poll::select(count, [read, write, other], limit, std::ptr::null()) {
            Some(result) => number(result),
            None => system::select(count, read, write, other, timeout),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pselect(
    count: i32,
    read: *mut u64,
    write: *mut u64,
    other: *mut u64,
    timeout: *const Timespec,
    mask: *const u8,
) -> i32 {
    // SAFETY: as above.
    unsafe {
        match poll::select(count, [read, write, other], time(timeout), mask) {
            Some(result) => number(result),
            None => system::pselect(count, read, write, other, timeout, mask),
        }
    }
}
