//! Calls that wait for many (epoll(7), poll(2), select(2)).

use std::time::Instant;

use super::*;
use crate::trace::number as n;
use crate::wait::until;

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn epoll_create1(flags: i32) -> i32 {
    let made = loop {
        // SAFETY: as above.
        let made = unsafe { system::epoll_create1(flags) };
        // Where the process that has the stack makes it, a signal may come before it has; the kernel knows no such error.
        if made >= 0 || system::errno() != EINTR {
            break made;
        }
    };
    if made >= 0 && begun().is_some_and(Here::is_here) {
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
pub(super) unsafe extern "C" fn epoll_ctl(
    set: i32,
    what: i32,
    fd: i32,
    event: *mut EpollEvent,
) -> i32 {
    traced!(n::EPOLL_CTL, [set, what, fd, event.addr()], {
        // SAFETY: as above.
        let event = (!event.is_null()).then(|| unsafe { event.read_unaligned() });
        done(change_set(set, what, fd, event))
    })
}

/// A time limit in milliseconds; a negative one is none.
fn limit(ms: i32) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

pub unsafe fn time(time: *const Timespec) -> Option<Duration> {
    // SAFETY: as above.
    let time = unsafe { time.as_ref()? };
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    Some(Duration::new(
        seconds,
        time.nanoseconds.clamp(0, 999_999_999) as u32,
    ))
}

/// Waits for a set in the library; `None` where the kernel is to.
///
/// # Safety
///
/// As for `epoll_pwait`.
#[inline]
unsafe fn wait_for_set(
    set: i32,
    (events, most): (*mut EpollEvent, i32),
    limit: Option<Duration>,
    mask: *const u8,
) -> Option<i32> {
    if most <= 0 || events.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let events = std::slice::from_raw_parts_mut(events, most as usize);
        epoll_wait::wait(set, events, limit, mask).map(number)
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn epoll_pwait(
    set: i32,
    events: *mut EpollEvent,
    most: i32,
    timeout: i32,
    mask: *const u8,
) -> i32 {
    traced!(
        n::EPOLL_PWAIT,
        [set, events.addr(), most, timeout, mask.addr()],
        {
            // SAFETY: as above.
            unsafe {
                let found = wait_for_set(set, (events, most), limit(timeout), mask);
                found.unwrap_or_else(|| system::epoll_pwait(set, events, most, timeout, mask))
            }
        }
    )
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn epoll_wait(
    set: i32,
    events: *mut EpollEvent,
    most: i32,
    timeout: i32,
) -> i32 {
    traced!(n::EPOLL_WAIT, [set, events.addr(), most, timeout], {
        // SAFETY: as above.
        unsafe { epoll_pwait(set, events, most, timeout, std::ptr::null()) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn epoll_pwait2(
    set: i32,
    events: *mut EpollEvent,
    most: i32,
    timeout: *const Timespec,
    mask: *const u8,
) -> i32 {
    traced!(
        n::EPOLL_PWAIT2,
        [set, events.addr(), most, timeout.addr(), mask.addr()],
        {
            // SAFETY: as above.
            unsafe {
                let limit = time(timeout);
                if let Some(found) = wait_for_set(set, (events, most), limit, mask) {
                    return found;
                }
                let ms = limit.map_or(-1, |limit| limit.as_nanos().div_ceil(1_000_000) as i32);
                system::epoll_pwait(set, events, most, ms, mask)
            }
        }
    )
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn ppoll(
    fds: *mut PollFd,
    count: u64,
    timeout: *const Timespec,
    mask: *const u8,
) -> i32 {
    traced!(
        n::PPOLL,
        [fds.addr(), count, timeout.addr(), mask.addr()],
        {
            // SAFETY: as above.
            unsafe {
                if here().is_some() && count > 0 && !fds.is_null() {
                    let all = std::slice::from_raw_parts_mut(fds, count as usize);
                    if let Some(result) = poll::poll(all, time(timeout), mask) {
                        return number(result);
                    }
                    if let Some(here) = here() {
                        here.let_go_for(time(timeout));
                    }
                }
                system::ppoll(fds, count, timeout, mask)
            }
        }
    )
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
pub(super) unsafe extern "C" fn poll(fds: *mut PollFd, count: u64, timeout: i32) -> i32 {
    traced!(n::POLL, [fds.addr(), count, timeout], {
        let limit = limit(timeout).map(|limit| Timespec {
            seconds: limit.as_secs() as i64,
            nanoseconds: limit.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: as above.
        unsafe { ppoll(fds, count, limit, std::ptr::null()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __poll_chk(fds: *mut PollFd, count: u64, timeout: i32, _room: Size) -> i32 {
    // SAFETY: as above.
    unsafe { poll(fds, count, timeout) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn select(
    count: i32,
    read: *mut u64,
    write: *mut u64,
    other: *mut u64,
    timeout: *mut [i64; 2],
) -> i32 {
    traced!(
        n::SELECT,
        [
            count,
            read.addr(),
            write.addr(),
            other.addr(),
            timeout.addr()
        ],
        {
            // SAFETY: as above.
            unsafe {
                let limit = timeout.as_ref().map(|[seconds, micros]| {
                    let seconds = Duration::from_secs(u64::try_from(*seconds).unwrap_or(0));
                    seconds + Duration::from_micros(u64::try_from(*micros).unwrap_or(0))
                });
                let until = until(limit);
                match poll::select(count, [read, write, other], limit, std::ptr::null()) {
                    Some(result) => {
                        if let (Some(until), false) = (until, timeout.is_null()) {
                            let left = until.saturating_duration_since(Instant::now());
                            *timeout = [left.as_secs() as i64, left.subsec_micros().into()];
                        }
                        number(result)
                    }
                    None => system::select(count, read, write, other, timeout),
                }
            }
        }
    )
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pselect(
    count: i32,
    read: *mut u64,
    write: *mut u64,
    other: *mut u64,
    timeout: *const Timespec,
    mask: *const u8,
) -> i32 {
    traced!(
        n::PSELECT6,
        [
            count,
            read.addr(),
            write.addr(),
            other.addr(),
            timeout.addr(),
            mask.addr()
        ],
        {
            // SAFETY: as above.
            unsafe {
                match poll::select(count, [read, write, other], time(timeout), mask) {
                    Some(result) => number(result),
                    None => system::pselect(count, read, write, other, timeout, mask),
                }
            }
        }
    )
}
