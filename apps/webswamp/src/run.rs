//! `exos load`: sets up, runs the loop until the load is over, and reports.

use std::process::ExitCode;

use exos::signals::Signals;
use exos::{Attachment, Error, Exos, clock};
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Options};
use exos_program::{taken_back, tell_news};

use crate::engine::{Engine, Shape};
use crate::options::LoadArgs;
use crate::packets::Packets;
use crate::report::{Effort, Report};
use crate::schedule::Schedule;
use crate::target::{self, Target};

/// Runs the load.
///
/// # Errors
///
/// It could not be begun, or its link was taken away.
pub fn run(args: &LoadArgs) -> Result<ExitCode, Error> {
    let duration = args.duration()?;
    let plan = args.plan(duration)?;
    for note in &plan.notes {
        eprintln!("exos load: {note}");
    }
    let mut target = Target::find(&plan.url)?;
    let phases = if plan.beats.is_none() && args.is_open() {
        args.phases(duration)?
    } else {
        Vec::new()
    };
    args.link.pin()?;
    // The server may have connections of an earlier load in TIME-WAIT.
    let attachment = Attachment {
        seed: Some(args.seed),
        ..args.link.attachment(0)?
    };
    let exos = Exos::attach(&attachment)?;
    if let Some(pair) = exos.pair() {
        target.address = target::by_way_of(pair, target.address);
    }
    if !args.yes_i_own_this_target {
        target::refuse_strangers(&exos.stack, target.address.ip())?;
    }
    let signals = Signals::catch()?;
    let start = clock::now();
    let shape = match plan.beats {
        Some((beats, speed)) => Shape::Open(Schedule::replay(beats, speed, start)),
        None if args.is_open() => {
            Shape::Open(Schedule::new(phases, args.arrivals(), args.seed, start))
        }
        None => Shape::Closed,
    };
    let measured_from = start + args.warm_up;
    let engine = Engine::new(args.behaviour(), shape, plan.driver, start, measured_from);
    let mut load = Load {
        exos,
        engine,
        target,
        options: args.tcp.options(),
        until: start + duration,
        effort: Effort::start(start),
    };
    load.run(&signals)?;
    load.stop()?;
    let counters = load.exos.counters();
    let report = Report::new(&load.engine.statistics, load.effort, &counters);
    print!(
        "{}",
        if args.json {
            report.json()
        } else {
            report.text()
        }
    );
    Ok(ExitCode::SUCCESS)
}

/// A load that runs.
struct Load {
    exos: Exos,
    engine: Engine<ConnectionId>,
    target: Target,
    options: Options,
    until: Instant,
    effort: Effort,
}

impl Load {
    /// Until the load is over, or a signal says so.
    fn run(&mut self, signals: &Signals) -> Result<(), Error> {
        while !self.engine.is_over() && !signals.stop_requested() {
            self.turn()?;
            let now = self.exos.now();
            if now >= self.until {
                self.engine.end(now);
            }
            if tell_news("load", &mut self.exos) {
                return Err(taken_back());
            }
            let due = self.engine.poll_timeout().unwrap_or(self.until);
            let due = if now < self.until {
                due.min(self.until)
            } else {
                due
            };
            self.exos.wait(Some(due), &[signals.fd()])?;
        }
        Ok(())
    }

    /// Takes in, asks, sends.
    fn turn(&mut self) -> Result<(), Error> {
        let received = self.exos.receive();
        let now = self.exos.now();
        while let Some(event) = self.exos.stack.poll_event() {
            let mut packets = packets(&mut self.exos, &self.options, &self.target);
            let (token, set, reason) = (event.token, event.set, event.reason);
            self.engine
                .handle_event(now, token, set, reason, &mut packets);
        }
        let mut packets = packets(&mut self.exos, &self.options, &self.target);
        self.engine.handle_due(now, &mut packets);
        let sent = self.exos.send()?;
        if received + sent > 0 {
            self.effort.busy += clock::now() - now;
        }
        Ok(())
    }

    /// Resets what is open, and lets that out.
    fn stop(&mut self) -> Result<(), Error> {
        let now = self.exos.now();
        self.engine.end(now);
        self.effort.stop(now);
        let mut packets = packets(&mut self.exos, &self.options, &self.target);
        self.engine.abort(now, &mut packets);
        while self.exos.send()? > 0 {}
        self.exos.leave();
        Ok(())
    }
}

fn packets<'a>(exos: &'a mut Exos, options: &'a Options, target: &Target) -> Packets<'a> {
    Packets {
        now: exos.now(),
        stack: &mut exos.stack,
        options,
        to: target.address,
    }
}
