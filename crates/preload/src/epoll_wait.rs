//! Waiting for an epoll set with shared sockets in it (epoll_wait(2)).

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::epoll::set::OURS;
use crate::epoll::{self, Teller, with_set};
use crate::process::{Here, NO_WATCHER, here};
use crate::sharing::{unshare_fd, unshare_in};
use crate::system::{self, EpollEvent};

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
    let call = Call {
        here: here()?,
        fd,
        timeout,
        until: Cell::new(None),
        mask,
    };
    let (mut lost, mut was_woken) = (Vec::new(), false);
    loop {
        let turn = call.turn(events, &mut lost, &mut was_woken);
        if let Some(result) = turn.transpose() {
            return Some(result);
        }
    }
}

/// A call. Its steps give how many events there are for the program; `None` where it is to begin again.
struct Call {
    here: &'static Here,
    fd: i32,
    timeout: Option<Duration>,
    /// The end of its time, once it has slept: the clock is not asked before.
    until: Cell<Option<Instant>>,
    /// A signal mask or null.
    mask: *const u8,
}

impl Call {
    /// What is left of its time, which begins when this is asked first.
    fn left(&self) -> Option<Duration> {
        let timeout = self.timeout.filter(|timeout| !timeout.is_zero());
        if let (Some(timeout), None) = (timeout, self.until.get()) {
            // Longer than time there is none.
            self.until.set(Instant::now().checked_add(timeout));
            return Some(timeout);
        }
        let until = self.until.get();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        left.or(self.timeout)
    }

    fn is_over(&self) -> bool {
        match self.until.get() {
            None => self.timeout == Some(Duration::ZERO),
            Some(until) => until <= Instant::now(),
        }
    }

    /// Takes what is there, or sleeps until something is. `lost` are descriptors that are not shared any more; `was_woken` says that it has
    /// slept, and nothing was ready but what it was woken for.
    fn turn(
        &self,
        events: &mut [EpollEvent],
        lost: &mut Vec<i32>,
        was_woken: &mut bool,
    ) -> Result<Option<usize>, i32> {
        let teller = match epoll::teller(self.here, self.fd) {
            Err(NO_WATCHER) => {
                unshare_in(self.fd);
                Teller::Kernel
            }
            teller => teller?,
        };
        if teller == Teller::Kernel {
            return self.wait_alone(events);
        }
        // Looked at once: who is told that nothing came has had the kernel asked, too.
        let is_over = self.is_over();
        let mut count = 0;
        if teller == Teller::Library {
            count = epoll::collect(self.here, self.fd, events, false, lost);
        }
        if count == 0 && (teller == Teller::Both || is_over) {
            count = self.collect_of_both(events, lost, std::mem::take(was_woken), is_over)?;
        }
        if !lost.is_empty() {
            // The kernel tells of them from now on.
            lost.drain(..).for_each(unshare_fd);
            if count == 0 {
                return Ok(None);
            }
        }
        if count > 0 {
            with_set(self.fd, |set| set.pass_on(self.here));
            return Ok(Some(count));
        }
        if is_over {
            self.here.looked_in_vain();
            return Ok(Some(0));
        }
        self.sleep(events, lost, was_woken)
    }

    /// The set has no shared socket, so far.
    fn wait_alone(&self, events: &mut [EpollEvent]) -> Result<Option<usize>, i32> {
        let left = self.left();
        self.here.let_go_for(left);
        let got = self.kernel(events, left);
        epoll::waited_alone(self.here, self.fd);
        let (count, woken) = got?;
        if woken && count == 0 {
            return Ok(None);
        }
        if woken {
            with_set(self.fd, |set| set.pass_on(self.here));
        }
        Ok(Some(count))
    }

    /// What is there of shared sockets and of the kernel's descriptors. The kernel is not asked where it just was, or where it will be by
    /// going to sleep.
    fn collect_of_both(
        &self,
        events: &mut [EpollEvent],
        lost: &mut Vec<i32>,
        was_woken: bool,
        is_over: bool,
    ) -> Result<usize, i32> {
        /// Of fewer events than this, those of one side could be all.
        const FEW: usize = 4;
        let (here, fd, all) = (self.here, self.fd, events.len());
        // The kernel's descriptors have room in each answer.
        let ours = if all < FEW { all } else { all - all / FEW };
        let mut count = epoll::collect(here, fd, &mut events[..ours], all < FEW, lost);
        let sleeps = count == 0 && !is_over;
        if all >= FEW && (was_woken || sleeps) {
            return Ok(count);
        }
        match self.kernel(&mut events[count..], Some(Duration::ZERO)) {
            Ok((more, woken)) => {
                if woken {
                    // What was meant for one that sleeps.
                    with_set(fd, |set| set.hear(here));
                }
                if more > 0 {
                    count = epoll::without_doubles(fd, &mut events[..count + more], count);
                }
            }
            Err(number) if count == 0 => return Err(number),
            Err(_) => {}
        }
        if count == 0 {
            count = epoll::collect(here, fd, events, false, lost);
        }
        Ok(count)
    }

    fn sleep(
        &self,
        events: &mut [EpollEvent],
        lost: &mut Vec<i32>,
        was_woken: &mut bool,
    ) -> Result<Option<usize>, i32> {
        let waker = epoll::lie_down(self.here, self.fd, lost);
        // What is there already keeps it awake.
        let may_sleep = waker.is_none_or(|(_, may_sleep)| may_sleep);
        let slept = may_sleep.then(|| {
            self.here.let_go();
            self.kernel(events, self.left())
        });
        if let Some((watcher, _)) = waker {
            watcher.get_up();
        }
        let (count, woken) = slept.transpose()?.unwrap_or_default();
        if count == 0 {
            *was_woken = woken;
            return Ok(None);
        }
        with_set(self.fd, |set| set.pass_on(self.here));
        Ok(Some(epoll::without_doubles(
            self.fd,
            &mut events[..count],
            0,
        )))
    }

    /// What is ready of the kernel's, and whether we were woken: our own descriptor is not told.
    fn kernel(
        &self,
        events: &mut [EpollEvent],
        left: Option<Duration>,
    ) -> Result<(usize, bool), i32> {
        if events.is_empty() {
            return Ok((0, false));
        }
        let most = events.len().min(i32::MAX as usize) as i32;
        let (at, left) = (events.as_mut_ptr(), milliseconds(left));
        // SAFETY: there is room for as many events; the mask is one or null.
        let got = unsafe { system::epoll_pwait(self.fd, at, most, left, self.mask) };
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
}

/// A time limit as the kernel has it: never shorter, and none is -1.
fn milliseconds(time: Option<Duration>) -> i32 {
    time.map_or(-1, |time| {
        let ms = time.as_nanos().div_ceil(1_000_000);
        ms.min(i32::MAX as u128) as i32
    })
}
