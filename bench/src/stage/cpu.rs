//! Who used how much of the processors: of processes from /proc/PID/stat, of cores from /proc/stat (proc(5)).
//!
//! The two differ, and both are reported. Delivering a packet over a veth happens in a soft interrupt on the
//! core that sent it, and is charged to the one that runs there: the server's process does not pay for its share of
//! receiving, the client's core does; the core's time has everything that happened on it.
//!
//! Times are in clock ticks of 10 ms usually, so a measurement should last a second or more.

use exos_host::{Error, Result, error::Context as _};
use procfs::process::{Process, Stat, all_processes};
use rustix::time::ClockId;
use std::ops::Sub;

/// Processor time of a process, in clock ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessTime {
    /// In the program itself.
    pub user: u64,
    /// In the kernel on its behalf.
    pub system: u64,
}

/// Time of a core since boot, in clock ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreTime {
    /// Doing anything.
    pub busy: u64,
    /// Of that, in programs.
    pub user: u64,
    /// In the kernel on their behalf, and its threads.
    pub system: u64,
    /// In soft interrupts, which deliver packets.
    pub softirq: u64,
    /// Doing nothing.
    pub idle: u64,
}

impl CoreTime {
    /// The part of the time that the core was busy, 0 to 1.
    pub fn busy_share(self) -> f64 {
        match self.busy + self.idle {
            0 => 0.0,
            total => self.busy as f64 / total as f64,
        }
    }
}

impl Sub for ProcessTime {
    type Output = Self;

    /// What passed between two readings; of a process that ended in between nothing is known.
    fn sub(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }
}

impl Sub for CoreTime {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(before.busy),
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            softirq: self.softirq.saturating_sub(before.softirq),
            idle: self.idle.saturating_sub(before.idle),
        }
    }
}

/// What could not be read of /proc.
pub(crate) fn unreadable(what: &str) -> impl Fn(procfs::ProcError) -> Error {
    move |error| Error::new(format!("cannot read {what}: {error}"))
}

/// Clock ticks as microseconds.
pub fn ticks_to_us(ticks: u64) -> f64 {
    ticks as f64 * 1e6 / rustix::param::clock_ticks_per_second() as f64
}

/// The time of a process and all its descendants, so far.
pub fn of_family(pid: u32) -> Result<ProcessTime> {
    let family = family(pid)?;
    Ok(ProcessTime {
        user: family.iter().map(|s| s.utime).sum(),
        system: family.iter().map(|s| s.stime).sum(),
    })
}

/// A process and all its descendants of one moment, whose time can be told often: to find them takes long on a busy machine, to read their
/// time does not.
#[derive(Debug)]
pub struct Family(Vec<u32>);

impl Family {
    /// Those that are there now.
    pub fn of(pid: u32) -> Result<Self> {
        Ok(Self(family(pid)?.iter().map(|s| s.pid as u32).collect()))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Those that have not ended meanwhile.
    pub fn processes(&self) -> impl Iterator<Item = Process> {
        let opened = self.0.iter().map(|pid| Process::new(*pid as i32));
        opened.flatten()
    }

    /// Their time so far, in nanoseconds: of many processes, each of which has done little, ticks would tell next to nothing. The time of those
    /// that run may be a tick old.
    pub fn ns(&self) -> u64 {
        // One that has ended meanwhile has no more time to tell.
        let told = self.0.iter().filter_map(|pid| of_threads(*pid).ok());
        told.map(|threads| threads.all_ns).sum()
    }
}

/// What is known of a process and all its descendants.
fn family(pid: u32) -> Result<Vec<Stat>> {
    let all = all_processes().map_err(unreadable("the processes"))?;
    // One that has ended meanwhile has no more time to tell.
    let mut stats: Vec<Stat> = all.flatten().filter_map(|p| p.stat().ok()).collect();
    let mut family = vec![pid as i32];
    // Children may come before their parents in the list; each round finds at least one or is the last.
    loop {
        let is_new = |s: &&Stat| family.contains(&s.ppid) && !family.contains(&s.pid);
        let new: Vec<i32> = stats.iter().filter(is_new).map(|s| s.pid).collect();
        if new.is_empty() {
            break;
        }
        family.extend(new);
    }
    stats.retain(|s| family.contains(&s.pid));
    Ok(stats)
}

/// Processor time of the threads of one of our programs, in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadTimes {
    /// Of each loop: the program's first thread, and those that are named after a core.
    pub loops_ns: Vec<u64>,
    /// Of all threads.
    pub all_ns: u64,
}

