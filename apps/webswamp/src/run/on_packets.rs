//! The loop on a stack of our own.

use std::net::SocketAddr;
use std::time::Duration;

use exos::{Attachment, Core, Error, Exos, Role};
use exos_inet::Instant;
use exos_inet::tcp::Options;
use exos_program::{Needs, taken_back, tell_news};

use crate::http3::{OnPackets, Quic};
use crate::limits::{
    ABORTS_AT_ONCE, ABORTS_PAUSE, GOODBYE_TIME, PORTS_AHEAD, QUIC_HEADERS_LEN,
    QUIC_SOCKETS_LENT_MAX, QUIC_SOCKETS_MAX,
};
use crate::options::LoadArgs;
use crate::packets::{Lent, Packets};
use crate::ports::Ports;
use crate::report::Results;
use crate::secured::Secured;
use crate::target;

use super::course::Course;
use super::link_choice;
use super::others::Others;
use super::probe;
use super::setup::Setup;
use super::windows;
use super::worker::{Beginning, ServerRoute, Worker};

/// Attaches, looks whether the server is there, and loads it from the first core.
pub(super) fn lead(
    args: &LoadArgs,
    setup: &Setup,
    worker: Worker<'_>,
    others: Others,
) -> Result<Option<Results>, Error> {
    let (mut exos, rest) = attach(args, setup, &worker)?;
    others.start(rest);
    let driver = setup.driver(&worker);
    if !worker.get_ready()? {
        return Ok(None);
    }
    let server_route = settle(args, setup, &mut exos, &worker)?;
    let (to, took) = (server_route.to, server_route.took);
    worker.set_server_route(server_route);
    let mut ports = Ports::default();
    if let Some(via) = exos.via() {
        let count = PORTS_AHEAD.min(args.behaviour().slots as usize);
        ports.prepare(count, || via.claim_ephemeral(to).map_err(|e| e.to_string()));
    }
    let beginning = setup.beginning(args, worker.server_routes(), worker.is_alone());
    worker.begin(beginning.clone());
    let quic = datagrams(args, setup, &worker, &mut exos, to)?;
    let course = setup.begin(args, worker, driver, &beginning)?;
    let load = Load::new(exos, ports, args, (to, took), course);
    Load { quic, ..load }.make().map(Some)
}

/// Loads from another core, when the first says so. The first one of a link looks before that whether the server is there.
pub(super) fn follow(
    args: &LoadArgs,
    setup: &Setup,
    worker: Worker<'_>,
    core: Core,
) -> Result<Option<Results>, Error> {
    let mut exos = core.start()?;
    let driver = setup.driver(&worker);
    if worker.place.shares_core {
        exos.share_core();
    }
    if worker.place.is_first_of_link {
        worker.set_server_route(settle(args, setup, &mut exos, &worker)?);
    }
    worker.get_ready()?;
    let Some(beginning) = hand_on(&mut exos, &worker)? else {
        return Ok(None);
    };
    let server_route = beginning.server_routes[worker.place.link].clone();
    let taken = exos
        .stack
        .set_routes(server_route.routes, server_route.gateways);
    taken.map_err(|e| Error::new(format!("no route to {}: {e}", server_route.to)))?;
    let course = setup.begin(args, worker, driver, &beginning)?;
    let server = (server_route.to, server_route.took);
    let load = Load::new(exos, Ports::default(), args, server, course);
    load.make().map(Some)
}

/// Until the load begins, or the first core has ended without: what comes by this core's queue is the first one's.
fn hand_on(exos: &mut Exos, worker: &Worker<'_>) -> Result<Option<Beginning>, Error> {
    loop {
        worker.clear_doorbell();
        if worker.is_first_gone() {
            return Ok(None);
        }
        if let Some(beginning) = worker.beginning() {
            return Ok(Some(beginning.clone()));
        }
        exos.receive();
        while exos.stack.poll_event().is_some() {}
        exos.send()?;
        exos.wait(None, &[worker.fd()])?;
    }
}

/// The first loop's stack, and what the others begin with.
fn attach(args: &LoadArgs, setup: &Setup, worker: &Worker<'_>) -> Result<(Exos, Vec<Core>), Error> {
    let needs = needs(args, setup, worker)?;
    let settle = |wanted| Attachment {
        // The server may have connections of an earlier load in TIME-WAIT.
        seed: Some(args.seed),
        verify_checksums: !args.no_verify_checksums,
        ..wanted
    };
    let attachments = args.link.attachments(&needs)?.into_iter().map(settle);
    let mut attachments: Vec<Attachment> = attachments.collect();
    if attachments.len() > 1 {
        let lead = |all: Vec<Vec<Core>>| Core::lead(all.into_iter().flatten());
        let mut exos = args.user.open_each(attachments, lead)?;
        if worker.place.shares_core {
            exos.share_core();
        }
        let others = exos.take_cores();
        return Ok((exos, others));
    }
    let attachment = attachments.remove(0);
    let attachment = link_choice::lead(args, &needs[0], attachment, setup.target.addresses())?;
    let (mut exos, ()) = args.user.attach(attachment, |_| Ok(()))?;
    let others = exos.take_cores();
    Ok((exos, others))
}

