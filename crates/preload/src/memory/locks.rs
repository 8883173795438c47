//! Who uses a ring; waiting on a word of the memory, and waking; who the process with the stack waits for.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use super::agreed::{AWAKE, GATHERS};
use super::mapping::Shared;

unsafe extern "C" {
    fn syscall(number: i64, ...) -> i64;
}

#[cfg(target_arch = "x86_64")]
const SYS_FUTEX: i64 = 202;
#[cfg(target_arch = "aarch64")]
const SYS_FUTEX: i64 = 98;

impl Shared {
    /// The process with the stack waits, from now on, until those that it [awaits](Self::awaits) wait again; false where they do already.
    pub fn gathers(&self) -> bool {
        self.engine().store(GATHERS, Ordering::SeqCst);
        // The last of them counts itself before it looks at that.
        fence(Ordering::SeqCst);
        !self.all_wait()
    }

    /// That many threads have been given something to do, and wait again when they have done it. Those of before are forgotten: a thread
    /// may end, or wait elsewhere, and where it was added to the number it would stay in it.
    pub fn awaits(&self, threads: u32) {
        let threads = threads.cast_signed();
        self.awaited().store(threads, Ordering::SeqCst);
    }

    /// These many more, or fewer, have been given something to do than was said.
    pub fn awaits_more(&self, threads: i32) {
        self.awaited().fetch_add(threads, Ordering::AcqRel);
    }

    /// A thread runs that may not have been counted.
    pub fn one_runs(&self) {
        self.awaited().fetch_max(1, Ordering::AcqRel);
    }

    /// Whether all that were given something to do last have come to wait.
    pub fn all_wait(&self) -> bool {
        // One that was not given anything may have counted itself behind the last.
        self.awaited().load(Ordering::Relaxed) <= 0
    }

    /// A thread has found nothing to do, but goes on: whether the process with the stack, asleep, is to be woken now.
    pub fn has_left_work(&self) -> bool {
        fence(Ordering::SeqCst);
        let is_time = match self.engine().load(Ordering::Relaxed) {
            AWAKE => false,
            // Others are waited for.
            GATHERS => self.awaited().load(Ordering::Relaxed) <= 1,
            _ => true,
        };
        is_time && !self.work().is_empty()
    }

