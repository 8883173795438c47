//! The forwarding thread: frames from the ring of one end, through a [`Direction`], to the ring of the other.
//!
//! A turn takes in what came at both ends, then sends what is due at both. With nothing to do it looks again at
//! once while a frame is due within [`SPIN`], and sleeps otherwise until so long before; so it neither oversleeps
//! nor burns an idle processor. Everything is bounded: a batch from each ring, a batch to each.

use super::conditions::Conditions;
use super::direction::Direction;
use super::lateness::Histogram;
use super::shared::{Shared, Snapshot};
use super::statistics::{DirectionReport, OwnLosses};
use crate::limits::{IDLE_SPIN, SPIN};
use exos_filter::{Action, Filter, Rule};
use exos_host::{Error, Result};
use exos_link::{RX_BATCH, TxMeta, XdpConfig, XdpLink};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

/// One end of the wire, and what travels from it to the other.
struct End {
    link: XdpLink,
    direction: Direction,
    late: Histogram,
}

/// Both ends. Belongs to the thread that drives it.
pub(super) struct Forwarder {
    ends: [End; 2],
    shared: Arc<Shared>,
    /// When the last frame came or left.
    active_ns: u64,
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
                late: Histogram::default(),
            })
        };
        Ok(Self {
            ends: [end(interfaces[0], 0)?, end(interfaces[1], 1)?],
            shared,
            active_ns: 0,
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
            if self.is_soon(now_ns) {
                std::hint::spin_loop();
            } else {
                self.sleep(now_ns)?;
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
        DirectionReport {
            frames: end.direction.statistics(),
            own: OwnLosses {
                own_rx_ring_full: counter("kernel_rx_ring_full"),
                own_rx_dropped: counter("kernel_rx_dropped"),
                ..OwnLosses::default()
            },
            late: end.late.read(),
        }
    }

    /// True when a frame came or left.
    fn turn(&mut self) -> Result<bool> {
        let now_ns = now_ns();
        let mut moved = 0;
        for End {
            link, direction, ..
        } in &mut self.ends
        {
            moved += link.receive(|frame, _| direction.handle_frame(now_ns, frame));
        }
        for from in [0, 1] {
            moved += self.send_due(from)?;
        }
        if moved > 0 {
            self.active_ns = now_ns;
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

    /// True when it does not pay to fall asleep.
    fn is_soon(&self, now_ns: u64) -> bool {
        let idle_ns = now_ns.saturating_sub(self.active_ns);
        let due_soon = |due_ns: u64| due_ns.saturating_sub(now_ns) <= SPIN.as_nanos() as u64;
        idle_ns < IDLE_SPIN.as_nanos() as u64 || self.next_departure_ns().is_some_and(due_soon)
    }

    /// Sleeps until a frame comes, shortly before one is due, or until woken.
    fn sleep(&mut self, now_ns: u64) -> Result<()> {
        let left_ns = self
            .next_departure_ns()
            .map(|due_ns| due_ns - now_ns - SPIN.as_nanos() as u64);
        for end in &mut self.ends {
            if !end.link.prepare_wait() {
                return flush(&mut end.link);
            }
        }
        let writing = [0, 1].map(|n| self.ends[n].link.wants_write());
        let [a, b] = &self.ends;
        let flags = |writing| {
            if writing {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            }
        };
        let (a, b, wake) = (a.link.fd(), b.link.fd(), self.shared.wake_fd());
        let mut fds = [
            PollFd::new(&a, flags(writing[0])),
            PollFd::new(&b, flags(writing[1])),
            PollFd::new(&wake, PollFlags::IN),
        ];
        let timeout = left_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Error::io("cannot wait for frames", e)),
        }
        if !fds[2].revents().is_empty() {
            self.shared.woken();
        }
        for (end, writing) in self.ends.iter_mut().zip(writing) {
            if writing {
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
        ..XdpConfig::new(interface, rules)
    })
}

/// Nanoseconds of the monotonic clock.
fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
