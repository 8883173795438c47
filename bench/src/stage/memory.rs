//! Who uses how much memory, and what was sent again for want of it: of processes from /proc/PID/status, of the kernel's TCP from /proc/net/sockstat of its
//! namespace and from /proc/slabinfo (proc(5), slabinfo(5)).

use super::cpu::Family;
use exos_host::{Error, Result, error::Context as _};
use exos_lab::{Lab, Side};
use procfs::process::Process;

/// Resident memory of a process and all its descendants, in bytes.
pub(crate) fn resident(pid: u32) -> Result<u64> {
    let family = Family::of(pid)?;
    let statuses = family.processes().map(|one| one.status());
    let resident = statuses
        .flatten()
        .map(|status| status.vmrss.unwrap_or(0) * 1024);
    let gone = || Error::new(format!("process {pid} is no more"));
    resident.reduce(|sum, one| sum + one).ok_or_else(gone)
}

/// Bytes that a process and all its descendants have read from a disk so far; `None` where the kernel does not count them.
pub(crate) fn read_from_disk(pid: u32) -> Result<Option<u64>> {
    let read = |one: Process| Some(one.io().ok()?.read_bytes);
    Ok(Family::of(pid)?.processes().map(read).sum())
}

/// What the kernel holds for the sockets of one side: buffers that are charged to them, and the objects that a
/// TCP socket and its descriptor are made of. Objects are counted for the whole machine; what a page of a file in a
/// send queue takes is counted there although the page is the file's.
pub(crate) fn of_sockets(lab: &Lab, side: Side) -> Result<u64> {
    let sockets = lab
        .netns(side)
        .run(|| read("/proc/thread-self/net/sockstat"))??;
    let pages = charged_pages(&sockets)
        .ok_or_else(|| Error::new("/proc/net/sockstat does not tell TCP's memory"))?;
    Ok(pages * rustix::param::page_size() as u64 + socket_objects(&read("/proc/slabinfo")?))
}

/// Segments that the kernel's TCP of one side has sent again so far.
pub(crate) fn segments_resent(lab: &Lab, side: Side) -> Result<u64> {
    let counters = lab
        .netns(side)
        .run(|| read("/proc/thread-self/net/snmp"))??;
    counter_of_tcp(&counters, "RetransSegs")
        .ok_or_else(|| Error::new("/proc/net/snmp does not tell of segments sent again"))
}

/// A line of names begins with `Tcp:`, and the next one has their numbers.
fn counter_of_tcp(snmp: &str, wanted: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let names = lines.next()?.split_ascii_whitespace();
    let at = names.into_iter().position(|name| name == wanted)?;
    lines.next()?.split_ascii_whitespace().nth(at)?.parse().ok()
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).context(|| format!("cannot read {path}"))
}

/// `TCP: inuse 5 orphan 0 tw 0 alloc 8 mem 2`, in pages.
fn charged_pages(sockstat: &str) -> Option<u64> {
    let line = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP: "))?;
    let mut words = line.split_ascii_whitespace();
    words.find(|word| *word == "mem")?;
    words.next()?.parse().ok()
}

/// Caches of what a connected TCP socket with a descriptor takes.
const OBJECTS: [&str; 3] = ["TCP", "sock_inode_cache", "filp"];

/// `name active_objs num_objs objsize ...`: bytes of active objects.
fn socket_objects(slabinfo: &str) -> u64 {
    let of_line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        let numbers: Vec<u64> = words
            .take(3)
            .map(|n| n.parse().ok())
            .collect::<Option<_>>()?;
        (OBJECTS.contains(&name)).then(|| numbers[0] * numbers[2])
    };
    slabinfo.lines().filter_map(of_line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_their_names_above_them() {
        let text = "Ip: A B\nIp: 1 2\nTcp: InSegs RetransSegs InErrs\nTcp: 7 42 -1\n";
        assert_eq!(counter_of_tcp(text, "RetransSegs"), Some(42));
        assert_eq!(counter_of_tcp(text, "B"), None);
        assert_eq!(counter_of_tcp("Tcp: RetransSegs\n", "RetransSegs"), None);
    }

    #[test]
    fn memory_of_this_process() {
        let resident = resident(std::process::id()).expect("readable");
        assert!((1 << 18..1 << 36).contains(&resident), "{resident}");
    }

    /// nginx's connections are its worker's, not those of the process that was started.
    #[test]
    fn memory_of_descendants_counts() {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "sleep 60 & echo there; wait"]);
        let mut shell = shell
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("sh");
        let mut said = [0; 5];
        let output = shell.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(output, &mut said).expect("it says so");
        let (family, all) = (Family::of(shell.id()), resident(shell.id()));
        let alone = |pid: u32| Process::new(pid as i32).and_then(|one| one.status());
        let alone = alone(shell.id()).expect("readable").vmrss.expect("told") * 1024;
        let family = family.expect("readable");
        assert_eq!(family.count(), 2);
        assert!(all.expect("readable") > alone);
        for process in family.processes() {
            let pid = rustix::process::Pid::from_raw(process.pid()).expect("not 0");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        shell.wait().expect("ended");
    }

    #[test]
    fn memory_of_sockets_as_the_kernel_tells_it() {
        let text =
            "sockets: used 290\nTCP: inuse 5 orphan 0 tw 3 alloc 8 mem 21\nUDP: inuse 1 mem 7\n";
        assert_eq!(charged_pages(text), Some(21));
        assert_eq!(charged_pages("UDP: inuse 1 mem 7\n"), None);
        let slabs = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize>\nTCP 10 13 2000 13 8\n\
                     TCPv6 5 5 2500 1 1\nfilp 100 110 256 1 1\n";
        assert_eq!(socket_objects(slabs), 10 * 2000 + 100 * 256);
    }
}
