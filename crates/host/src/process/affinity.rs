//! Which cores a thread runs on.

use crate::error::{Context as _, Result};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::io;
use std::thread::{Builder, JoinHandle};

/// Pins the calling thread, and threads and processes that it starts later, to one core.
pub fn pin(core: usize) -> Result<()> {
    set(&[core])
}

/// Lets the calling thread, and threads and processes that it starts later, run on these cores only.
pub fn set(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cores
        .iter()
        .filter(|&&core| core < CpuSet::MAX_CPU)
        .for_each(|&core| set.set(core));
    sched_setaffinity(None, &set)
        .context(|| format!("cannot run on {cores:?} of the cores"))
        .map_err(|e| e.mend(format!("choose from {:?}", allowed().unwrap_or_default())))
}

/// The cores that the calling thread may run on, ascending.
pub fn allowed() -> Result<Vec<usize>> {
    let set =
        sched_getaffinity(None).context(|| "cannot read which cores this process may run on")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&core| set.is_set(core))
        .collect())
}

/// Whether the calling thread, and what it starts, may run on one core alone.
pub fn has_one_core() -> bool {
    allowed().is_ok_and(|cores| cores.len() == 1)
}

/// Whether a thread, or a process by its first one, may run on the cores that the calling thread may run on, and on no others; also where
/// that cannot be known.
pub fn runs_where_we_do(thread: u32) -> bool {
    let Some(thread) = Pid::from_raw(thread.cast_signed()) else {
        return true;
    };
    match (sched_getaffinity(Some(thread)), sched_getaffinity(None)) {
        (Ok(its), Ok(ours)) => its == ours,
        _ => true,
    }
}

/// Starts a thread beside loops that may have cores to themselves: on these, or on any where none is named or it may not.
///
/// # Errors
///
/// There is no thread to be had.
pub fn spawn<T: Send + 'static>(
    name: &str,
    cores: &[usize],
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let cores = cores.to_vec();
    Builder::new().name(name.to_owned()).spawn(move || {
        if !cores.is_empty() {
            // Where it may not, it shares a core.
            let _ = set(&cores);
        }
        work()
    })
}

/// Starts a thread where the caller runs, for a caller that then waits for it; afterwards it may run wherever the caller may. The scheduler
/// would place it where it sees the least to do: of two processors that each run one thread perhaps beside one that polls, where it waits
/// for a tick (1 to 10 ms) while the caller's processor is idle.
///
/// # Errors
///
/// There is no thread to be had.
pub fn spawn_here<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // Where it may not, the scheduler places it.
    let before = sched_getaffinity(None).ok();
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    let before = before.filter(|_| sched_setaffinity(None, &here).is_ok());
    let spawned = Builder::new().name(name.to_owned()).spawn(move || {
        restore(before);
        work()
    });
    restore(before);
    spawned
}

/// Has the calling thread run where it might before it was held to one processor. Who might run on all of them may on those that come later,
/// too: the kernel keeps a set that was asked for (sched_setaffinity(2)).
fn restore(before: Option<CpuSet>) {
    let Some(before) = before else { return };
    let mut every = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| every.set(core));
    // SAFETY: a call without pointers.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let is_all = i64::from(before.count()) >= online;
    if is_all || sched_setaffinity(None, &before).is_err() {
        // Of a set the kernel takes what it allows.
        let _ = sched_setaffinity(None, &every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_pinned_to_a_core_it_has() {
        let all = allowed().expect("readable");
        let first = all[0];
        std::thread::spawn(move || {
            pin(first).expect("allowed");
            assert_eq!(allowed().expect("readable"), [first]);
            set(&all).expect("what it had before");
            assert_eq!(allowed().expect("readable"), all);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_thread_with_other_cores_does_not_run_where_we_do() {
        let all = allowed().expect("readable");
        let first = rustix::thread::gettid().as_raw_nonzero().get();
        let first = first.cast_unsigned();
        let looks = move |cores: &[usize]| {
            let cores = cores.to_vec();
            let thread = std::thread::spawn(move || {
                set(&cores).expect("allowed");
                runs_where_we_do(first)
            });
            thread.join().expect("no panic")
        };
        assert!(looks(&all));
        assert_eq!(looks(&all[..1]), all.len() == 1);
    }

    #[test]
    fn a_thread_runs_on_its_cores_or_on_any() {
        let all = allowed().expect("readable");
        let runs_on = |cores: &[usize]| {
            let thread = spawn("beside", cores, allowed).expect("a thread");
            thread.join().expect("no panic").expect("readable")
        };
        assert_eq!(runs_on(&all[..1]), all[..1]);
        assert_eq!(runs_on(&[]), all);
        assert_eq!(runs_on(&[CpuSet::MAX_CPU + 1]), all);
    }

    #[test]
    fn a_thread_begun_here_and_its_caller_may_run_where_the_caller_might() {
        let all = allowed().expect("readable");
        for may in [&all[..1], &all[..]] {
            set(may).expect("allowed");
            let thread = spawn_here("here", allowed).expect("a thread");
            assert_eq!(allowed().expect("readable"), may);
            let its = thread.join().expect("no panic");
            assert_eq!(its.expect("readable"), may);
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_refused_with_a_choice() {
        let error = pin(CpuSet::MAX_CPU + 1).expect_err("no such core");
        assert!(error.mend.is_some_and(|m| m.starts_with("choose from [")));
    }
}
