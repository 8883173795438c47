//! poll(2) and select(2) with shared sockets among their descriptors.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use crate::epoll;
use crate::epoll::set::readiness;
use crate::process::{AGAIN, Found, Here, here};
use crate::sharing::{find, unshare_fd, unshare_in};
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
    /// The kernel had something to say when it was asked last, and is asked before going to sleep: a thread whose pipe has more and more
    /// does not wait for what it writes to a socket meanwhile.
    static KERNEL_FIRST: Cell<bool> = const { Cell::new(false) };
}

fn waker(here: &'static Here) -> Option<Waker> {
    WAKER.with_borrow_mut(|own| {
        // One that was made before a fork is the parent's.
        if let Some(Own(_, waker)) = own.as_ref().filter(|own| own.1.pid == here.pid()) {
            return Some(*waker);
        }
        let waker = Waker::new(here).ok()?;
        *own = Some(Own(here, waker));
        Some(waker)
    })
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
    // The kernel, which is not asked where one is ready, would have done this.
    // SAFETY: nothing is locked or made yet.
    unsafe { system::pthread_testcancel() };
    let mut call = Call::new(fds, timeout, mask)?;
    let is_over = timeout == Some(Duration::ZERO);
    // Otherwise the kernel is asked by going to sleep.
    if is_over || KERNEL_FIRST.get() || call.look_at_shared() > 0 {
        let ready = call.look();
        if ready == Ok(0) && is_over {
            call.here.looked_in_vain();
        }
        if ready != Ok(0) || is_over {
            return Some(ready);
        }
    }
    let Some(waker) = waker(call.here) else {
        call.unshare();
        let left = call.left();
        // SAFETY: the caller's promise.
        return Some(unsafe { kernel(fds, left, mask) });
    };
    call.watch_ours(waker, true);
    let waited = call.wait(waker);
    call.watch_sets(waker, false);
    call.watch_ours(waker, false);
    if waited != Err(AGAIN) {
        return Some(waited);
    }
    let left = call.left();
    // SAFETY: the caller's promise.
    unsafe { poll(fds, left, mask).or_else(|| Some(kernel(fds, left, mask))) }
}

/// How a sleep has ended: what the kernel has said is known by then.
#[derive(PartialEq)]
enum Slept {
    Woken,
    /// The time is over.
    Over,
}

/// A call that has to do with shared sockets.
struct Call<'a> {
    here: &'static Here,
    fds: &'a mut [PollFd],
    /// The shared sockets among them, by their places.
    ours: Vec<(usize, Found)>,
    /// The sets with shared sockets in them.
    sets: Vec<(usize, i32)>,
    /// What the kernel is asked: the others, and the sets.
    kernel: Vec<PollFd>,
    until: Option<Instant>,
    /// A signal mask or null.
    mask: *const u8,
}

impl<'a> Call<'a> {
    fn new(fds: &'a mut [PollFd], timeout: Option<Duration>, mask: *const u8) -> Option<Self> {
        let here = here()?;
        let all = fds.iter().enumerate();
        let ours: Vec<(usize, Found)> = all
            .filter_map(|(at, fd)| Some((at, find(fd.fd)?)))
            .collect();
        let sets = epoll::among(fds, timeout != Some(Duration::ZERO));
        if ours.is_empty() && sets.is_empty() {
            return None;
        }
        let mut kernel = fds.to_vec();
        for (at, _) in &ours {
            kernel[*at].fd = -1;
        }
        Some(Self {
            here,
            fds,
            ours,
            sets,
            kernel,
            until: until(timeout),
            mask,
        })
    }

