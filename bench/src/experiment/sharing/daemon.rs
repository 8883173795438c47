//! The daemon of these experiments, its policy, and what it used of the machine.

use super::figure::{Figures, Goal};
use super::protection::DOCUMENT;
use super::session::{Experiment, OURS, Session};
use crate::stage::Started;
use crate::stage::daemon::Daemon;
use crate::stage::web::{Connection, Lent};
use exos_host::{Error, Result};
use exos_lab::{INTERFACE, Side, WireKind};
use exos_program::status::{SlotStatus, Status};

/// A user with three times the weight of others, beside them.
pub(super) const HEAVY_UID: u32 = 65_501;
/// A user who may have 70 % of the link at most.
pub(super) const CAPPED_UID: u32 = 65_502;
/// What that is.
pub(super) const CAP: f64 = 0.7;

/// A user who may have the device's queue.
pub(super) const DIRECT_UID: u32 = 65_503;

/// Starts a daemon on side a, with a link of this many Mbit/s, or of what the device says.
pub(super) fn start<'s>(session: &'s Session<'_>, rate: Option<u64>) -> Result<Daemon<'s>> {
    let namespace = Side::A.namespace(&session.args.common.lab);
    Daemon::start(session, namespace, &policy(session.args.uid, rate))
}

/// The user whose programs are measured may claim everything, and is named: users whom no rule names have few grants
/// together. Some others have another weight, a cap, a queue of the device.
fn policy(uid: u32, rate: Option<u64>) -> String {
    let line = rate.map_or(String::new(), |mbit| format!("rate = \"{mbit}mbit\"\n"));
    let cap = rate.map_or(1000, |mbit| (mbit as f64 * CAP) as u64);
    let rules = [
        format!("user = \"{uid}\"\n"),
        format!("user = \"{DIRECT_UID}\"\nmodes = [\"shared\", \"direct\"]\n"),
        format!("user = \"{HEAVY_UID}\"\nweight = 3\n"),
        format!("user = \"{CAPPED_UID}\"\nweight = 2\nrate_max = \"{cap}mbit\"\n"),
    ];
    let allow = rules.map(|rule| {
        format!(
            "[[allow]]\n{rule}ports = [\"1-65535\"]\nmemory_max = \"1GiB\"\nprograms_max = 64\n"
        )
    });
    format!(
        "[[interface]]\nname = \"{INTERFACE}\"\naddresses = [\"{OURS}/24\"]\n{line}\n{}",
        allow.join("\n")
    )
}

/// A counter of a program's slot.
pub(super) fn counter(status: &Status, program: &Started, name: &str) -> Result<u64> {
    let slots = status.interfaces.iter().flat_map(|i| &i.slots);
    let mut own = slots.filter(|slot| slot.pid == Some(program.running.pid()));
    let count = |slot: &SlotStatus| slot.counters.get(name).copied();
    own.next()
        .and_then(count)
        .ok_or_else(|| Error::new(format!("the daemon does not report {name} of a program")))
}

pub(super) const EXPERIMENTS: [Experiment; 1] = [Experiment::new("daemon/busy", busy)];

/// A web server under load and a sender at full blast, as fast as the machine goes.
fn busy(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let _sink = session.sink()?;
    let daemon = start(session, None)?;
    let lent = Lent {
        daemon: &daemon,
        mode: "shared",
        uid: session.args.uid,
    };
    let serving = session.serve_lent(&session.lab, lent, DOCUMENT)?;
    let sender = session.sender(Some(&daemon), 9000, None)?;
    let sender = session.as_user(session.cores[0], &sender)?;
    session.settle()?;
    let (cpu, began) = (daemon.cpu_ns()?, std::time::Instant::now());
    session.load(&session.lab, &serving, Connection::Persistent, DOCUMENT)?;
    let used = (daemon.cpu_ns()? - cpu) as f64 / began.elapsed().as_nanos() as f64;
    figures.add_goal("daemon/busy/core", "of a core", Goal::AtMost(0.01), used);
    let resident = daemon.resident()? as f64 / 1e6;
    figures.add_goal("daemon/busy/resident", "MB", Goal::AtMost(20.0), resident);
    sender.stop()?;
    session.end(WireKind::Plain, serving)?;
    Ok(())
}
