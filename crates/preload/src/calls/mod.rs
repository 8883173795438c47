//! The functions that take the place of the C library's, each with its arguments (POSIX, and the manual's section 2). For what is no
//! shared socket they call the one beneath.

/// Makes a call on a shared socket; again on what is in its place, when it is shared no more.
macro_rules! on_shared {
    ($fd:expr, $found:ident => $shared:expr, else $kernel:expr) => {
        loop {
            let Some($found) = find($fd) else {
                break $kernel;
            };
            match $shared {
                Err(AGAIN) => {}
                result => {
                    $found.socket().calls.fetch_add(1, Ordering::Relaxed);
                    break answer(result);
                }
            }
        }
    };
}

mod credentials;
mod descriptors;
mod forking;
mod formatting;
mod limits;
mod locking;
mod numbered;
mod own_addresses;
mod printing;
mod reading;
mod signals;
mod sockets;
mod waiting;
mod writing;

use std::ffi::{c_char, c_void};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::memory::options::{NONBLOCK, UNHEARD};
use crate::options::interfaces;
use crate::process::{AGAIN, Found, Here, here};
use crate::sharing::{change_set, find, forget, may_share, move_in, unshare_fd, untouched};
use crate::sockets::put_address;
use crate::start::{begun, is_told};
use crate::system::*;
use crate::{addresses, control, datagrams, epoll, epoll_wait, poll, system};

use printing::traced;

/// The stretches of memory of a vectored call.
unsafe fn parts<'a>(iov: *const Iovec, count: usize) -> Result<&'a [Iovec], i32> {
    const MOST: usize = 1024;
    match count {
        0 => Ok(&[]),
        1..=MOST if !iov.is_null() => {
            // SAFETY: the program says that there are this many.
            Ok(unsafe { std::slice::from_raw_parts(iov, count) })
        }
        1..=MOST => Err(EFAULT),
        _ => Err(EINVAL),
    }
}

/// What a socket makes of the place and the flags of preadv2(2): one that reads and writes where it is, with these flags of recv(2).
fn flags_at(offset: i64, flags: i32) -> Result<i32, i32> {
    match offset {
        -1 => {}
        0.. => return Err(ESPIPE),
        _ => return Err(EINVAL),
    }
    if flags & !RWF_OF_SOCKETS != 0 {
        return Err(EOPNOTSUPP);
    }
    if flags & RWF_APPEND != 0 && flags & RWF_NOAPPEND != 0 {
        return Err(EINVAL);
    }
    let has = |bit, flag| if flags & bit != 0 { flag } else { 0 };
    Ok(has(RWF_NOWAIT, MSG_DONTWAIT) | has(RWF_NOSIGNAL, MSG_NOSIGNAL))
}

fn one(base: *mut u8, len: usize) -> [Iovec; 1] {
    [Iovec { base, len }]
}

/// An answer that is a number or an error.
fn number(result: Result<usize, i32>) -> i32 {
    answer(result) as i32
}

fn done(result: Result<(), i32>) -> i32 {
    number(result.map(|()| 0))
}
