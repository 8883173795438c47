//! Which processes have a socket, and what these are called, by /proc (proc(5)). Of processes that may not be looked into nothing is
//! found.

use std::collections::{HashMap, HashSet};
use std::fs;

use procfs::process::{FDTarget, all_processes};

/// The processes that have each of these sockets, by inode; one that has several descriptors of it once.
pub fn of_sockets(inodes: &HashSet<u64>) -> HashMap<u64, Vec<u32>> {
    let mut found: HashMap<u64, Vec<u32>> = HashMap::new();
    if inodes.is_empty() {
        return found;
    }
    for process in all_processes().into_iter().flatten().flatten() {
        let Ok(pid) = u32::try_from(process.pid) else {
            continue;
        };
        for file in process.fd().into_iter().flatten().flatten() {
            if let FDTarget::Socket(inode) = file.target
                && inodes.contains(&inode)
            {
                found.entry(inode).or_default().push(pid);
            }
        }
    }
    for pids in found.values_mut() {
        pids.sort_unstable();
        pids.dedup();
    }
    found
}

/// A process's name, as ps(1) has it; `None` of one that is not there.
pub fn name(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let name = String::from_utf8_lossy(&bytes);
    Some(name.trim_end_matches('\n').to_owned())
}

/// Whether a process's numbers of processes are ours: it is in our PID namespace.
pub fn has_our_numbers(pid: u32) -> bool {
    let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    of(&pid.to_string()).is_some_and(|its| Some(its) == of("self"))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_has_the_processes_that_have_it() {
        let (one, _other) = UnixStream::pair().expect("sockets");
        let _again = one.try_clone().expect("a descriptor");
        let file = fs::metadata(format!("/proc/self/fd/{}", one.as_raw_fd())).expect("it is open");
        let found = of_sockets(&HashSet::from([file.ino()]));
        let own = std::process::id();
        // A child of another test may be there for an instant.
        assert!(found[&file.ino()].contains(&own), "{found:?}");
        assert_eq!(
            found[&file.ino()].iter().filter(|pid| **pid == own).count(),
            1
        );
        assert!(name(own).is_some_and(|name| !name.is_empty()));
        assert!(has_our_numbers(own));
    }
}