    fn left(&self) -> Option<Duration> {
        let until = self.until?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Looks at all; how many are ready. The kernel is not asked where it has nothing to say.
    fn look(&mut self) -> Result<usize, i32> {
        if !self.mask.is_null() || self.kernel.iter().any(|asked| asked.fd >= 0) {
            // SAFETY: the mask is one or null.
            unsafe { kernel(&mut self.kernel, Some(Duration::ZERO), self.mask)? };
        }
        Ok(self.look_again())
    }

    /// As above, with what the kernel has just said.
    fn look_again(&mut self) -> usize {
        let mut kernels = 0;
        for (fd, asked) in self.fds.iter_mut().zip(&self.kernel) {
            match asked.fd {
                0.. => {
                    fd.revents = asked.revents;
                    kernels += usize::from(asked.revents != 0);
                }
                _ if fd.fd < 0 => fd.revents = 0,
                _ => {}
            }
        }
        KERNEL_FIRST.set(kernels > 0);
        let mut ready = kernels + self.look_at_ours();
        for &(at, fd) in &self.sets {
            let told = set_readiness(self.here, fd, self.fds[at].events);
            ready += usize::from(self.fds[at].revents == 0 && told != 0);
            self.fds[at].revents |= told;
        }
        ready
    }

    /// How many are ready of shared sockets, and of sets by theirs.
    fn look_at_shared(&mut self) -> usize {
        let is_ready =
            |&&(at, fd): &&(usize, i32)| set_readiness(self.here, fd, self.fds[at].events) != 0;
        let sets = self.sets.iter().filter(is_ready).count();
        sets + self.look_at_ours()
    }

    fn look_at_ours(&mut self) -> usize {
        let mut count = 0;
        for &(at, found) in &self.ours {
            let fd = &mut self.fds[at];
            let wanted = u32::from(fd.events as u16);
            fd.revents = (readiness(found, wanted) & (wanted | ERR | HUP)) as i16;
            count += usize::from(fd.revents != 0);
        }
        count
    }

    /// Sleeps and looks until some are ready, or the time is over.
    ///
    /// # Errors
    ///
    /// [`AGAIN`] where one of them is shared no more, or closed: the descriptors have to be looked at again.
    fn wait(&mut self, waker: Waker) -> Result<usize, i32> {
        let watcher = self.here.shared.watcher(waker.watcher);
        loop {
            watcher.lie_down();
            // Behind that: what comes into a set from now on wakes it.
            self.watch_sets(waker, true);
            let slept = match self.look_at_shared() {
                0 => Some(self.sleep(waker)),
                _ => None,
            };
            watcher.get_up();
            let slept = slept.transpose()?;
            watcher.news.drain(|_| {});
            if self.ours.iter().any(|(_, found)| found.check().is_err()) {
                return Err(AGAIN);
            }
            let ready = match slept {
                Some(_) => self.look_again(),
                None => self.look()?,
            };
            if ready > 0 || slept == Some(Slept::Over) {
                return Ok(ready);
            }
        }
    }

    /// Without a watcher: all of them are the kernel's from now on.
    fn unshare(&self) {
        for (at, _) in &self.ours {
            unshare_fd(self.fds[*at].fd);
        }
        for (_, fd) in &self.sets {
            unshare_in(*fd);
        }
        self.here.let_go();
    }

    /// Until the kernel has something to say, or what is shared wakes this thread, or the time is over.
    fn sleep(&mut self, waker: Waker) -> Result<Slept, i32> {
        self.here.let_go();
        self.kernel.push(PollFd {
            fd: waker.fd,
            events: IN as i16,
            revents: 0,
        });
        let left = self.left();
        // SAFETY: the mask is one or null.
        let slept = unsafe { kernel(&mut self.kernel, left, self.mask) };
        let woken = self.kernel.pop().is_some_and(|ours| ours.revents != 0);
        if woken && slept.is_ok() {
            // SAFETY: room for a count.
            unsafe { system::read(waker.fd, [0_u8; 8].as_mut_ptr(), 8) };
        }
        slept.map(|count| match count {
            0 => Slept::Over,
            _ => Slept::Woken,
        })
    }

    fn watch_sets(&self, waker: Waker, on: bool) {
        for (_, fd) in &self.sets {
            epoll::watch(self.here, *fd, waker, on);
        }
    }

    fn watch_ours(&self, waker: Waker, on: bool) {
        for (_, found) in self.ours.iter().filter(|(_, ours)| on || !ours.is_stale()) {
            self.here.shared.watch(found.number, waker.watcher, on);
        }
    }
}

/// What a set is ready for by its sockets.
fn set_readiness(here: &'static Here, fd: i32, wanted: i16) -> i16 {
    let mut lost = Vec::new();
    let ready = epoll::readiness(here, fd, u32::from(wanted as u16), &mut lost);
    // The kernel tells of them from now on.
    lost.into_iter().for_each(unshare_fd);
    ready as i16
}

/// The kernel's own ppoll(2).
unsafe fn kernel(
    fds: &mut [PollFd],
    left: Option<Duration>,
    mask: *const u8,
) -> Result<usize, i32> {
    let left = left.map(|left| Timespec {
        seconds: left.as_secs() as i64,
        nanoseconds: left.subsec_nanos().into(),
    });
    let left = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the descriptors are a slice; the mask is the caller's promise.
    let got = unsafe { system::ppoll(fds.as_mut_ptr(), fds.len() as u64, left, mask) };
    usize::try_from(got).map_err(|_| system::errno())
}

/// Of each set of select(2), what is wanted of its descriptors, and what puts one into it (poll(2)): what can be read, what can be
/// written, what is out of the ordinary.
const WANTED: [u32; 3] = [IN, system::OUT, 2];
const TOLD: [u32; 3] = [IN | HUP | ERR, system::OUT | ERR, 2];

/// It is no descriptor (poll(2)).
const NVAL: i16 = 0x20;

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
    here()?;
    let has = |set: *mut u64, fd: i32| {
        // SAFETY: the caller's promise.
        !set.is_null() && unsafe { *set.add(fd as usize / 64) } & (1 << (fd % 64)) != 0
    };
    let wanted = |fd: i32| {
        let wanted = (0..3).filter(|&which| has(sets[which], fd));
        let events = wanted.fold(0, |events, which| events | WANTED[which]) as i16;
        (events != 0).then_some(PollFd {
            fd,
            events,
            revents: 0,
        })
    };
    let mut fds: Vec<PollFd> = (0..count).filter_map(wanted).collect();
    // SAFETY: the caller's promise.
    let polled = unsafe { poll(&mut fds, timeout, mask)? };
    if fds.iter().any(|fd| fd.revents & NVAL != 0) {
        return Some(Err(system::EBADF));
    }
    // SAFETY: the caller's promise; the descriptors are below its count.
    Some(polled.map(|_| unsafe { tell(&fds, count, sets) }))
}

/// Leaves in the sets of select(2) what is ready; how many that are.
unsafe fn tell(fds: &[PollFd], count: i32, sets: [*mut u64; 3]) -> usize {
    for set in sets.into_iter().filter(|set| !set.is_null()) {
        for word in 0..(count as usize).div_ceil(64) {
            // SAFETY: there is room for `count` bits.
            unsafe { *set.add(word) = 0 };
        }
    }
    let mut told = 0;
    for fd in fds {
        for which in 0..3 {
            let wanted = u32::from(fd.events as u16) & WANTED[which] != 0;
            if wanted && u32::from(fd.revents as u16) & TOLD[which] != 0 {
                let bit = 1 << (fd.fd % 64);
                // SAFETY: there is room for `count` bits, and it was asked for in this set, so that there is one.
                unsafe { *sets[which].add(fd.fd as usize / 64) |= bit };
                told += 1;
            }
        }
    }
    told
}