    /// A thread is about to wait: whether the process with the stack, asleep, is to be woken now.
    pub fn is_awaited(&self) -> bool {
        let awaited = self.awaited().fetch_sub(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        match self.engine().load(Ordering::Relaxed) {
            AWAKE => false,
            GATHERS => awaited == 1,
            _ => !self.work().is_empty(),
        }
    }

    fn awaited(&self) -> &AtomicI32 {
        &self.head().awaited.0
    }

    /// One thread holds this at a time. Those of a process that has ended do not ([`unlock_of`](Self::unlock_of)).
    pub fn lock<'a>(&self, word: &'a AtomicU32, pid: u32) -> Lock<'a> {
        let mut tries = 0_u32;
        while word
            .compare_exchange_weak(0, pid, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            tries += 1;
            match tries % 64 {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        Lock(word)
    }

    /// As [`lock`](Self::lock), for the side that may not wait for long: gives up on one that holds it for too long, for it is stopped.
    pub fn lock_soon<'a>(&self, word: &'a AtomicU32) -> Option<Lock<'a>> {
        const AT_MOST: Duration = Duration::from_millis(20);
        const NOBODY: u32 = u32::MAX;
        let began = Instant::now();
        for tries in 0_u32.. {
            let taken = word.compare_exchange(0, NOBODY, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return Some(Lock(word));
            }
            match tries % 16 {
                15 if began.elapsed() > AT_MOST => break,
                15 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        None
    }

    /// A process has ended: nobody waits for it, at any of the first `count` sockets.
    pub fn unlock_of(&self, pid: u32, count: usize) {
        for number in 0..count as u32 {
            let socket = self.socket(number);
            for word in [&socket.reads, &socket.writes] {
                let _ = word.compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// A socket is another from now on. Those that wait for it, or are about to use it, find that.
    pub fn renew(&self, number: u32) {
        let socket = self.socket(number);
        {
            let _still = (
                self.lock_soon(&socket.reads),
                self.lock_soon(&socket.writes),
            );
            socket.reset();
        }
        // Who counts itself later finds another generation.
        fence(Ordering::SeqCst);
        for (turn, waiters) in [
            (&socket.came, &socket.readers),
            (&socket.left, &socket.writers),
        ] {
            if waiters.load(Ordering::Relaxed) > 0 {
                self.wake(turn);
            }
        }
    }

    /// Waits until the word is not `value` any more, is woken, a signal comes, or that many milliseconds pass. Gives `false` when a
    /// signal has interrupted it.
    pub fn wait_on(&self, word: &AtomicU32, value: u32, timeout: Option<u64>) -> bool {
        const WAIT: i32 = 0;
        let time = timeout.map(|ms| [ms / 1000, ms % 1000 * 1_000_000]);
        let time = time.as_ref().map_or(std::ptr::null(), |time| time.as_ptr());
        // SAFETY: the word and the time live as long as the call.
        let waited = unsafe { syscall(SYS_FUTEX, word.as_ptr(), WAIT, value, time) };
        waited == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted
    }

    /// Changes a word, and wakes all that wait on it.
    pub fn wake(&self, word: &AtomicU32) {
        word.fetch_add(1, Ordering::AcqRel);
        self.wake_waiters(word);
    }

    /// Wakes all that wait on a word, which has been changed; says how many did.
    pub fn wake_waiters(&self, word: &AtomicU32) -> u32 {
        const WAKE: i32 = 1;
        // SAFETY: the word lives as long as the call.
        let woken = unsafe { syscall(SYS_FUTEX, word.as_ptr(), WAKE, i32::MAX) };
        u32::try_from(woken).unwrap_or(0)
    }
}

/// What [`Shared::lock`] gives, until it is dropped.
pub struct Lock<'a>(&'a AtomicU32);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::agreed::SLEEPS;
    use super::*;

    #[test]
    fn who_gathers_is_woken_by_the_last_that_was_awaited() {
        let shared = Shared::create().expect("memory");
        assert!(!shared.is_awaited(), "it is awake");
        shared.awaits(2);
        assert!(shared.gathers());
        shared.work().set(3);
        assert!(!shared.is_awaited(), "one is left");
        assert!(shared.is_awaited());
        assert!(!shared.is_awaited(), "it has been woken");
        shared.engine().store(SLEEPS, Ordering::Relaxed);
        assert!(shared.is_awaited(), "there is something to do");
        shared.work().drain(|_| {});
        assert!(!shared.is_awaited());
    }

    /// As where all of them have run on a core that both share.
    #[test]
    fn those_that_wait_by_now_are_not_gathered_from() {
        let shared = Shared::create().expect("memory");
        shared.awaits(1);
        shared.work().set(3);
        assert!(!shared.is_awaited(), "it is awake, and need not be woken");
        assert!(!shared.gathers());
    }

    #[test]
    fn who_waits_is_counted_also_while_the_other_side_is_awake() {
        let shared = Shared::create().expect("memory");
        shared.awaits(2);
        assert!(!shared.is_awaited(), "it looks by itself");
        assert!(!shared.all_wait());
        assert!(!shared.is_awaited());
        assert!(shared.all_wait());
        // What runs without having been counted is one, once.
        shared.is_awaited();
        shared.one_runs();
        shared.one_runs();
        assert!(!shared.all_wait());
        shared.is_awaited();
        assert!(shared.all_wait());
    }

    #[test]
    fn who_only_looks_does_not_end_a_pause_that_others_are_waited_for_in() {
        let shared = Shared::create().expect("memory");
        shared.awaits(2);
        assert!(shared.gathers());
        shared.work().set(3);
        assert!(!shared.has_left_work());
        assert!(!shared.is_awaited());
        assert!(shared.has_left_work(), "it is the last");
        assert!(shared.is_awaited(), "and not counted before it waits");
    }

    /// As event loops do that ask between two steps whether anything is ready.
    #[test]
    fn who_only_looks_is_not_one_that_waits() {
        let shared = Shared::create().expect("memory");
        shared.awaits(1);
        assert!(shared.gathers());
        assert!(!shared.has_left_work());
        assert!(!shared.all_wait());
        shared.work().set(3);
        assert!(shared.has_left_work());
        shared.engine().store(AWAKE, Ordering::Relaxed);
        assert!(!shared.has_left_work(), "it looks by itself");
        shared.engine().store(SLEEPS, Ordering::Relaxed);
        assert!(shared.has_left_work());
        assert!(!shared.all_wait());
        assert!(shared.is_awaited());
        assert!(shared.all_wait(), "it waits by now");
    }
}
