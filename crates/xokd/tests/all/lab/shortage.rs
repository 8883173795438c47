//! A daemon that may open few more descriptors.

use std::collections::BTreeSet;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// Does something while a process has this many descriptors to spare, and no more. For one whose limit is ours.
pub fn with_descriptors_to_spare<T>(process: u32, spare: usize, work: impl FnOnce() -> T) -> T {
    let pid = Pid::from_raw(process.cast_signed()).expect("it runs");
    let before = getrlimit(Resource::Nofile);
    let all = std::fs::read_dir(format!("/proc/{process}/fd")).expect("root may look");
    let number = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.expect("it is listed").file_name();
        name.to_str().and_then(|name| name.parse::<u64>().ok())
    };
    let taken: BTreeSet<u64> = all.filter_map(number).collect();
    // A descriptor gets the lowest number that is free, and none from the limit on.
    let mut free = (0..).filter(|number| !taken.contains(number));
    let limit = Rlimit {
        current: free.nth(spare),
        ..before
    };
    let before = prlimit(Some(pid), Resource::Nofile, limit).expect("root may");
    let done = work();
    prlimit(Some(pid), Resource::Nofile, before).expect("root may");
    done
}
