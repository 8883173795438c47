//! The two ends, run in turn.

use super::Cell;
use super::asked::Question;
use super::cache::PORT as CACHE_PORT;
use super::client::{Answered, Asking};
use super::crowd::Busy;
use super::server::{Counters, PORT, Served, Way};
use crate::experiment::figure::{Figures, Goal};
use crate::stage::LabStage;
use crate::stage::daemon::Daemon;
use crate::stage::helper::{Helper, Helping};
use exos_filter::gate::limits::RATE_MAX;
use exos_host::Result;
use exos_lab::{INTERFACE, Side};
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The kernel's address on side a.
pub(super) const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
/// Addresses that the kernel does not have: the server's there, and the client's on side b.
pub(super) const OURS: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 10);
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 99);

/// Messages under way where it is about how many are answered.
pub(super) const UNDER_WAY: u32 = 64;
/// Bytes of a message where it is about time.
const SHORT: u16 = 12;

/// How long a download may take, to the first message that the kernel answers.
const DOWNLOAD_US: f64 = 5000.0;
/// The user, without privilege, whose program has its handler by the daemon.
const UID: u32 = 65_534;

pub(super) struct Session {
    pub stage: LabStage,
    /// Less is done where it is not a time that says how much.
    pub is_quick: bool,
}

impl std::ops::Deref for Session {
    type Target = LabStage;

    fn deref(&self) -> &LabStage {
        &self.stage
    }
}

/// What was seen of one way.
struct Seen {
    answered: Answered,
    served: Served,
    /// How busy the server's core was, and the client's.
    busy: [f64; 2],
}

impl Session {
    pub fn round_trips(&self, figures: &mut Figures) -> Result<()> {
        let mut medians = Vec::new();
        for way in Way::ALL {
            let seen = self.load(way, SHORT, 1, None)?.answered;
            figures.add(format!("roundtrip/{way}"), "us", seen.median_us);
            figures.add(format!("roundtrip/{way}/p99"), "us", seen.p99_us);
            medians.push((way, seen.median_us));
        }
        for (at, (handler, own)) in medians.iter().enumerate() {
            let others = medians[at + 1..].iter().filter(|_| handler.is_handler());
            for (way, median) in others {
                let (name, ratio) = (format!("roundtrip/{handler}/{way}"), own / median);
                match way {
                    Way::KernelSleeping => figures.add_goal(name, "", Goal::AtMost(0.2), ratio),
                    _ => figures.add(name, "", ratio),
                }
            }
        }
        Ok(())
    }

    pub fn rates(&self, cell: Cell, bytes: u16, figures: &mut Figures) -> Result<()> {
        for way in Way::ALL {
            let seen = self.load(way, bytes, UNDER_WAY, None)?;
            let name = format!("{cell}/{way}");
            figures.add(name.clone(), "req/s", seen.answered.per_sec);
            let [server, client] = seen.busy;
            figures.add(format!("{name}/busy"), "of a core", server);
            figures.add(format!("{name}/client-busy"), "of a core", client);
        }
        Ok(())
    }

    /// Each way alone on its core, and then beside the others.
    pub fn crowd(&self, cell: Cell, programs: u32, figures: &mut Figures) -> Result<()> {
        let ways = [
            Way::Handler,
            Way::HandlerDaemon,
            Way::Polling,
            Way::Sleeping,
            Way::KernelSleeping,
        ];
        for way in ways {
            // All of them together: what waits for the core for long is rare, and long.
            let mean_us = |seen: Seen| 1e6 / seen.answered.per_sec;
            let alone = mean_us(self.load(way, SHORT, 1, None)?);
            let crowd = (0..programs).map(|_| self.busy());
            let crowd = crowd.collect::<Result<Vec<_>>>()?;
            let beside = mean_us(self.load(way, SHORT, 1, None)?);
            crowd.into_iter().try_for_each(Helping::stop)?;
            let name = format!("{cell}/{way}");
            figures.add(name.clone(), "us", beside);
            let (name, ratio) = (format!("{name}/alone"), beside / alone);
            match way {
                way if way.is_handler() => {
                    figures.add_goal(name, "", Goal::AtMost(1.1), ratio);
                }
                _ => figures.add(name, "", ratio),
            }
        }
        Ok(())
    }