/// What the load wants of each link.
fn needs(args: &LoadArgs, setup: &Setup, worker: &Worker<'_>) -> Result<Vec<Needs>, Error> {
    let each = args.pools()?.into_iter().zip(worker.loops_of_links());
    let of_link = |(pools, cores)| Needs {
        pools,
        cores,
        datagrams: args.http.is_http3(),
        ..Needs::new(Role::Connect(setup.target.addresses().to_vec()))
    };
    Ok(each.map(of_link).collect())
}

/// How the link reaches the server: its first address that will do, which has taken a connection unless nobody is to look.
fn settle(
    args: &LoadArgs,
    setup: &Setup,
    exos: &mut Exos,
    worker: &Worker<'_>,
) -> Result<ServerRoute, Error> {
    let options = windows::for_records(args.tcp.options());
    let mut took = None;
    let settled = setup.target.settle(|address| {
        if worker.place.interface.is_some()
            && exos.stack.routes().1.next_hop(address.ip()).is_none()
        {
            return Err(Error::new(format!("no route leads to {address}"))
                .mend("give its --link a --gateway, or leave the link out"));
        }
        target::refuse_in_pools(&args.pool, address.ip())?;
        let address = target::by_way_of(exos, address);
        if !args.yes_i_own_this_target {
            target::refuse_strangers(exos.stack.addresses(), address.ip())?;
        }
        if !args.no_probe {
            let speaking = setup.speaking();
            took = Some(probe::over_packets(
                exos, address, &options, speaking, worker,
            )?);
        }
        Ok(address)
    });
    let to = settled.map_err(|e| match &worker.place.interface {
        Some(interface) => Error {
            what: format!("on {interface}: {}", e.what),
            ..e
        },
        None => e,
    })?;
    let config = exos.stack.config();
    Ok(ServerRoute {
        to,
        routes: config.routes.clone(),
        gateways: config.gateways.clone(),
        took,
    })
}

/// A core's part of a load that runs.
struct Load<'a> {
    exos: Exos,
    /// Those of ours on a link that a daemon lends.
    ports: Ports,
    /// How long it was busy before the load began.
    busy_before: Duration,
    to: SocketAddr,
    options: Options,
    /// HTTP/3, where it is spoken.
    quic: Option<(Quic, OnPackets)>,
    /// Connections that it resets in one go: its part of those that servers take in.
    aborts_at_once: usize,
    course: Course<'a>,
}

impl<'a> Load<'a> {
    /// To a server that took so long to take a connection, where that is known.
    fn new(
        exos: Exos,
        ports: Ports,
        args: &LoadArgs,
        (to, took): (SocketAddr, Option<Duration>),
        course: Course<'a>,
    ) -> Self {
        let connections = course.worker.part().count(args.behaviour().slots.into());
        let is_fixed = args.tcp.receive_buffer.is_some();
        let options = windows::bounded(args.tcp.options(), connections, took, is_fixed);
        let options = match course.sessions {
            Some(_) => windows::for_records(options),
            None => options,
        };
        let aborts_at_once = course.worker.part().count(ABORTS_AT_ONCE as u64).max(1);
        Self {
            busy_before: exos.busy(),
            exos,
            ports,
            to,
            options,
            quic: None,
            aborts_at_once: aborts_at_once as usize,
            course,
        }
    }

    /// From its begin to its end.
    fn make(mut self) -> Result<Results, Error> {
        self.run()?;
        self.stop()?;
        let mut counters = self.exos.counters();
        let quic = self.quic.iter().flat_map(|(quic, _)| quic.counters());
        counters.extend(quic.map(|(name, count)| (name.to_owned(), count)));
        Ok(self.course.results(counters))
    }

    /// Until the load is over, or a signal says so.
    fn run(&mut self) -> Result<(), Error> {
        loop {
            self.turn()?;
            let Some(due) = self.course.due(self.exos.now()) else {
                return Ok(());
            };
            if tell_news("load", &mut self.exos) {
                return Err(taken_back());
            }
            let quic = self.quic.as_ref();
            let (now, stack) = (self.exos.now(), &self.exos.stack);
            let quic = quic.and_then(|(quic, datagrams)| datagrams.poll_timeout(quic, now, stack));
            let due = quic.map_or(due, |at| at.min(due));
            let fds = self.course.worker.fds();
            if self.course.looks_on(self.exos.now(), due) {
                self.exos.look_on(Some(due), &fds)?;
            } else {
                self.exos.wait(Some(due), &fds)?;
            }
        }
    }

