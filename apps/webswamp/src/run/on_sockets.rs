//! The loop on the kernel's sockets.

use std::num::NonZeroU64;

use exos::signals::Signals;
use exos::{Error, clock};
use exos_host::limits::raise_descriptors;

use crate::options::LoadArgs;
use crate::sockets::{SocketId, Sockets};
use crate::target;

use super::Outcome;
use super::course::Course;
use super::probe;
use super::setup::Setup;

/// Runs the load.
pub(super) fn load(args: &LoadArgs, mut setup: Setup, signals: &Signals) -> Result<Outcome, Error> {
    setup.target.settle(|address| {
        if !args.yes_i_own_this_target {
            target::refuse_strangers_of_host(address.ip())?;
        }
        if !args.no_probe {
            probe::over_sockets(address, signals)?;
        }
        Ok(address)
    })?;
    let to = setup.target.address;
    raise_descriptors()?;
    // Requests begin when they are meant to, not when the kernel's timers are at it anyway. Where that is refused, slip
    // shows it.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let sockets = Sockets::new(to)?;
    sockets.watch(signals.fd())?;
    let course = setup.begin(args)?;
    let mut load = Load { sockets, course };
    load.run(signals)?;
    let now = clock::now();
    load.course.stop(now);
    let engine = &mut load.course.engine;
    engine.abort(now, usize::MAX, &mut load.sockets);
    Ok(load.course.outcome(Vec::new()))
}

/// A load that runs.
struct Load {
    sockets: Sockets,
    course: Course<SocketId>,
}

impl Load {
    /// Until the load is over, or a signal says so.
    fn run(&mut self, signals: &Signals) -> Result<(), Error> {
        loop {
            self.turn();
            let now = clock::now();
            let Some(due) = self.course.due(now, signals) else {
                return Ok(());
            };
            let looks_on = self.course.looks_on(now, due);
            self.sockets.wait(Some(if looks_on { now } else { due }))?;
        }
    }

    /// Takes in, asks and sends: each event at its own time, because each costs system calls.
    fn turn(&mut self) {
        let begun = clock::now();
        let (engine, sockets) = (&mut self.course.engine, &mut self.sockets);
        let under_way = engine.requests_under_way();
        let mut is_busy = false;
        while let Some(event) = sockets.poll_event() {
            let (token, set, reason) = (event.token, event.set, event.reason);
            engine.handle_event(clock::now(), token, set, reason, sockets);
            is_busy = true;
        }
        engine.handle_due(clock::now(), sockets);
        if let Some(shortage) = sockets.poll_shortage() {
            eprintln!("exos load: {shortage}");
        }
        if is_busy || engine.requests_under_way() != under_way {
            self.course.was_busy(begun);
        }
    }
}