impl ThreadTimes {
    /// What passed since an earlier reading.
    pub fn since(&self, before: &Self) -> Self {
        let loops = self.loops_ns.iter().zip(&before.loops_ns);
        Self {
            loops_ns: loops.map(|(now, then)| now.saturating_sub(*then)).collect(),
            all_ns: self.all_ns.saturating_sub(before.all_ns),
        }
    }
}

/// The time of a program's threads so far, as the scheduler keeps it: to the nanosecond, but for those that run, whose
/// time may be a tick old.
pub fn of_threads(pid: u32) -> Result<ThreadTimes> {
    let tasks = Process::new(pid as i32).and_then(|process| process.tasks());
    let tasks = tasks.map_err(unreadable(&format!("the threads of process {pid}")))?;
    // One that has ended meanwhile has no more time to tell.
    let told = |task: procfs::process::Task| {
        let is_loop = task.tid == pid as i32 || task.stat().ok()?.comm.starts_with("core ");
        Some((task.tid, task.schedstat().ok()?.sum_exec_runtime, is_loop))
    };
    let mut threads: Vec<(i32, u64, bool)> = tasks.flatten().filter_map(told).collect();
    threads.sort_unstable();
    let loops = threads.iter().filter(|(_, _, is_loop)| *is_loop);
    Ok(ThreadTimes {
        loops_ns: loops.map(|(_, ns, _)| *ns).collect(),
        all_ns: threads.iter().map(|(_, ns, _)| ns).sum(),
    })
}

/// The kernel's thread that does those soft interrupts of a core which are too many for whom they interrupt.
#[derive(Debug)]
pub struct SoftirqThread(Process);

impl SoftirqThread {
    /// Finds it; `None` where a container hides it, or the kernel does not tell its time.
    pub fn of_core(core: usize) -> Result<Option<Self>> {
        let name = format!("ksoftirqd/{core}");
        let is_it = |p: &Process| p.stat().is_ok_and(|stat| stat.comm == name);
        let all = all_processes().map_err(unreadable("the processes"))?;
        let found = all.flatten().find(is_it);
        Ok(found.filter(|p| p.schedstat().is_ok()).map(Self))
    }

    /// Its time so far, in nanoseconds.
    pub fn ns(&self) -> u64 {
        self.0.schedstat().map_or(0, |stat| stat.sum_exec_runtime)
    }
}

/// What a program that has a core to itself takes of it from now on: its own time, in which most of the core's soft interrupts
/// are, and that of the kernel's thread which does the others, where it is seen. Other programs on the core do not count.
#[derive(Debug)]
pub struct OwnTime {
    softirqs: Option<SoftirqThread>,
    begin_ns: u64,
}

impl OwnTime {
    /// Begins with this core.
    pub fn begin(core: usize) -> Result<Self> {
        let mut time = Self {
            softirqs: SoftirqThread::of_core(core)?,
            begin_ns: 0,
        };
        time.begin_ns = time.now_ns();
        Ok(time)
    }

    /// What it has taken since, in nanoseconds.
    pub fn spent_ns(&self) -> u64 {
        self.now_ns() - self.begin_ns
    }

    fn now_ns(&self) -> u64 {
        own_ns() + self.softirqs.as_ref().map_or(0, SoftirqThread::ns)
    }
}