    fn busy(&self) -> Result<Helping<Busy>> {
        let busy = Busy {
            seconds: 10.0 * self.seconds + 60.0,
        };
        self.helper(Side::A, &busy)
    }

    /// The program answers itself, and then has the kernel do it: on the interface, and by the daemon.
    pub fn download(&self, figures: &mut Figures) -> Result<()> {
        for way in Way::ALL.into_iter().filter(|way| way.is_handler()) {
            let seen = self.load(way, SHORT, UNDER_WAY, Some(self.seconds / 2.0))?;
            let mut add = |what: &str, unit, most, value| {
                let name = match way {
                    Way::Handler => format!("download/{what}"),
                    way => format!("download/{way}/{what}"),
                };
                figures.add_goal(name, unit, Goal::AtMost(most), value);
            };
            if let Some(download) = seen.served.download {
                add("in-force", "us", DOWNLOAD_US, download.in_force_us);
                if let Some(us) = download.first_us {
                    add("first", "us", DOWNLOAD_US, us);
                }
            }
            add("lost", "messages", 0.0, seen.answered.lost as f64);
        }
        Ok(())
    }

    /// Starts the client.
    pub fn ask(&self, question: Question, to: Ipv4Addr, under_way: u32) -> Result<Helping<Asking>> {
        let asking = Asking {
            question,
            to: to.into(),
            from: CLIENT.into(),
            seconds: self.seconds,
            under_way,
        };
        self.helper(Side::B, &asking)
    }

    /// Has a server of this way asked by the client.
    fn load(&self, way: Way, length: u16, under_way: u32, after: Option<f64>) -> Result<Seen> {
        let at = if way.is_kernels() { KERNEL } else { OURS };
        let daemon = self.daemon_for(way == Way::HandlerDaemon)?;
        let counters = Counters {
            way,
            at: at.into(),
            after,
            daemon: socket_of(&daemon),
        };
        let server = self.serve(&daemon, &counters)?;
        let client = self.ask(Question::increment(length), at, under_way)?;
        let busy = self.busy_cores(self.seconds)?;
        let answered = client.measured(self, self.seconds)?;
        let served = server.stop_measured()?;
        Ok(Seen {
            answered,
            served,
            busy,
        })
    }

    /// Where it is wanted, a daemon on side a, by which the user may have the servers' ports, memory for a cache, and steps without limit.
    pub fn daemon_for(&self, is_wanted: bool) -> Result<Option<Daemon<'_>>> {
        let policy = format!(
            "[[interface]]\nname = \"{INTERFACE}\"\naddresses = [\"{OURS}/24\"]\n\n\
             [[allow]]\nuser = \"{UID}\"\nports = [\"{PORT}\", \"{CACHE_PORT}\"]\n\
             memory_max = \"256MiB\"\nhandler_steps = {RATE_MAX}\n"
        );
        let namespace = Side::A.namespace(self.lab.name());
        let start = || Daemon::start(self, namespace, &policy);
        is_wanted.then(start).transpose()
    }

    /// Starts a server on its core of side a: by the daemon, if there is one, as the user.
    pub fn serve<H: Helper>(&self, daemon: &Option<Daemon<'_>>, server: &H) -> Result<Helping<H>> {
        match daemon {
            Some(_) => self.help_as(UID, self.cores[0], server),
            None => self.helper(Side::A, server),
        }
    }
}

/// Where the daemon listens.
pub(super) fn socket_of(daemon: &Option<Daemon<'_>>) -> Option<PathBuf> {
    daemon.as_ref().map(|daemon| daemon.socket().into())
}
