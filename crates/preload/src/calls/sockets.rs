//! Calls that open sockets and ask of them (accept(2), connect(2), getsockopt(2)).

use super::descriptors::close;
use super::*;
use crate::addresses::{address_at, family_of};
use crate::memory::state::{HAS_PORT, OVER, STANDS};
use crate::trace::number as n;

#[unsafe(no_mangle)]
unsafe extern "C" fn socket(family: i32, kind: i32, protocol: i32) -> i32 {
    traced!(n::SOCKET, [family, kind, protocol], {
        const KIND: i32 = 0xf;
        // SAFETY: always.
        let made = unsafe { system::socket(family, kind, protocol) };
        let is_ip = family == AF_INET || family == AF_INET6;
        if is_ip && made >= 0 {
            let is_here = begun().is_some_and(Here::is_here);
            // What had the number may have been closed beneath us.
            untouched::forget(made);
            match kind & KIND {
                SOCK_DGRAM if is_here => datagrams::made(made),
                SOCK_STREAM if is_here && [0, IPPROTO_TCP].contains(&protocol) => {
                    untouched::made(made, family == AF_INET6);
                }
                _ => {}
            }
        }
        made
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn accept4(
    fd: i32,
    name: *mut u8,
    name_len: *mut u32,
    flags: i32,
) -> i32 {
    traced!(n::ACCEPT4, [fd, name.addr(), name_len.addr(), flags], {
        // SAFETY: as above.
        unsafe {
            on_shared!(
                fd,
                found => found.accept(flags).and_then(|(fd, peer)| {
                    if let Err(number) = put_address(peer, name, name_len) {
                        close(fd);
                        return Err(number);
                    }
                    // One of the kernel's becomes that at once, and makes room for the next.
                    find(fd);
                    Ok(fd as usize)
                }),
                else system::accept4(fd, name, name_len, flags) as Signed
            ) as i32
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn accept(fd: i32, name: *mut u8, name_len: *mut u32) -> i32 {
    traced!(n::ACCEPT, [fd, name.addr(), name_len.addr()], {
        // SAFETY: as above.
        unsafe { accept4(fd, name, name_len, 0) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn connect(fd: i32, name: *const u8, name_len: u32) -> i32 {
    traced!(n::CONNECT, [fd, name.addr(), name_len], {
        let Some(found) = find(fd) else {
            // SAFETY: as above.
            return unsafe { connect_first(fd, name, name_len) };
        };
        if found.is_datagrams() {
            // SAFETY: as above.
            return unsafe { name_datagrams(found, system::number::CONNECT, fd, name, name_len) };
        }
        // SAFETY: as above.
        match unsafe { address_at(name, name_len) } {
            Err(number) => return done(Err(number)),
            Ok(address) if family_of(address) == AF_UNSPEC => return done(found.disconnect(fd)),
            Ok(_) => {}
        }
        if let Some(result) = connect_again(fd, found) {
            return done(result);
        }
        // SAFETY: as above.
        unsafe { await_connection(fd, found, name, name_len) }
    })
}

/// connect(2) of a socket that the kernel has, and that may be shared from then on.
///
/// # Safety
///
/// As for `connect`.
unsafe fn connect_first(fd: i32, name: *const u8, name_len: u32) -> i32 {
    begin_for(fd);
    let said = untouched::take(fd);
    // SAFETY: as above.
    let result = match may_share() {
        // SAFETY: as above.
        false => unsafe { system::connect(fd, name, name_len) },
        // SAFETY: as above.
        true => unsafe { ask_to_connect(fd, name, name_len, said) },
    };
    let number = errno();
    // SAFETY: the kernel has read it.
    if result == 0 && unsafe { addresses::is_unspecified(name, name_len) } {
        datagrams::kernels::has_disconnected();
    }
    move_in(fd);
    if result < 0
        && number != EINPROGRESS
        && let Some(found) = find(fd)
    {
        let _ = found.renew(fd, 0);
    }
    set_errno(number);
    result
}

/// What connect(2) says of a shared socket at once; `None` where its connection is being made, and the call waits for it.
fn connect_again(fd: i32, found: Found) -> Option<Result<(), i32>> {
    let socket = found.socket();
    Some(
        if socket.is(STANDS) && !socket.is(OVER) && socket.has(UNHEARD) {
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
        } else if socket.has(NONBLOCK) {
            Err(EALREADY)
        } else {
            return None;
        },
    )
}

/// Waits for a shared socket's connection, as long as the socket says, once more.
///
/// # Safety
///
/// As for `connect`.
unsafe fn await_connection(fd: i32, found: Found, name: *const u8, name_len: u32) -> i32 {
    // SAFETY: as above.
    let result = unsafe { ask_to_connect(fd, name, name_len, 0) };
    let number = errno();
    match result {
        0 => found.socket().set_option(UNHEARD, false),
        _ => drop(found.renew(fd, 0)),
    }
    set_errno(number);
    result
}

/// connect(2) by the other side, with what there is to say of the socket.
///
/// # Safety
///
/// As for `connect`.
unsafe fn ask_to_connect(fd: i32, name: *const u8, name_len: u32, said: u64) -> i32 {
    let words = [fd as usize, name.addr(), name_len as usize];
    // SAFETY: the caller's promise; the kernel looks at the first three arguments.
    unsafe { system::marked_with(number::CONNECT, words, said) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bind(fd: i32, name: *const u8, name_len: u32) -> i32 {
    traced!(n::BIND, [fd, name.addr(), name_len], {
        begin_for(fd);
        untouched::forget(fd);
        match (find(fd), here()) {
            (Some(found), _) if found.is_datagrams() && !found.socket().is(HAS_PORT) => {
                // SAFETY: as above.
                unsafe { name_datagrams(found, system::number::BIND, fd, name, name_len) }
            }
            (Some(found), _) => {
                // SAFETY: as above.
                let accepted = unsafe { found.accepts(name, name_len, true) };
                done(accepted.and(Err(EINVAL)))
            }
            // SAFETY: as above.
            (None, None) => unsafe { system::bind(fd, name, name_len) },
            (None, Some(_)) => {
                // SAFETY: as above; the kernel looks at the first three arguments.
                let result = unsafe {
                    system::marked(system::number::BIND, fd, name.addr(), name_len as usize)
                };
                move_in(fd);
                result
            }
        }
    })
}

/// A socket that another program has left to this one may be ours as soon as it has an address. The address is the kernel's to look at:
/// where a program has none, it says so.
fn begin_for(fd: i32) {
    if here().is_none() && is_told() && system::is_of_ip(fd) {
        begun();
    }
}

/// Has a socket for datagrams be bound or connected by the other side.
unsafe fn name_datagrams(found: Found, call: i64, fd: i32, name: *const u8, len: u32) -> i32 {
    // SAFETY: as above.
    unsafe {
        match found.accepts(name, len, call == system::number::BIND) {
            Ok(()) if found.stays_here(name, len) => {
                unshare_fd(fd);
                system::marked(call, fd, name.addr(), len as usize)
            }
            Ok(()) => system::marked_datagrams(call, fd, name.addr(), len as usize),
            error => done(error),
        }
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn listen(fd: i32, backlog: i32) -> i32 {
    traced!(n::LISTEN, [fd, backlog], {
        if let Some(found) = find(fd) {
            return done(found.listen());
        }
        untouched::forget(fd);
        // Its socket may have been bound by another program.
        begun();
        // SAFETY: as above.
        let result = match may_share() {
            // SAFETY: as above.
            false => unsafe { system::listen(fd, backlog) },
            // SAFETY: as above; the kernel looks at the first two arguments.
            true => unsafe { system::marked(number::LISTEN, fd, backlog as usize, 0) },
        };
        move_in(fd);
        result
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn shutdown(fd: i32, how: i32) -> i32 {
    traced!(n::SHUTDOWN, [fd, how], {
        datagrams::share_made(fd);
        untouched::forget(fd);
        match find(fd) {
            // SAFETY: as above.
            None => unsafe { system::shutdown(fd, how) },
            Some(found) if found.is_datagrams() => done(found.shut_datagrams(how)),
            Some(found) => done(match found.shut(how) {
                Err(ENOTCONN) => found.stop_connecting(fd),
                shut => shut,
            }),
        }
    })
}

unsafe fn name_of(found: Found, of_peer: bool, name: *mut u8, len: *mut u32) -> i32 {
    // SAFETY: as above.
    done(
        found
            .address(of_peer)
            .and_then(|address| unsafe { put_address(address, name, len) }),
    )
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn getsockname(fd: i32, name: *mut u8, len: *mut u32) -> i32 {
    traced!(n::GETSOCKNAME, [fd, name.addr(), len.addr()], {
        // SAFETY: as above.
        unsafe {
            match find(fd) {
                None => system::getsockname(fd, name, len),
                Some(found) => name_of(found, false, name, len),
            }
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn getpeername(fd: i32, name: *mut u8, len: *mut u32) -> i32 {
    traced!(n::GETPEERNAME, [fd, name.addr(), len.addr()], {
        // SAFETY: as above.
        unsafe {
            match find(fd) {
                None => system::getpeername(fd, name, len),
                Some(found) => name_of(found, true, name, len),
            }
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn getsockopt(
    fd: i32,
    level: i32,
    option: i32,
    value: *mut u8,
    len: *mut u32,
) -> i32 {
    traced!(
        n::GETSOCKOPT,
        [fd, level, option, value.addr(), len.addr()],
        {
            // SAFETY: as above.
            unsafe {
                match find(fd) {
                    None => system::getsockopt(fd, level, option, value, len),
                    Some(found) => done(found.get_option((level, option), value, len)),
                }
            }
        }
    )
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn setsockopt(
    fd: i32,
    level: i32,
    option: i32,
    value: *const u8,
    len: u32,
) -> i32 {
    traced!(n::SETSOCKOPT, [fd, level, option, value.addr(), len], {
        // SAFETY: as above.
        unsafe {
            let Some(found) = find(fd) else {
                untouched::forget(fd);
                return system::setsockopt(fd, level, option, value, len);
            };
            let value = match value.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(value, len as usize),
            };
            done(found.set_option((level, option), value))
        }
    })
}