    /// Takes in, asks, sends.
    fn turn(&mut self) -> Result<(), Error> {
        self.exos.receive();
        let now = self.exos.now();
        if self.quic.is_some() {
            return self.turn_of_quic(now);
        }
        while let Some(event) = self.exos.stack.poll_event() {
            let mut packets = packets(&mut self.exos, &mut self.ports, &self.options, self.to);
            let course = &mut self.course;
            Secured::new(&mut packets, course.sessions.as_mut()).handle_event(
                &mut course.engine,
                now,
                &event,
            );
        }
        let mut packets = packets(&mut self.exos, &mut self.ports, &self.options, self.to);
        let course = &mut self.course;
        let mut secured = Secured::new(&mut packets, course.sessions.as_mut());
        course.engine.handle_due(now, &mut secured);
        if let Some(shortage) = self.ports.poll_shortage() {
            exos_program::warn!("exos load: {shortage}");
        }
        self.exos.send()?;
        self.course.effort.busy = self.exos.busy() - self.busy_before;
        Ok(())
    }

    /// Takes in datagrams, asks, sends.
    fn turn_of_quic(&mut self, now: Instant) -> Result<(), Error> {
        let Self {
            exos, quic, course, ..
        } = self;
        let Some((quic, datagrams)) = quic else {
            return Ok(());
        };
        while exos.stack.poll_event().is_some() {}
        quic.begin_turn(now);
        datagrams.receive(quic, &mut exos.stack);
        quic.tell(&mut course.engine, now);
        course.engine.handle_due(now, quic);
        datagrams.send(quic, &mut exos.stack, now);
        exos.send()?;
        course.effort.busy = exos.busy() - self.busy_before;
        Ok(())
    }

    /// Resets what is open, and what is ending and does not come to its end soon: nothing is left half open.
    fn stop(&mut self) -> Result<(), Error> {
        let now = self.exos.now();
        self.course.stop(now);
        self.course.worker.clear_doorbell();
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
        for some in left.chunks(self.aborts_at_once) {
            some.iter().for_each(|&id| self.exos.stack.tcp.abort(id));
            self.pause(self.exos.now() + ABORTS_PAUSE)?;
        }
        while self.exos.send()? > 0 {}
        // What comes here may be for another core, as long as that has something open.
        self.course.worker.clear_doorbell();
        while !self.course.worker.has_left() {
            self.turn_away(self.exos.now() + GOODBYE_TIME)?;
            self.course.worker.clear_doorbell();
        }
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
            if let Some((quic, datagrams)) = &mut self.quic {
                self.course.engine.abort(now, usize::MAX, quic);
                datagrams.send(quic, &mut self.exos.stack, now);
                while self.exos.send()? > 0 {}
                return Ok(());
            }
            let mut packets = packets(&mut self.exos, &mut self.ports, &self.options, self.to);
            let course = &mut self.course;
            let mut secured = Secured::new(&mut packets, course.sessions.as_mut());
            let engine = &mut course.engine;
            if engine.abort(now, self.aborts_at_once, &mut secured) {
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
        self.exos.wait(Some(until), &[self.course.worker.fd()])?;
        self.exos.receive();
        while self.exos.stack.poll_event().is_some() {}
        Ok(())
    }
}

fn packets<'a>(
    exos: &'a mut Exos,
    ports: &'a mut Ports,
    options: &'a Options,
    to: SocketAddr,
) -> Packets<'a> {
    let now = exos.now();
    let (stack, via) = exos.stack_and_via();
    Packets {
        now,
        stack,
        options,
        to,
        lent: via.map(|via| Lent { via, ports }),
    }
}

/// What HTTP/3 is spoken with, where it is.
fn datagrams(
    args: &LoadArgs,
    setup: &Setup,
    worker: &Worker<'_>,
    exos: &mut Exos,
    to: SocketAddr,
) -> Result<Option<(Quic, OnPackets)>, Error> {
    if !args.http.is_http3() {
        return Ok(None);
    }
    let most = match exos.via() {
        Some(_) => QUIC_SOCKETS_LENT_MAX,
        None => QUIC_SOCKETS_MAX,
    };
    let count = (args.behaviour().slots as usize).clamp(1, most);
    let carrier = OnPackets::open(exos, to, count)?;
    let datagram_max = exos.stack.config().mtu.saturating_sub(QUIC_HEADERS_LEN);
    let datagram_max = u16::try_from(datagram_max).unwrap_or(u16::MAX);
    let quic = setup.quic(args, worker, (to, count, Some(datagram_max)), exos.now())?;
    Ok(quic.map(|quic| (quic, carrier)))
}
