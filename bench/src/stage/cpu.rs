//! Who used how much of the processors: of processes from /proc/PID/stat, of cores from /proc/stat (proc(5)).
//!
//! The two differ, and both are reported. Delivering a packet over a veth happens in a soft interrupt on the
//! core that sent it, and is charged to the one that runs there: the server's process does not pay for its share of
//! receiving, the client's core does; the core's time has everything that happened on it.
//!
//! Times are in clock ticks of 10 ms usually, so a measurement should last a second or more.

use exos_host::{Error, Result, error::Context as _};
use std::ops::{Add, Sub};

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
    /// Of that, in soft interrupts.
    pub softirq: u64,
    /// Doing nothing.
    pub idle: u64,
}

impl CoreTime {
    /// The part of the time that the core was busy, 0 to 1.
    pub fn busy_share(self) -> f64 {
        let total = self.busy + self.idle;
        if total == 0 {
            0.0
        } else {
            self.busy as f64 / total as f64
        }
    }
}

impl Add for ProcessTime {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            user: self.user + other.user,
            system: self.system + other.system,
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
            softirq: self.softirq.saturating_sub(before.softirq),
            idle: self.idle.saturating_sub(before.idle),
        }
    }
}

/// Clock ticks as microseconds.
pub fn ticks_to_us(ticks: u64) -> f64 {
    ticks as f64 * 1e6 / rustix::param::clock_ticks_per_second() as f64
}

/// The time of a process and all its descendants, so far.
pub fn of_family(pid: u32) -> Result<ProcessTime> {
    let stats = all_processes()?;
    let mut family = vec![pid];
    // Children may come before their parents in the list; each round finds at least one or is the last.
    loop {
        let new = stats
            .iter()
            .filter(|s| family.contains(&s.parent) && !family.contains(&s.pid));
        let new: Vec<u32> = new.map(|s| s.pid).collect();
        if new.is_empty() {
            break;
        }
        family.extend(new);
    }
    let of_family = stats
        .iter()
        .filter(|s| family.contains(&s.pid))
        .map(|s| s.time);
    Ok(of_family.fold(ProcessTime::default(), Add::add))
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
    let what = || format!("cannot read the threads of process {pid}");
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).context(what)?;
    let mut numbers: Vec<u32> = tasks
        .flatten()
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let mut times = ThreadTimes {
        loops_ns: Vec::new(),
        all_ns: 0,
    };
    for number in numbers {
        // One that has ended meanwhile has no more time to tell.
        let read = |file| std::fs::read_to_string(format!("/proc/{pid}/task/{number}/{file}"));
        let (Ok(name), Ok(schedule)) = (read("comm"), read("schedstat")) else {
            continue;
        };
        let first = schedule.split_ascii_whitespace().next();
        let ns = first.and_then(|ns| ns.parse::<u64>().ok()).ok_or_else(|| {
            Error::new("/proc/PID/task/TID/schedstat has no times")
                .mend("use a kernel with CONFIG_SCHED_INFO")
        })?;
        times.all_ns += ns;
        if number == pid || name.starts_with("core ") {
            times.loops_ns.push(ns);
        }
    }
    Ok(times)
}

/// The time of one core so far.
pub fn of_core(core: usize) -> Result<CoreTime> {
    let text = std::fs::read_to_string("/proc/stat").context(|| "cannot read /proc/stat")?;
    let found = text.lines().find_map(|line| parse_core(line, core));
    found.ok_or_else(|| Error::new(format!("/proc/stat does not know core {core}")))
}

/// What we read of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stat {
    pid: u32,
    parent: u32,
    time: ProcessTime,
}

fn all_processes() -> Result<Vec<Stat>> {
    let entries = std::fs::read_dir("/proc").context(|| "cannot list the processes")?;
    let stats = entries.flatten().filter_map(|entry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        parse_stat(&std::fs::read_to_string(entry.path().join("stat")).ok()?)
    });
    Ok(stats.collect())
}

/// `pid (name) state parent ...`, user and system time being fields 14 and 15. The name may contain spaces and
/// brackets, so fields are counted from the last closing one.
fn parse_stat(text: &str) -> Option<Stat> {
    let pid = text.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse().ok();
    let time = ProcessTime {
        user: number(14)?,
        system: number(15)?,
    };
    Some(Stat {
        pid,
        parent: number(4)? as u32,
        time,
    })
}

/// `cpuN user nice system idle iowait irq softirq steal guest guest_nice`; guest is part of user.
fn parse_core(line: &str, core: usize) -> Option<CoreTime> {
    let mut fields = line.split_ascii_whitespace();
    if fields.next()? != format!("cpu{core}") {
        return None;
    }
    let times: Vec<u64> = fields
        .take(8)
        .map(|f| f.parse().ok())
        .collect::<Option<_>>()?;
    let [user, nice, system, idle, iowait, irq, softirq, steal] = times.try_into().ok()?;
    Some(CoreTime {
        busy: user + nice + system + irq + softirq + steal,
        softirq,
        idle: idle + iowait,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_process_with_a_difficult_name() {
        let line = "4242 (a (bad) name) S 17 4242 4242 0 -1 4194560 100 0 0 0 123 45 6 7 20 0 1 0 100 1000 10";
        let time = ProcessTime {
            user: 123,
            system: 45,
        };
        assert_eq!(
            parse_stat(line),
            Some(Stat {
                pid: 4242,
                parent: 17,
                time
            })
        );
        for broken in [
            "",
            "1 (x",
            "1 (x) S 1 2",
            "x (x) S 17 1 1 0 -1 1 1 0 0 0 1 1 1",
        ] {
            assert_eq!(parse_stat(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_line_of_a_core() {
        let line = "cpu1 10 1 20 300 7 2 4 3 0 0";
        let expected = CoreTime {
            busy: 10 + 1 + 20 + 2 + 4 + 3,
            softirq: 4,
            idle: 307,
        };
        assert_eq!(parse_core(line, 1), Some(expected));
        assert_eq!(parse_core(line, 11), None);
        assert_eq!(parse_core("cpu1 10 1", 1), None);
        assert!((expected.busy_share() - 40.0 / 347.0).abs() < 1e-9);
        assert_eq!(CoreTime::default().busy_share(), 0.0);
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
        assert!(after.since(&before).all_ns >= after.loops_ns[1]);
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
        let pids: Vec<u32> = all_processes()
            .expect("readable")
            .iter()
            .map(|s| s.pid)
            .collect();
        assert!(pids.contains(&child.id()));
        child.kill().expect("ours");
        child.wait().expect("it ends");
        let after = of_family(std::process::id()).expect("readable");
        assert!(after.user >= before.user);
        assert!(of_core(0).expect("there is a first core").idle > 0);
    }
}
