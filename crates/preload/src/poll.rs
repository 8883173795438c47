//! poll(2) and select(2) with shared sockets among their descriptors.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::epoll;
use crate::process::{AGAIN, Found, Here, here};
use crate::set::readiness;
use crate::sharing::{find, unshare_fd};
use crate::system::{self, ERR, HUP, IN, PollFd, Timespec};
use crate::wait::until;
use crate::waker::Waker;

/// The thread's.
struct Own(&'static Here, Waker);

impl Drop for Own {
    fn drop(&mut self) {
        if self.1.pid == self.0.pid() {
            self.1.leave(self.0);
        }
    }
}

thread_local! {
    static WAKER: RefCell<Option<Own>> = const { RefCell::new(None) };
}

fn waker(here: &'static Here) -> Result<Waker, i32> {
    WAKER.with_borrow_mut(|own| {
        // One that was made before a fork is the parent's.
        if let Some(Own(_, waker)) = own.as_ref().filter(|own| own.1.pid == here.pid()) {
            return Ok(*waker);
        }
        let waker = Waker::new(here)?;
        *own = Some(Own(here, waker));
        Ok(waker)
    })
}

/// Looks at the shared ones; gives how many are ready.
fn look(fds: &mut [PollFd], ours: &[(usize, Found)]) -> usize {
    let mut count = 0;
    for &(at, found) in ours {
        let fd = &mut fds[at];
        let wanted = u32::from(fd.events as u16);
        fd.revents = (readiness(found, wanted) & (wanted | ERR | HUP)) as i16;
        count += usize::from(fd.revents != 0);
    }
    count
}

/// What a set is ready for by its sockets.
fn set_readiness(here: &'static Here, fd: i32, wanted: i16) -> i16 {
    let mut lost = Vec::new();
    let ready = epoll::readiness(here, fd, u32::from(wanted as u16), &mut lost);
    // The kernel tells of them from now on.
    lost.into_iter().for_each(unshare_fd);
    ready as i16
}

/// ppoll(2); `None` where no descriptor is a shared socket, or a set with one in it.
///
/// # Safety
///
/// `mask` is a signal mask or null.
pub unsafe fn poll(
    fds: &mut [PollFd],
    timeout: Option<Duration>,
    mask: *const u8,
) -> Option<Result<usize, i32>> {
    let here = here()?;
    let all = fds.iter().enumerate();
    let ours: Vec<(usize, Found)> = all
        .filter_map(|(at, fd)| Some((at, find(fd.fd)?)))
        .collect();
    let sets = epoll::among(fds, timeout != Some(Duration::ZERO));
    if ours.is_empty() && sets.is_empty() {
        return None;
    }
    // The kernel is asked of the others, and of what wakes us.
    let mut kernel: Vec<PollFd> = fds.to_vec();
    for (at, _) in &ours {
        kernel[*at].fd = -1;
    }
    let until = until(timeout);
    // SAFETY: the caller's promise.
    let ask = |kernel: &mut Vec<PollFd>, left: Option<Duration>| unsafe {
        let left = left.map(|left| Timespec {
            seconds: left.as_secs() as i64,
            nanoseconds: left.subsec_nanos().into(),
        });
        let left = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let got = system::ppoll(kernel.as_mut_ptr(), kernel.len() as u64, left, mask);
        usize::try_from(got).map_err(|_| system::errno())
    };
    let answer = |fds: &mut [PollFd], kernel: &mut Vec<PollFd>| {
        let mut ready = look(fds, &ours);
        let others = ask(kernel, Some(Duration::ZERO))?;
        for (fd, asked) in fds.iter_mut().zip(kernel.iter()) {
            match asked.fd {
                0.. => fd.revents = asked.revents,
                _ if fd.fd < 0 => fd.revents = 0,
                _ => {}
            }
        }
        for &(at, fd) in &sets {
            let told = set_readiness(here, fd, fds[at].events);
            ready += usize::from(fds[at].revents == 0 && told != 0);
            fds[at].revents |= told;
        }
        Ok::<_, i32>(ready + others)
    };
    let first = answer(fds, &mut kernel);
    if first != Ok(0) || timeout == Some(Duration::ZERO) {
        if first == Ok(0) {
            here.let_go();
        }
        return Some(first);
    }
    let waker = match waker(here) {
        Ok(waker) => waker,
        Err(number) => return Some(Err(number)),
    };
    let number = waker.watcher;
    let watcher = here.shared.watcher(number);
    for (_, found) in &ours {
        here.shared.watch(found.number, number, true);
    }
    let result = loop {
        watcher.lie_down();
        // Behind that: what comes into a set from now on wakes it.
        sets.iter()
            .for_each(|(_, fd)| epoll::watch(here, *fd, waker, true));
        let is_ready = |(at, fd): &&(usize, i32)| set_readiness(here, *fd, fds[*at].events) != 0;
        let ready_sets = sets.iter().filter(is_ready).count();
        let count = look(fds, &ours) + ready_sets;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let mut slept = Ok(count);
        if count == 0 {
            here.let_go();
            kernel.push(PollFd {
                fd: waker.fd,
                events: IN as i16,
                revents: 0,
            });
            slept = ask(&mut kernel, left);
            kernel.pop();
        }
        watcher.get_up();
        if slept.is_err() {
            break slept;
        }
        watcher.news.drain(|_| {});
        // SAFETY: room for a count.
        unsafe { system::read(waker.fd, [0_u8; 8].as_mut_ptr(), 8) };
        if ours.iter().any(|(_, found)| found.check().is_err()) {
            // One of them is shared no more, or closed: the descriptors are looked at again.
            break Err(AGAIN);
        }
        let answer = answer(fds, &mut kernel);
        if answer != Ok(0) || left == Some(Duration::ZERO) {
            break answer;
        }
    };
    sets.iter()
        .for_each(|(_, fd)| epoll::watch(here, *fd, waker, false));
    for (_, found) in &ours {
        if !found.is_stale() {
            here.shared.watch(found.number, number, false);
        }
    }
    if result == Err(AGAIN) {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // SAFETY: the caller's promise.
        return unsafe { poll(fds, left, mask) }.or_else(|| {
            let mut kernel = fds.to_vec();
            let asked = ask(&mut kernel, left);
            fds.copy_from_slice(&kernel);
            Some(asked)
        });
    }
    Some(result)
}

/// select(2) by way of [`poll`]; `None` where no descriptor is a shared socket. The sets are changed to what is ready.
///
/// # Safety
///
/// The sets have room for `count` bits, or are null; `mask` is a signal mask or null.
pub unsafe fn select(
    count: i32,
    sets: [*mut u64; 3],
    timeout: Option<Duration>,
    mask: *const u8,
) -> Option<Result<usize, i32>> {
    const WANTED: [u32; 3] = [IN, system::OUT, 2];
    const TOLD: [u32; 3] = [IN | HUP | ERR, system::OUT | ERR, 2];
    here()?;
    let has = |set: *mut u64, fd: i32| {
        // SAFETY: the caller's promise.
        !set.is_null() && unsafe { *set.add(fd as usize / 64) } & (1 << (fd % 64)) != 0
    };
    let mut fds: Vec<PollFd> = Vec::new();
    for fd in 0..count {
        let wanted = (0..3).filter(|&which| has(sets[which], fd));
        let events = wanted.fold(0, |events, which| events | WANTED[which]);
        if events != 0 {
            fds.push(PollFd {
                fd,
                events: events as i16,
                revents: 0,
            });
        }
    }
    // SAFETY: the caller's promise.
    let polled = unsafe { poll(&mut fds, timeout, mask)? };
    const NVAL: i16 = 0x20;
    if fds.iter().any(|fd| fd.revents & NVAL != 0) {
        return Some(Err(system::EBADF));
    }
    Some(polled.map(|_| {
        for set in sets.into_iter().filter(|set| !set.is_null()) {
            for word in 0..(count as usize).div_ceil(64) {
                // SAFETY: the caller's promise.
                unsafe { *set.add(word) = 0 };
            }
        }
        let mut told = 0;
        for fd in &fds {
            for which in 0..3 {
                let wanted = u32::from(fd.events as u16) & WANTED[which] != 0;
                if wanted && u32::from(fd.revents as u16) & TOLD[which] != 0 {
                    let bit = 1 << (fd.fd % 64);
                    // SAFETY: the caller's promise.
                    unsafe { *sets[which].add(fd.fd as usize / 64) |= bit };
                    told += 1;
                }
            }
        }
        told
    }))
}
