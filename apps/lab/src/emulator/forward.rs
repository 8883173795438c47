//! The forwarding thread: frames from the ring of one end, through a [`Direction`], to the ring of the other.
//!
//! A turn takes in what came at both ends, then sends what is due at both; with nothing to do it waits as
//! [`Waiting`] says. Frames count from the moment at which the kernel saw them, so being late to look at them makes
//! no error. Everything is bounded: a batch from each ring, a batch to each.

use super::conditions::Conditions;
use super::direction::Direction;
use super::lateness::LatenessHistogram;
use super::shared::{Shared, Snapshot};
use super::statistics::{DirectionReport, OwnLosses};
use super::urgency::Urgency;
use super::waiting::{Wait, Waiting};
use exos_filter::{Action, Filter, Rule};
use exos_host::{Error, Result};
use exos_link::{RX_BATCH, TxMeta, XdpConfig, XdpLink};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::Duration;

/// One end of the wire, and what travels from it to the other.
struct End {
    link: XdpLink,
    direction: Direction,
    late: LatenessHistogram,
}

/// Both ends. Belongs to the thread that drives it.
pub(super) struct Forwarder {
    ends: [End; 2],
    shared: Arc<Shared>,
    waiting: Waiting,
    urgency: Urgency,
    /// Due times of the batch that is being sent.
    batch: Vec<u64>,
}

impl Forwarder {
    /// Opens the interfaces of these names in the namespace of the calling thread.
    pub(super) fn open(
        interfaces: [&str; 2],
        conditions: &Conditions,
        seed: u64,
        shared: Arc<Shared>,
    ) -> Result<Self> {
        let end = |interface: &str, number| -> Result<End> {
            Ok(End {
                link: open_link(interface)?,
                direction: Direction::new(conditions, seed, number),
                late: LatenessHistogram::default(),
            })
        };
        Ok(Self {
            ends: [end(interfaces[0], 0)?, end(interfaces[1], 1)?],
            shared,
            waiting: Waiting::new(conditions.delay - conditions.jitter),
            urgency: Urgency::new(),
            batch: Vec::with_capacity(RX_BATCH as usize),
        })
    }

    /// Forwards until told to stop, or an interface goes.
    pub(super) fn run(&mut self) -> Result<()> {
        while !self.shared.is_stopped() {
            if self.shared.is_wanted() {
                self.shared.publish(self.snapshot());
            }
            if self.turn()? {
                continue;
            }
            let now_ns = now_ns();
            let due_ns = self.next_departure_ns();
            match self.waiting.decide(now_ns, due_ns) {
                Wait::Spin => std::hint::spin_loop(),
                Wait::UntilFrame { timeout_ns } => self.sleep(now_ns, timeout_ns, true)?,
                Wait::Blind { timeout_ns } => self.sleep(now_ns, Some(timeout_ns), false)?,
            }
        }
        Ok(())
    }

    /// What happened so far.
    pub(super) fn snapshot(&self) -> Snapshot {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        Snapshot {
            directions: [0, 1].map(|from| self.report(from)),
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
        }
    }

    fn report(&self, from: usize) -> DirectionReport {
        let end = &self.ends[from];
        let counters = end.link.counters();
        let counter = |name: &str| {
            let found = counters.iter().find(|(n, _)| *n == name);
            found.map_or(0, |(_, value)| *value)
        };
        let no_chunk = counter("kernel_rx_fill_ring_empty");
        DirectionReport {
            frames: end.direction.statistics(),
            own: OwnLosses {
                own_rx_ring_full: counter("kernel_rx_ring_full") + no_chunk,
                // Those for want of a chunk are among them.
                own_rx_dropped: counter("kernel_rx_dropped").saturating_sub(no_chunk),
                ..OwnLosses::default()
            },
            late: end.late.read(),
        }
    }

