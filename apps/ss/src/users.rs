//! Which processes have a socket: those that the program says, or the program itself.

use std::collections::{HashMap, HashSet};

use exos::watch::Holder;
use exos_host::holders;
use exos_program::text::plain;

use crate::ask::{Row, User};

/// Finds those of all sockets.
pub(crate) fn find(rows: &mut [Row]) {
    let known = Known::of(rows);
    let mut names = HashMap::new();
    for row in rows {
        let named = known.processes(row).into_iter().filter_map(|pid| {
            let name = names.entry(pid).or_insert_with(|| holders::name(pid));
            let program = quoted(name.as_ref()?);
            Some(User { program, pid })
        });
        row.users = named.collect();
        if row.users.is_empty() {
            let (program, pid) = (row.owner.program.clone(), row.owner.pid);
            row.users.push(User { program, pid });
        }
    }
}

/// What is to be known of all sockets before the processes of one are found.
struct Known {
    /// Programs in our PID namespace: what they say of processes are numbers of ours.
    has_our_numbers: HashSet<u32>,
    /// Which processes have each Unix socket.
    by_inode: HashMap<u64, Vec<u32>>,
}

impl Known {
    fn of(rows: &[Row]) -> Self {
        let programs: HashSet<u32> = rows.iter().map(|row| row.owner.pid).collect();
        let has_our_numbers = |pid: &u32| holders::has_our_numbers(*pid);
        let all = rows.iter().flat_map(|row| &row.socket.holders);
        let inodes = all.filter_map(|holder| match holder {
            Holder::UnixSocket(inode) => Some(*inode),
            Holder::Process(_) => None,
        });
        Self {
            has_our_numbers: programs.into_iter().filter(has_our_numbers).collect(),
            by_inode: holders::of_sockets(&inodes.collect()),
        }
    }

    /// The processes that have a socket, each once.
    fn processes(&self, row: &Row) -> Vec<u32> {
        let program = row.owner.pid;
        let mut pids = Vec::new();
        for holder in &row.socket.holders {
            match holder {
                Holder::Process(pid) if self.has_our_numbers.contains(&program) => pids.push(*pid),
                Holder::Process(_) => {}
                Holder::UnixSocket(inode) => {
                    pids.extend(self.by_inode.get(inode).into_iter().flatten());
                }
            }
        }
        // It may have a copy of it.
        pids.retain(|pid| *pid != program);
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

/// A name, which stands between quotation marks.
pub(crate) fn quoted(name: &str) -> String {
    plain(name).replace('"', "?")
}
