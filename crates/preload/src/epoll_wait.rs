//! Waiting for an epoll set with shared sockets in it (epoll_wait(2)).

use std::time::{Duration, Instant};

use crate::epoll::{self, with_set};
use crate::process::here;
use crate::set::OURS;
use crate::sharing::unshare_fd;
use crate::system::{self, EpollEvent};
use crate::wait::until;

/// epoll_pwait(2), with a time limit; `None` in a process without shared sockets.
///
/// # Safety
///
/// `mask` is a signal mask or null.
pub unsafe fn wait(
    fd: i32,
    events: &mut [EpollEvent],
    timeout: Option<Duration>,
    mask: *const u8,
) -> Option<Result<usize, i32>> {
    /// Of fewer events than this, those of one side could be all.
    const FEW: usize = 4;
    let here = here()?;
    let until = until(timeout);
    let mut lost = Vec::new();
    loop {
        let waker = match epoll::waker_to_wait(here, fd) {
            Ok(waker) => waker,
            Err(number) => return Some(Err(number)),
        };
        if waker.is_none() {
            // It has none, so far.
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            here.let_go();
            // SAFETY: the caller's promise.
            let got = unsafe { kernel(fd, events, milliseconds(left), mask) };
            epoll::waited_alone(here, fd);
            match got {
                Ok((0, true)) => continue,
                Ok((_, true)) => {
                    with_set(fd, |set| set.pass_on(here));
                }
                _ => {}
            }
            return Some(got.map(|(count, _)| count));
        }
        let all = events.len();
        // The kernel's descriptors have room in each answer.
        let ours = if all < FEW { all } else { all - all / FEW };
        let mut count = epoll::collect(here, fd, &mut events[..ours], all < FEW, &mut lost);
        // SAFETY: the caller's promise.
        match unsafe { kernel(fd, &mut events[count..], 0, mask) } {
            Ok((more, woken)) => {
                if woken {
                    // What was meant for one that sleeps.
                    with_set(fd, |set| set.hear(here));
                }
                if more > 0 {
                    count = epoll::without_doubles(fd, &mut events[..count + more], count);
                }
            }
            Err(number) if count == 0 => return Some(Err(number)),
            Err(_) => {}
        }
        if count == 0 {
            count = epoll::collect(here, fd, events, false, &mut lost);
        }
        if !lost.is_empty() {
            // The kernel tells of them from now on.
            lost.drain(..).for_each(unshare_fd);
            if count == 0 {
                continue;
            }
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if count > 0 || left == Some(Duration::ZERO) {
            if count == 0 {
                here.let_go();
            } else {
                with_set(fd, |set| set.pass_on(here));
            }
            return Some(Ok(count));
        }
        let waker = epoll::lie_down(here, fd, &mut lost);
        // What is there already keeps it awake.
        let slept = waker.is_none_or(|(_, may_sleep)| may_sleep).then(|| {
            here.let_go();
            // SAFETY: the caller's promise.
            unsafe { kernel(fd, events, milliseconds(left), mask) }
        });
        if let Some((watcher, _)) = waker {
            watcher.get_up();
        }
        match slept {
            Some(Ok((count @ 1.., _))) => {
                with_set(fd, |set| set.pass_on(here));
                return Some(Ok(epoll::without_doubles(fd, &mut events[..count], 0)));
            }
            Some(Err(number)) => return Some(Err(number)),
            _ => {}
        }
    }
}

/// A time limit as the kernel has it: never shorter, and none is -1.
fn milliseconds(time: Option<Duration>) -> i32 {
    time.map_or(-1, |time| {
        let ms = time.as_nanos().div_ceil(1_000_000);
        ms.min(i32::MAX as u128) as i32
    })
}

/// What is ready of the kernel's, and whether we were woken: our own descriptor is not told.
unsafe fn kernel(
    fd: i32,
    events: &mut [EpollEvent],
    timeout: i32,
    mask: *const u8,
) -> Result<(usize, bool), i32> {
    if events.is_empty() {
        return Ok((0, false));
    }
    let most = events.len().min(i32::MAX as usize) as i32;
    // SAFETY: there is room for as many events; the mask is the caller's promise.
    let got = unsafe { system::epoll_pwait(fd, events.as_mut_ptr(), most, timeout, mask) };
    let mut count = usize::try_from(got).map_err(|_| system::errno())?;
    let mut woken = false;
    // A set that was made before a fork has those of both processes.
    while let Some(at) = events[..count].iter().position(|event| event.data == OURS) {
        count -= 1;
        events.swap(at, count);
        woken = true;
    }
    Ok((count, woken))
}
