//! Calls that write (write(2), send(2), sendfile(2)).

use super::*;
use crate::control::Wishes;
use crate::trace::number as n;

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn write(fd: i32, from: *const u8, size: Size) -> Signed {
    traced!(n::WRITE, [fd, from.addr(), size], {
        // SAFETY: as above.
        unsafe {
            on_shared!(
                fd,
                found => found.transmit(&one(from.cast_mut(), size), 0),
                else system::write(fd, from, size)
            )
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn writev(fd: i32, iov: *const Iovec, count: i32) -> Signed {
    traced!(n::WRITEV, [fd, iov.addr(), count], {
        // SAFETY: as above.
        unsafe {
            on_shared!(
                fd,
                found => write_parts(found, iov, count, 0),
                else system::writev(fd, iov, count)
            )
        }
    })
}

unsafe fn write_parts(
    found: Found,
    iov: *const Iovec,
    count: i32,
    flags: i32,
) -> Result<usize, i32> {
    // SAFETY: as above.
    unsafe {
        let parts = parts(iov, count as usize)?;
        // Of nothing at all, the kernel makes no call.
        match found.is_datagrams() && parts.iter().all(|part| part.len == 0) {
            true => Ok(0),
            false => found.transmit(parts, flags),
        }
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pwritev64v2(
    fd: i32,
    iov: *const Iovec,
    count: i32,
    offset: i64,
    flags: i32,
) -> Signed {
    traced!(n::PWRITEV2, [fd, iov.addr(), count, offset, flags], {
        // SAFETY: as above.
        unsafe {
            on_shared!(
                fd,
                found => flags_at(offset, flags)
                    .and_then(|flags| write_parts(found, iov, count, flags)),
                else system::pwritev64v2(fd, iov, count, offset, flags)
            )
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev2(
    fd: i32,
    iov: *const Iovec,
    count: i32,
    offset: i64,
    flags: i32,
) -> Signed {
    // SAFETY: as above.
    unsafe { pwritev64v2(fd, iov, count, offset, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: i32, from: *const u8, size: Size, flags: i32) -> Signed {
    traced!(n::SENDTO, [fd, from.addr(), size, flags], {
        // SAFETY: as above.
        unsafe {
            opens(fd, flags);
            on_shared!(
                fd,
                found => found.transmit(&one(from.cast_mut(), size), flags),
                else system::send(fd, from, size, flags)
            )
        }
    })
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
    traced!(
        n::SENDTO,
        [fd, from.addr(), size, flags, name.addr(), name_len],
        {
            // SAFETY: as above.
            unsafe {
                opens(fd, flags);
                share_datagrams(fd, name, name_len);
                on_shared!(
                    fd,
                    // A connection has its peer already.
                    found => if found.is_datagrams() && !name.is_null() {
                        found.destination(name, name_len).and_then(|to| {
                            let part = one(from.cast_mut(), size);
                            found.transmit_datagram(&part, flags, to, Wishes::default())
                        })
                    } else {
                        found.transmit(&one(from.cast_mut(), size), flags)
                    },
                    else system::sendto(fd, from, size, flags, name, name_len)
                )
            }
        }
    )
}

/// What is sent may open a connection of the kernel's (tcp(7)).
fn opens(fd: i32, flags: i32) {
    if flags & MSG_FASTOPEN != 0 {
        untouched::forget(fd);
    }
}

/// A socket of the kernel's that sends its first datagram, to another host, is ours from then on; one of ours that sends it to this
/// host, the kernel's.
unsafe fn share_datagrams(fd: i32, name: *const u8, len: u32) {
    // SAFETY: as above.
    unsafe {
        match find(fd) {
            Some(found) if found.stays_here(name, len) => unshare_fd(fd),
            None if is_told() && addresses::goes_out(name, len) && begun().is_some() => {
                let before = errno();
                datagrams::share(fd);
                set_errno(before);
            }
            _ => {}
        }
    }
}

/// The descriptors that a message passes to another process (unix(7)) are to be real sockets.
unsafe fn unshare_passed(message: &Message) {
    // SAFETY: as above.
    for (level, kind, at, len) in unsafe { control::pieces(message) } {
        for n in (0..len / 4).filter(|_| (level, kind) == (SOL_SOCKET, SCM_RIGHTS)) {
            // SAFETY: within the piece.
            let fd = unsafe { at.add(4 * n).cast::<i32>().read_unaligned() };
            untouched::forget(fd);
            unshare_fd(fd);
        }
    }
}

unsafe fn send_message(found: Found, message: &Message, flags: i32) -> Result<usize, i32> {
    // SAFETY: as above.
    unsafe {
        let parts = parts(message.iov, message.iov_len)?;
        if !found.is_datagrams() {
            if !control::is_known(message) {
                // Whether it can write at all is told first.
                found.transmit(&[], flags)?;
                return Err(EINVAL);
            }
            return found.transmit(parts, flags);
        }
        let to = match message.name.is_null() || message.name_len == 0 {
            true => None,
            false => found.destination(message.name, message.name_len)?,
        };
        // What a datagram began with is not asked for again.
        let wishes = match found.is_corked() {
            true => Wishes::default(),
            false => control::wishes(message, found.speaks_v6(to))?,
        };
        found.transmit_datagram(parts, flags, to, wishes)
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sendmsg(fd: i32, message: *const Message, flags: i32) -> Signed {
    traced!(n::SENDMSG, [fd, message.addr(), flags], {
        // SAFETY: as above.
        unsafe {
            opens(fd, flags);
            if !message.is_null() {
                share_datagrams(fd, (*message).name, (*message).name_len);
            }
            on_shared!(
                fd,
                found => send_message(found, &*message, flags),
                else {
                    if here().is_some() && !message.is_null() {
                        unshare_passed(&*message);
                    }
                    system::sendmsg(fd, message, flags)
                }
            )
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sendmmsg(
    fd: i32,
    messages: *mut ManyMessage,
    count: u32,
    flags: i32,
) -> i32 {
    traced!(n::SENDMMSG, [fd, messages.addr(), count, flags], {
        // SAFETY: as above.
        unsafe {
            opens(fd, flags);
            if count > 0 && !messages.is_null() {
                let first = &(*messages).message;
                share_datagrams(fd, first.name, first.name_len);
            }
            if find(fd).is_none() {
                if here().is_some() && !messages.is_null() {
                    for n in 0..count {
                        unshare_passed(&(*messages.add(n as usize)).message);
                    }
                }
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
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sendfile64(
    out: i32,
    from: i32,
    offset: *mut i64,
    size: Size,
) -> Signed {
    traced!(n::SENDFILE, [out, from, offset.addr(), size], {
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
    })
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
    traced!(
        n::SPLICE,
        [from, from_offset.addr(), to, to_offset.addr(), size, flags],
        {
            unshare_fd(from);
            unshare_fd(to);
            // SAFETY: as above.
            unsafe { system::splice(from, from_offset, to, to_offset, size, flags) }
        }
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: i32, mode: *const c_char) -> *mut c_void {
    // The C library's files read and write beneath us.
    unshare_fd(fd);
    untouched::forget(fd);
    // SAFETY: as above.
    unsafe { system::fdopen(fd, mode) }
}
