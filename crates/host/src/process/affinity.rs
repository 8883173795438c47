//! Which cores a thread runs on.

use crate::error::{Context as _, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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
    fn a_core_that_is_not_there_is_refused_with_a_choice() {
        let error = pin(CpuSet::MAX_CPU + 1).expect_err("no such core");
        assert!(error.mend.is_some_and(|m| m.starts_with("choose from [")));
    }
}
