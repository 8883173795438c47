//! Calls that read (read(2), recv(2)).

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::*;
use crate::trace::number as n;
use crate::wait::until;

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn read(fd: i32, to: *mut u8, size: Size) -> Signed {
    traced!(n::READ, [fd, to.addr(), size], {
        // SAFETY: of this and of all calls below: the program's promise.
        unsafe {
            on_shared!(fd, found => found.read(&one(to, size), 0), else system::read(fd, to, size))
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(fd: i32, to: *mut u8, size: Size, _room: Size) -> Signed {
    // SAFETY: as above.
    unsafe { read(fd, to, size) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn readv(fd: i32, iov: *const Iovec, count: i32) -> Signed {
    traced!(n::READV, [fd, iov.addr(), count], {
        // SAFETY: as above.
        unsafe {
            on_shared!(
                fd,
                found => parts(iov, count as usize).and_then(|parts| found.read(parts, 0)),
                else system::readv(fd, iov, count)
            )
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn preadv64v2(
    fd: i32,
    iov: *const Iovec,
    count: i32,
    offset: i64,
    flags: i32,
) -> Signed {
    traced!(n::PREADV2, [fd, iov.addr(), count, offset, flags], {
        // SAFETY: as above.
        unsafe {
            on_shared!(
                fd,
                found => flags_at(offset, flags)
                    .and_then(|flags| found.read(parts(iov, count as usize)?, flags)),
                else system::preadv64v2(fd, iov, count, offset, flags)
            )
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn preadv2(
    fd: i32,
    iov: *const Iovec,
    count: i32,
    offset: i64,
    flags: i32,
) -> Signed {
    // SAFETY: as above.
    unsafe { preadv64v2(fd, iov, count, offset, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: i32, to: *mut u8, size: Size, flags: i32) -> Signed {
    traced!(n::RECVFROM, [fd, to.addr(), size, flags], {
        // SAFETY: as above.
        unsafe {
            on_shared!(
                fd,
                found => found.receive(&one(to, size), flags),
                else system::recv(fd, to, size, flags)
            )
        }
    })
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
pub(super) unsafe extern "C" fn recvfrom(
    fd: i32,
    to: *mut u8,
    size: Size,
    flags: i32,
    name: *mut u8,
    name_len: *mut u32,
) -> Signed {
    traced!(
        n::RECVFROM,
        [fd, to.addr(), size, flags, name.addr(), name_len.addr()],
        {
            // SAFETY: as above.
            unsafe {
                on_shared!(
                    fd,
                    found => if found.is_datagrams() {
                        found.receive_datagram(&one(to, size), flags).and_then(|came| {
                            put_address(came.from, name, name_len)?;
                            Ok(came.count(flags))
                        })
                    } else {
                        if !name_len.is_null() {
                            *name_len = 0;
                        }
                        found.receive(&one(to, size), flags)
                    },
                    else system::recvfrom(fd, to, size, flags, name, name_len)
                )
            }
        }
    )
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
pub(super) unsafe extern "C" fn recvmsg(fd: i32, message: *mut Message, flags: i32) -> Signed {
    traced!(n::RECVMSG, [fd, message.addr(), flags], {
        // SAFETY: as above.
        unsafe {
            on_shared!(
                fd,
                found => {
                    let message = &mut *message;
                    let parts = parts(message.iov, message.iov_len);
                    if found.is_datagrams() {
                        parts.and_then(|parts| found.receive_message(message, parts, flags))
                    } else {
                        let got = parts.and_then(|parts| found.receive(parts, flags));
                        if got.is_ok() {
                            (message.name_len, message.control_len, message.flags) = (0, 0, 0);
                        }
                        got
                    }
                },
                else system::recvmsg(fd, message, flags)
            )
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn recvmmsg(
    fd: i32,
    messages: *mut ManyMessage,
    count: u32,
    flags: i32,
    timeout: *mut Timespec,
) -> i32 {
    traced!(
        n::RECVMMSG,
        [fd, messages.addr(), count, flags, timeout.addr()],
        {
            // SAFETY: as above.
            unsafe {
                let Some(found) = find(fd) else {
                    return system::recvmmsg(fd, messages, count, flags, timeout);
                };
                if found.is_datagrams() {
                    return many_datagrams(fd, messages, count, flags, timeout);
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
    )
}

/// recvmmsg(2) of datagrams: as the kernel does it, the time limit is looked at behind each of them.
unsafe fn many_datagrams(
    fd: i32,
    messages: *mut ManyMessage,
    count: u32,
    flags: i32,
    timeout: *mut Timespec,
) -> i32 {
    // SAFETY: as above.
    unsafe {
        let until = until(waiting::time(timeout));
        let mut got = 0;
        while got < count {
            let one = &mut *messages.add(got as usize);
            let at_once = got > 0 && flags & MSG_WAITFORONE != 0;
            let flags = flags & !MSG_WAITFORONE | if at_once { MSG_DONTWAIT } else { 0 };
            match recvmsg(fd, &mut one.message, flags) {
                len @ 0.. => one.len = len as u32,
                _ if got == 0 => return -1,
                _ => {
                    // The next call hears of it.
                    if ![EAGAIN, EINTR].contains(&errno())
                        && let Some(found) = find(fd)
                    {
                        found
                            .socket()
                            .error
                            .store(errno() as u32, Ordering::Release);
                    }
                    break;
                }
            }
            got += 1;
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if let Some(left) = left {
                (*timeout).seconds = left.as_secs() as i64;
                (*timeout).nanoseconds = left.subsec_nanos().into();
            }
            if left == Some(Duration::ZERO) {
                break;
            }
        }
        got as i32
    }
}
