//! The loop on the kernel's sockets.

use std::net::SocketAddr;
use std::num::NonZeroU64;

use exos::{Error, clock};
use exos_host::limits::raise_descriptors;
use exos_inet::Instant;

use crate::driver::Driver;
use crate::http3::{OnSockets, Quic};
use crate::limits::{QUIC_DATAGRAM_SENT_LEN_MAX, QUIC_SOCKETS_MAX};
use crate::options::LoadArgs;
use crate::report::Results;
use crate::secured::Secured;
use crate::sockets::Sockets;
use crate::target;

use super::course::Course;
use super::others::Others;
use super::probe;
use super::setup::Setup;
use super::worker::{Beginning, ServerRoute, Worker};

/// Looks whether the server is there, and loads it from the first core.
pub(super) fn lead(
    args: &LoadArgs,
    setup: &Setup,
    worker: Worker<'_>,
    others: Others,
) -> Result<Option<Results>, Error> {
    others.start_on_sockets();
    let driver = setup.driver(&worker);
    if !worker.get_ready()? {
        return Ok(None);
    }
    let to = setup.target.settle(|address| {
        if !args.yes_i_own_this_target {
            target::refuse_strangers_of_host(address.ip())?;
        }
        if !args.no_probe {
            probe::over_sockets(address, setup.speaking(), &worker)?;
        }
        Ok(address)
    })?;
    raise_descriptors()?;
    let server_route = ServerRoute {
        to,
        routes: Vec::new(),
        gateways: Vec::new(),
        took: None,
    };
    let beginning = setup.beginning(args, vec![server_route], worker.is_alone());
    worker.begin(beginning.clone());
    Load::new(args, setup, worker, driver, &beginning)?
        .make()
        .map(Some)
}

/// Loads from another core, when the first says so.
pub(super) fn follow(
    args: &LoadArgs,
    setup: &Setup,
    worker: Worker<'_>,
) -> Result<Option<Results>, Error> {
    let driver = setup.driver(&worker);
    worker.get_ready()?;
    let Some(beginning) = worker.await_beginning()? else {
        return Ok(None);
    };
    Load::new(args, setup, worker, driver, &beginning)?
        .make()
        .map(Some)
}

/// A core's part of a load that runs.
struct Load<'a> {
    /// Those of TCP, and what all waiting is done with.
    sockets: Sockets,
    /// HTTP/3, where it is spoken.
    quic: Option<(Quic, OnSockets)>,
    course: Course<'a>,
}

impl<'a> Load<'a> {
    fn new(
        args: &LoadArgs,
        setup: &Setup,
        worker: Worker<'a>,
        driver: Box<dyn Driver>,
        beginning: &Beginning,
    ) -> Result<Self, Error> {
        // Requests begin when they are meant to, not when the kernel's timers are at it anyway. Where that is refused, slip
        // shows it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let sockets = Sockets::new(beginning.server_routes[0].to)?;
        sockets.watch(worker.fd())?;
        if let Some(signals) = worker.signals() {
            sockets.watch(signals)?;
        }
        let quic = datagrams(args, setup, &worker, beginning.server_routes[0].to)?;
        for fd in quic.iter().flat_map(|(_, datagrams)| datagrams.fds()) {
            sockets.watch(fd)?;
        }
        let course = setup.begin(args, worker, driver, beginning)?;
        Ok(Self {
            sockets,
            quic,
            course,
        })
    }

    /// From its begin to its end.
    fn make(mut self) -> Result<Results, Error> {
        self.run()?;
        self.course.stop(clock::now());
        let course = &mut self.course;
        let Some((mut quic, mut datagrams)) = self.quic.take() else {
            let mut secured = Secured::new(&mut self.sockets, course.sessions.as_mut());
            course.engine.abort(clock::now(), usize::MAX, &mut secured);
            return Ok(self.course.results(Vec::new()));
        };
        course.engine.abort(clock::now(), usize::MAX, &mut quic);
        datagrams.send(&mut quic);
        let counters = quic.counters();
        let counters = counters.map(|(name, count)| (name.to_owned(), count));
        Ok(self.course.results(counters.into()))
    }

    /// Until the load is over, or a signal says so.
    fn run(&mut self) -> Result<(), Error> {
        loop {
            self.turn();
            let now = clock::now();
            let Some(due) = self.course.due(now) else {
                return Ok(());
            };
            let quic = self.quic.as_ref();
            let quic = quic.and_then(|(quic, datagrams)| datagrams.poll_timeout(quic, now));
            let due = quic.map_or(due, |at| at.min(due));
            let looks_on = self.course.looks_on(now, due);
            self.sockets.wait(Some(if looks_on { now } else { due }))?;
        }
    }

    /// Takes in, asks and sends: each event at its own time, because each costs system calls.
    fn turn(&mut self) {
        let begun = clock::now();
        if self.quic.is_some() {
            return self.turn_of_quic(begun);
        }
        let (engine, sessions) = (&mut self.course.engine, &mut self.course.sessions);
        let mut secured = Secured::new(&mut self.sockets, sessions.as_mut());
        let under_way = engine.requests_under_way();
        let mut is_busy = false;
        while let Some(event) = secured.transport().poll_event() {
            secured.handle_event(engine, clock::now(), &event);
            is_busy = true;
        }
        engine.handle_due(clock::now(), &mut secured);
        if let Some(shortage) = self.sockets.poll_shortage() {
            exos_program::warn!("exos load: {shortage}");
        }
        if is_busy || engine.requests_under_way() != under_way {
            self.course.was_busy(begun);
        }
    }

    /// Takes in datagrams, asks and sends.
    fn turn_of_quic(&mut self, now: Instant) {
        let Some((quic, datagrams)) = &mut self.quic else {
            return;
        };
        let engine = &mut self.course.engine;
        let before = (engine.requests_under_way(), engine.statistics.responses);
        datagrams.turn(quic, engine, now);
        engine.handle_due(now, quic);
        datagrams.send(quic);
        if (engine.requests_under_way(), engine.statistics.responses) != before {
            self.course.was_busy(now);
        }
    }
}

/// What HTTP/3 is spoken with, where it is.
fn datagrams(
    args: &LoadArgs,
    setup: &Setup,
    worker: &Worker<'_>,
    to: SocketAddr,
) -> Result<Option<(Quic, OnSockets)>, Error> {
    let connections = worker.part().count(args.behaviour().slots.into()) as usize;
    let count = connections.clamp(1, QUIC_SOCKETS_MAX);
    if !args.http.is_http3() {
        return Ok(None);
    }
    let datagrams = OnSockets::new(to, count)?;
    let datagram_max = datagrams.are_whole().then_some(QUIC_DATAGRAM_SENT_LEN_MAX);
    let carried = (to, count, datagram_max);
    let quic = setup.quic(args, worker, carried, clock::now())?;
    Ok(quic.map(|quic| (quic, datagrams)))
}
