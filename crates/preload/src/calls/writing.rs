//! Calls that write (write(2), send(2), sendfile(2)).

use super::*;

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn write(fd: i32, from: *const u8, size: Size) -> Signed {
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
pub(super) unsafe extern "C" fn writev(fd: i32, iov: *const Iovec, count: i32) -> Signed {
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
pub(super) unsafe extern "C" fn sendto(
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
pub(super) unsafe extern "C" fn sendmsg(fd: i32, message: *const Message, flags: i32) -> Signed {
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
pub(super) unsafe extern "C" fn sendmmsg(
    fd: i32,
    messages: *mut ManyMessage,
    count: u32,
    flags: i32,
) -> i32 {
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
pub(super) unsafe extern "C" fn sendfile64(
    out: i32,
    from: i32,
    offset: *mut i64,
    size: Size,
) -> Signed {
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
pub(super) unsafe extern "C" fn splice(
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