/// Processor time of this process so far, in nanoseconds; soft interrupts that ran meanwhile included.
pub fn own_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// Processor time of this thread so far, as [`own_ns`] is that of all.
pub fn thread_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time of one core so far.
pub fn of_core(core: usize) -> Result<CoreTime> {
    let text = std::fs::read_to_string("/proc/stat").context(|| "cannot read /proc/stat")?;
    find_core(&text, core)
        .ok_or_else(|| Error::new(format!("/proc/stat does not know core {core}")))
}

/// A core's line in /proc/stat, which has none of a core that is offline (so that procfs, which numbers the lines, finds
/// another's): `cpuN user nice system idle iowait irq softirq steal guest guest_nice`; guest is part of user.
fn find_core(text: &str, core: usize) -> Option<CoreTime> {
    let name = format!("cpu{core}");
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    let fields = lines.find_map(|mut line| (line.next()? == name).then_some(line))?;
    let times = fields.take(8).map(|field| field.parse().ok());
    let times = times.collect::<Option<Vec<u64>>>()?;
    let [user, nice, system, idle, iowait, irq, softirq, steal] = times.try_into().ok()?;
    Some(CoreTime {
        busy: user + nice + system + irq + softirq + steal,
        user: user + nice,
        system,
        softirq,
        idle: idle + iowait,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_found_by_its_number_where_others_are_offline() {
        let text = "cpu  30 2 40 600 14 4 8 6 0 0\n\
                    cpu0 20 1 20 300 7 2 4 3 0 0\n\
                    cpu2 10 1 20 300 7 2 4 3 5 5\n\
                    cpu3 10 1\n\
                    \n\
                    intr 1 2 3\n";
        let time = CoreTime {
            busy: 10 + 1 + 20 + 2 + 4 + 3,
            user: 11,
            system: 20,
            softirq: 4,
            idle: 307,
        };
        assert_eq!(find_core(text, 2), Some(time));
        for unknown in [1, 3, 22] {
            assert_eq!(find_core(text, unknown), None, "{unknown}");
        }
        assert!((time.busy_share() - 40.0 / 347.0).abs() < 1e-9);
        assert_eq!(CoreTime::default().busy_share(), 0.0);
        assert!(of_core(100_000).is_err());
    }

    #[test]
    fn threads_that_are_named_after_a_core_are_loops() {
        let before = of_threads(std::process::id()).expect("readable");
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let work = move || {
            let began = std::time::Instant::now();
            while began.elapsed().as_millis() < 20 {}
            wait.recv()
        };
        let thread = std::thread::Builder::new().name("core 7".into());
        let thread = thread.spawn(work).expect("a thread");
        let mut after = before.clone();
        while after.loops_ns.len() < 2 || after.loops_ns[1] == 0 {
            after = of_threads(std::process::id()).expect("readable");
        }
        assert_eq!((before.loops_ns.len(), after.loops_ns.len()), (1, 2));
        // Of one reading: threads of other tests that have ended since an earlier one are out of the sum.
        assert!(after.all_ns >= after.loops_ns.iter().sum());
        let passed = after.since(&before).loops_ns;
        assert_eq!(passed, [after.loops_ns[0] - before.loops_ns[0]]);
        drop(end);
        thread.join().expect("no panic").expect_err("nobody sends");
    }

    #[test]
    fn this_process_and_its_child_have_used_time() {
        let before = of_family(std::process::id()).expect("readable");
        let mut child = std::process::Command::new("sleep")
            .arg("5")
            .spawn()
            .expect("sleep is everywhere");
        let mut pids = all_processes().expect("readable").flatten().map(|p| p.pid);
        assert!(pids.any(|pid| pid == child.id() as i32));
        let own = |pid| Family::of(pid).expect("readable").ns();
        let (childs, ours) = (own(child.id()), own(std::process::id()));
        child.kill().expect("ours");
        child.wait().expect("it ends");
        let after = of_family(std::process::id()).expect("readable");
        assert!(after.user >= before.user);
        assert!(0 < childs && childs < ours, "{childs} {ours}");
        assert!(of_core(0).expect("there is a first core").idle > 0);
    }
}
