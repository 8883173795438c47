//! The loop on a stack of our own.

use std::time::Duration;

use exos::signals::Signals;
use exos::{Attachment, Error, Exos};
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Options};
use exos_program::{taken_back, tell_news};

use crate::limits::{ABORTS_AT_ONCE, ABORTS_PAUSE, GOODBYE_TIME, PORTS_AHEAD};
use crate::options::LoadArgs;
use crate::packets::{Lent, Packets};
use crate::ports::Ports;
use crate::target::{self, Target};

use super::Outcome;
use super::course::Course;
use super::probe;
use super::setup::Setup;
use super::way;

/// Runs the load.
pub(super) fn load(args: &LoadArgs, mut setup: Setup, signals: &Signals) -> Result<Outcome, Error> {
    // The server may have connections of an earlier load in TIME-WAIT.
    let attachment = Attachment {
        seed: Some(args.seed),
        pools: args.pool.clone(),
        peers: setup.target.addresses().to_vec(),
        verify_checksums: !args.no_verify_checksums,
        ..args.link.attachment(0)?
    };
    let attachment = way::lead(args, attachment, setup.target.addresses())?;
    let mut exos = Exos::attach(&attachment)?;
    let options = args.tcp.options();
    setup.target.settle(|address| {
        target::refuse_in_pools(&args.pool, address.ip())?;
        let address = target::by_way_of(&mut exos, address);
        if !args.yes_i_own_this_target {
            target::refuse_strangers(exos.stack.addresses(), address.ip())?;
        }
        if !args.no_probe {
            probe::over_packets(&mut exos, address, &options, signals)?;
        }
        Ok(address)
    })?;
    let mut ports = Ports::default();
    let to = setup.target.address;
    if let Some(via) = exos.via() {
        let count = PORTS_AHEAD.min(args.behaviour().slots as usize);
        ports.prepare(count, || via.claim_ephemeral(to).map_err(|e| e.to_string()));
    }
    let mut load = Load {
        busy_before: exos.busy(),
        exos,
        ports,
        target: setup.target.clone(),
        options,
        course: setup.begin(args)?,
    };
    load.run(signals)?;
    load.stop()?;
    let counters = load.exos.counters();
    Ok(load.course.outcome(counters))
}

/// A load that runs.
struct Load {
    exos: Exos,
    /// Those of ours on a link that a daemon lends.
    ports: Ports,
    /// How long it was busy before the load began.
    busy_before: Duration,
    target: Target,
    options: Options,
    course: Course<ConnectionId>,
}

impl Load {
    /// Until the load is over, or a signal says so.
    fn run(&mut self, signals: &Signals) -> Result<(), Error> {
        loop {
            self.turn()?;
            let Some(due) = self.course.due(self.exos.now(), signals) else {
                return Ok(());
            };
            if tell_news("load", &mut self.exos) {
                return Err(taken_back());
            }
            if self.course.looks_on(self.exos.now(), due) {
                self.exos.look_on()?;
            } else {
                self.exos.wait(Some(due), &[signals.fd()])?;
            }
        }
    }

    /// Takes in, asks, sends.
    fn turn(&mut self) -> Result<(), Error> {
        self.exos.receive();
        let now = self.exos.now();
        while let Some(event) = self.exos.stack.poll_event() {
            let mut packets = packets(&mut self.exos, &mut self.ports, &self.options, &self.target);
            let (token, set, reason) = (event.token, event.set, event.reason);
            let engine = &mut self.course.engine;
            engine.handle_event(now, token, set, reason, &mut packets);
        }
        let mut packets = packets(&mut self.exos, &mut self.ports, &self.options, &self.target);
        self.course.engine.handle_due(now, &mut packets);
        if let Some(shortage) = self.ports.poll_shortage() {
            eprintln!("exos load: {shortage}");
        }
        self.exos.send()?;
        self.course.effort.busy = self.exos.busy() - self.busy_before;
        Ok(())
    }

    /// Resets what is open, and what is ending and does not come to its end soon: nothing is left half open.
    fn stop(&mut self) -> Result<(), Error> {
        let now = self.exos.now();
        self.course.stop(now);
        let is_opening = self.course.engine.is_opening();
        self.give_up()?;
        if is_opening {
            // A server that has yet to answer a SYN has a connection then, which it would keep if nobody refused it.
            self.pause(self.exos.now() + GOODBYE_TIME)?;
        }
        let until = self.exos.now() + GOODBYE_TIME;
        while self.exos.stack.tcp.connections() > 0 && self.exos.now() < until {
            self.turn_away(until)?;
        }
        let left = self.exos.stack.tcp.connections_where(|_| true);
        for some in left.chunks(ABORTS_AT_ONCE) {
            some.iter().for_each(|&id| self.exos.stack.tcp_abort(id));
            self.pause(self.exos.now() + ABORTS_PAUSE)?;
        }
        while self.exos.send()? > 0 {}
        // What has come by now is counted, and answered.
        self.exos.receive();
        while self.exos.send()? > 0 {}
        self.exos.leave();
        Ok(())
    }

    /// Resets what clients have open.
    fn give_up(&mut self) -> Result<(), Error> {
        loop {
            let now = self.exos.now();
            let mut packets = packets(&mut self.exos, &mut self.ports, &self.options, &self.target);
            let engine = &mut self.course.engine;
            if engine.abort(now, ABORTS_AT_ONCE, &mut packets) {
                while self.exos.send()? > 0 {}
                return Ok(());
            }
            self.pause(now + ABORTS_PAUSE)?;
        }
    }

    /// Takes in what comes until this.
    fn pause(&mut self, until: Instant) -> Result<(), Error> {
        loop {
            self.turn_away(until)?;
            if self.exos.now() >= until {
                return Ok(());
            }
        }
    }

    /// Sends what is to be sent, and takes in what comes. Nobody wants to hear of it any more.
    fn turn_away(&mut self, until: Instant) -> Result<(), Error> {
        while self.exos.send()? > 0 {}
        self.exos.wait(Some(until), &[])?;
        self.exos.receive();
        while self.exos.stack.poll_event().is_some() {}
        Ok(())
    }
}

fn packets<'a>(
    exos: &'a mut Exos,
    ports: &'a mut Ports,
    options: &'a Options,
    target: &Target,
) -> Packets<'a> {
    let now = exos.now();
    let (stack, via) = exos.stack_and_via();
    Packets {
        now,
        stack,
        options,
        to: target.address,
        lent: via.map(|via| Lent { via, ports }),
    }
}