    /// True when a frame came or left.
    fn turn(&mut self) -> Result<bool> {
        let now_ns = now_ns();
        self.urgency.adapt(now_ns);
        let mut moved = 0;
        for End {
            link, direction, ..
        } in &mut self.ends
        {
            moved += link.receive(|frame, meta| {
                direction.handle_frame(meta.arrived_ns.unwrap_or(now_ns), frame);
            });
        }
        for from in [0, 1] {
            moved += self.send_due(from)?;
        }
        if moved > 0 {
            self.waiting.active(now_ns);
        }
        Ok(moved > 0)
    }

    /// Sends what is due from one end to the other, up to a batch; how many frames.
    fn send_due(&mut self, from: usize) -> Result<usize> {
        let [a, b] = &mut self.ends;
        let (from, to) = if from == 0 { (a, b) } else { (b, a) };
        let now_ns = now_ns();
        if from
            .direction
            .next_departure_ns()
            .is_none_or(|due| due > now_ns)
        {
            return Ok(0);
        }
        self.batch.clear();
        for _ in 0..to.link.room().min(RX_BATCH as usize) {
            let Some(departure) = from.direction.poll_frame(now_ns) else {
                break;
            };
            let taken = to.link.transmit(&departure.frame, &[], TxMeta::default());
            assert!(taken, "there is room");
            self.batch.push(departure.due_ns);
        }
        flush(&mut to.link)?;
        // In the batch some left earlier than this: what is counted is never less than the truth.
        let sent_ns = self::now_ns();
        for due_ns in &self.batch {
            from.late.add(sent_ns.saturating_sub(*due_ns));
        }
        Ok(self.batch.len())
    }

    fn next_departure_ns(&self) -> Option<u64> {
        let next = self
            .ends
            .iter()
            .map(|end| end.direction.next_departure_ns());
        next.flatten().min()
    }

    /// Sleeps until the time has passed, until woken, or, if `watching`, until a frame comes.
    fn sleep(&mut self, now_ns: u64, timeout_ns: Option<u64>, watching: bool) -> Result<()> {
        for end in &mut self.ends {
            if watching && !end.link.prepare_wait() {
                return flush(&mut end.link);
            }
        }
        let mut flags = [PollFlags::empty(); 2];
        for (flags, end) in flags.iter_mut().zip(&mut self.ends) {
            flags.set(PollFlags::IN, watching);
            flags.set(PollFlags::OUT, end.link.wants_write());
        }
        let [a, b] = &self.ends;
        let (a, b, wake) = (a.link.fd(), b.link.fd(), self.shared.wake_fd());
        let all = [
            PollFd::new(&wake, PollFlags::IN),
            PollFd::new(&a, flags[0]),
            PollFd::new(&b, flags[1]),
        ];
        // Without flags a descriptor would still tell of errors, but also put us in the way of its wake-ups.
        let any = flags.iter().any(|flags| !flags.is_empty());
        let mut fds = all;
        let fds = if any { &mut fds[..] } else { &mut fds[..1] };
        let timeout = timeout_ns.map(Duration::from_nanos);
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        match poll(fds, timeout.as_ref()) {
            Ok(0) => {
                let asked_ns = timeout_ns.unwrap_or_default();
                let slept_ns = self::now_ns().saturating_sub(now_ns);
                self.waiting
                    .woke_late(asked_ns, slept_ns.saturating_sub(asked_ns));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Error::io("cannot wait for frames", e)),
        }
        if !fds[0].revents().is_empty() {
            self.shared.woken();
        }
        for end in &mut self.ends {
            if end.link.wants_write() {
                flush(&mut end.link)?;
            }
        }
        Ok(())
    }
}

fn flush(link: &mut XdpLink) -> Result<()> {
    link.flush().map_err(|e| {
        Error::io(
            format!("cannot send to interface {} of the wire", link.name()),
            e,
        )
        .mend("repair the lab with `exos lab up`")
    })
}

/// Takes every frame of an interface.
fn open_link(interface: &str) -> Result<XdpLink> {
    let rules = vec![Rule {
        filter: Filter::everything(),
        action: Action::RedirectToSocket,
    }];
    XdpLink::open(&XdpConfig {
        super_packets: false,
        arrival_times: true,
        ..XdpConfig::new(interface, rules)
    })
}

/// Nanoseconds of the monotonic clock.
fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
