//! Running before everything else, or soon.

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

/// How long a thread runs at a time that is to have the core soon: the shorter, the sooner after waking it gets it. The shortest that the
/// kernel takes.
const SLICE_NS: u64 = 100_000;

/// Has the calling thread run before other ordinary ones, by the largest weight there is (nice -20) and the
/// shortest slice (Linux 6.12; older ones ignore it). Threads and processes that it starts are as others are.
///
/// # Errors
///
/// It needs `CAP_SYS_NICE`.
pub fn favoured() -> Result<()> {
    set_ordinary(-20).map_err(|e| {
        Error::io("cannot be favoured", e).mend("run it as root, or give it CAP_SYS_NICE")
    })
}

/// Has the calling thread get its core as soon as it wakes, by the shortest slice (Linux 6.12; older ones ignore it), and no more of it than
/// before. For threads that have little to do at a time, for which others wait. Threads and processes that it starts are as others are. One that is
/// no ordinary thread, as by chrt(1), stays as it is.
///
/// # Errors
///
/// The kernel refuses it, which asks for no privilege.
pub fn prompt() -> io::Result<()> {
    // SAFETY: a number only.
    match unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK } {
        libc::SCHED_OTHER => set_ordinary(rustix::process::getpriority_process(None)?),
        _ => Ok(()),
    }
}

/// The shortest slice, and this nice value.
fn set_ordinary(nice: i32) -> io::Result<()> {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: 0 is the calling thread; the attributes live through the call.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
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

    #[test]
    fn a_prompt_one_keeps_its_weight_and_its_policy() {
        std::thread::spawn(|| {
            let before = (nice(), policy());
            prompt().expect("it needs no privilege");
            assert_eq!((nice(), policy()), before);
            let slice = slice_ns(0);
            // Linux before 6.12 knows of none, and says so by 0.
            assert!([0, SLICE_NS].contains(&slice), "{slice}");
            let child = std::thread::spawn(|| slice_ns(0)).join();
            assert!(slice == 0 || child.expect("no panic") > slice);
            // Another policy stays.
            if real_time().is_ok() {
                prompt().expect("it needs no privilege");
                assert_eq!(policy(), libc::SCHED_FIFO);
            }
        })
        .join()
        .expect("no panic");
    }

    /// A thread's slice; 0 is the calling one.
    fn slice_ns(thread: i32) -> u64 {
        // SAFETY: all of it are numbers.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::sched_attr>() as u32;
        // SAFETY: room for as much as is said.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_getattr,
                thread,
                &raw mut attributes,
                size,
                0,
            )
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        attributes.sched_runtime
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
