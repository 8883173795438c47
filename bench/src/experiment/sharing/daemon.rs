//! What the daemon used of the machine.

use super::session::{DOCUMENT, Experiment, Session};
use crate::experiment::figure::{Figures, Goal};
use crate::stage::request::Connection;
use crate::stage::web::Lent;
use exos_host::Result;
use exos_lab::WireKind;

pub(super) fn experiments() -> Vec<Experiment> {
    vec![Experiment::new("daemon/busy", busy)]
}

/// A web server under load and a sender at full blast, as fast as the machine goes.
fn busy(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let _sink = session.sink()?;
    let daemon = session.daemon_of(None)?;
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
    let document = (Connection::Persistent, DOCUMENT);
    session.load(&session.lab, &serving, document, || Ok(()))?;
    let used = (daemon.cpu_ns()? - cpu) as f64 / began.elapsed().as_nanos() as f64;
    figures.add_goal("daemon/busy/core", "of a core", Goal::AtMost(0.01), used);
    let resident = daemon.resident()? as f64 / 1e6;
    figures.add_goal("daemon/busy/resident", "MB", Goal::AtMost(20.0), resident);
    sender.stop()?;
    session.end(WireKind::Plain, serving)?;
    Ok(())
}
