//! Running before everything else.

use crate::error::{Error, Result};
use std::io;

/// Has the calling thread run as soon as it can, before all ordinary ones, and as long as it wants
/// (`SCHED_FIFO`, lowest real-time priority). For threads that mostly sleep and must wake on time. Threads and
/// processes that it starts are ordinary again. The kernel still leaves others a twentieth of the core.
///
/// # Errors
///
/// It needs `CAP_SYS_NICE`, and a group of processes that may have real-time ones.
pub fn real_time() -> Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread; the parameters live through the call.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result == 0 {
        return Ok(());
    }
    Err(
        Error::io("cannot have real-time priority", io::Error::last_os_error())
            .mend("run it as root, or give it CAP_SYS_NICE"),
    )
}

/// How long a favoured thread runs at a time: the shorter, the sooner after waking it gets the core.
const SLICE_NS: u64 = 100_000;

/// Has the calling thread run before other ordinary ones, by the largest weight there is (nice -20) and the
/// shortest slice (Linux 6.12; older ones ignore it). Threads and processes that it starts are as others are.
///
/// # Errors
///
/// It needs `CAP_SYS_NICE`.
pub fn favoured() -> Result<()> {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: -20,
        sched_priority: 0,
        sched_runtime: SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: 0 is the calling thread; the attributes live through the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 {
        return Ok(());
    }
    Err(Error::io("cannot be favoured", io::Error::last_os_error())
        .mend("run it as root, or give it CAP_SYS_NICE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> i32 {
        // SAFETY: a number only.
        unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
    }

    #[test]
    fn one_can_be_turned_into_the_other() {
        std::thread::spawn(|| {
            if real_time().and_then(|()| favoured()).is_ok() {
                assert_eq!(policy(), libc::SCHED_OTHER);
                let child = std::thread::spawn(nice).join().expect("no panic");
                assert_eq!((nice(), child), (-20, 0));
            }
        })
        .join()
        .expect("no panic");
    }

    /// Of the calling thread.
    fn nice() -> i32 {
        let nice = rustix::process::getpriority_process(None);
        nice.expect("readable")
    }

    #[test]
    fn it_is_for_one_thread_and_not_inherited() {
        let before = policy();
        let granted = std::thread::spawn(|| {
            let granted = real_time();
            if granted.is_ok() {
                assert_eq!(policy(), libc::SCHED_FIFO);
                let child = std::thread::spawn(policy).join().expect("no panic");
                assert_eq!(child, libc::SCHED_OTHER);
            }
            granted
        });
        if let Err(error) = granted.join().expect("no panic") {
            assert!(error.mend.is_some(), "{error}");
        }
        assert_eq!(policy(), before);
    }
}
