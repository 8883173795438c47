//! The program: sets up, runs the loop, stops in order.
//!
//! Each frame is shown to the forwarder first, where it lies in the link's memory. One that goes on gets the link address
//! of its next hop and leaves from where it is; only while a neighbour is asked for is it copied, to wait.

mod follow;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use exos::signals::{Ask, Signals};
use exos::{Error, Exos, Prefixed, clock};
use exos_filter::handler::forward::flows::HashKey;
use exos_inet::Instant;
use exos_program::{Idle, Printer, Stream, taken_back, tell_news};
use serde::Serialize;
use serde_json::json;

use crate::answers::Answers;
use crate::checking::Checking;
use crate::config;
use crate::control::{self, ControlServer, Kind, Request};
use crate::exporter::Exporter;
use crate::forwarder::Forwarder;
use crate::health::Rule;
use crate::keeper::Keeper;
use crate::kernel::Kernel;
use crate::lent;
use crate::limits::{CONTROL_EVERY, LAST_PAUSE, LAST_TURNS_MAX};
use crate::looking::Looking;
use crate::names::Names;
use crate::onward::{address_made, send_on};
use crate::options::{ForwardArgs, Other, Place};
use crate::predecessor::Predecessor;
use crate::rehearsal::rehearse;
use crate::seeking::{self, Seeking};
use crate::service::{Changes, Services};
use crate::setup::{attach, check_affinity, check_kernel, check_listeners, listens, source};
use crate::statistics;
use crate::wanted::Wanted;

/// `exos forward`.
///
/// # Errors
///
/// What is wanted does not fit together, or the link cannot be had or has gone.
pub fn run(args: &ForwardArgs) -> Result<ExitCode, Error> {
    if let Some(Other::Ctl(args)) = &args.other {
        return control::run(args);
    }
    if args.splice {
        return crate::splice::run(args);
    }
    if let (Some(file), Some(None)) = (&args.config, &args.health.check) {
        config::check(file, args).map_err(|errors| Error::new(errors.to_string()))?;
        // Nobody may be reading; the status says it too.
        let _ = writeln!(std::io::stdout(), "{}: good", file.display());
        return Ok(ExitCode::SUCCESS);
    }
    let mut wanted = Wanted::of(args)?;
    if lent::is_lent(&wanted)? {
        lent::check(wanted.in_kernel, &wanted)?;
        lent::name_addresses(&mut wanted);
    }
    check_listeners(&wanted)?;
    check_kernel(wanted.in_kernel, &wanted)?;
    check_affinity(&wanted)?;
    let checks = wanted.health.rule()?.map(Checking::new);
    if let Some(file) = &args.config {
        wanted.user.warn_of_unreadable("forward", file);
    }
    let resolve = || Names::resolve(&wanted, args.config.as_deref());
    let mut names = wanted.user.as_user(resolve)?;
    let wanted = names.known().filled(&wanted)?;
    let before = predecessor(args, &wanted)?;
    if before.is_some() {
        rehearse(&wanted)?;
    }
    let listen = |path: &PathBuf| wanted.user.as_user(|| ControlServer::listen(path));
    let mut control = match &before {
        None => wanted.control.as_ref().map(listen).transpose()?,
        // When that one has given its own up.
        Some(_) => None,
    };
    let looking = Looking::new(Idle::or_by_room(args.idle, 1));
    wanted.link.pin()?;
    let mut exos = attach(&wanted, before)?;
    exos.check_relaying()?;
    if control.is_none() {
        control = wanted.control.as_ref().map(listen).transpose()?;
    }
    let exporter = wanted.metrics.map(Exporter::listen).transpose()?;
    let listens = listens(&wanted, &exos.stack)?;
    let mut services = Services::new(&listens).map_err(|misfit| Error::new(misfit.to_string()))?;
    services.set_names(names.known().by_address());
    names.in_force = listens;
    lent::claim(&mut exos, &wanted)?;
    let mac = exos.stack.config().mac;
    let mut forwarder = Forwarder::new(services, mac, wanted.flows, secret()?);
    forwarder.set_mtu(exos.stack.config().mtu);
    set_rules(&mut forwarder, &wanted);
    // A client belongs to the same server from the first packet on.
    while !forwarder.services_mut().build(usize::MAX) {}
    let keep = |path: &PathBuf| {
        let start = || Keeper::start(path, &mut forwarder);
        wanted.user.as_user(start)
    };
    let keeper = wanted.keep.as_ref().map(keep).transpose()?;
    if keeper.is_some() {
        lent::await_successor(&mut exos)?;
    }
    exos_program::info!("exos forward: {}", exos.describe_link());
    let mut answers = Answers::default();
    answers.take(&mut exos, forwarder.services())?;
    let kernel = match wanted.in_kernel {
        true => {
            let key = HashKey::new([secret()?, secret()?]);
            let kernel = Kernel::start(&mut exos, &mut forwarder, key);
            Some(kernel.map_err(not_in_kernel)?)
        }
        false => None,
    };
    if kernel.is_some() {
        forwarder.set_seen_elsewhere();
    }
    wanted.user.give_up()?;
    let signals = Signals::catch()?;
    // Without a file it is said that there is none to read again.
    signals.catch_also(Ask::Reload)?;
    names.follow()?;
    let stream = if args.json {
        Stream::Output
    } else {
        Stream::Error
    };
    let program = Program {
        exos,
        forwarder,
        keeper,
        checks,
        seeking: Seeking::default(),
        names,
        control,
        exporter,
        control_due: clock::now(),
        hands_over: false,
        started: clock::now(),
        kernel,
        looking,
        signals,
        printer: Printer::start(stream)?,
        json: args.json,
        args: args.clone(),
        addresses: wanted.link.address.clone(),
        made: Vec::new(),
        answers,
    };
    let services = wanted.services.iter();
    services.for_each(|service| announce(&service.listen));
    program.run()
}

/// The forwarder that is there, where it is to be taken over from.
fn predecessor(args: &ForwardArgs, wanted: &Wanted) -> Result<Option<Predecessor>, Error> {
    match &wanted.control {
        _ if !args.take_over => Ok(None),
        Some(path) => Predecessor::find(path),
        None => Err(
            Error::new("a forwarder is taken over from at its control socket")
                .mend("give both --control PATH"),
        ),
    }
}

/// How flows begin, and which servers are to have none.
fn set_rules(forwarder: &mut Forwarder, wanted: &Wanted) {
    forwarder.set_no_server(wanted.no_server);
    let services = forwarder.services_mut();
    services.set_affinity(wanted.affinity);
    services.set_passive(wanted.health.passive());
    services.set_balance(wanted.balance);
}

/// Tells a person, and anyone who waits for it, that it runs.
pub(crate) fn announce(listen: &[Place]) {
    for place in listen {
        let transport = place.transport.name();
        exos_program::say!("{transport}:{}", place.at);
    }
}

/// What is wrong, and what can be done in any case.
fn not_in_kernel(error: Error) -> Error {
    let instead = "or leave --in-kernel out";
    let mend = error.mend.clone();
    error.mend(mend.map_or(instead.to_owned(), |mend| format!("{mend}; {instead}")))
}

fn secret() -> Result<u64, Error> {
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::io("cannot draw a secret for the table of flows", e))?;
    Ok(u64::from_le_bytes(seed))
}

/// The answer to who asks how all stands.
#[derive(Serialize)]
struct Told<'a> {
    status: statistics::Report<'a>,
}

/// A forwarder that runs.
struct Program {
    exos: Exos,
    forwarder: Forwarder,
    keeper: Option<Keeper>,
    checks: Option<Checking>,
    seeking: Seeking,
    names: Names,
    control: Option<ControlServer>,
    exporter: Option<Exporter>,
    /// When the control socket is looked at next.
    control_due: Instant,
    /// Another takes its place now.
    hands_over: bool,
    /// When the program began.
    started: Instant,
    kernel: Option<Kernel>,
    looking: Looking,
    signals: Signals,
    printer: Printer,
    json: bool,
    /// What the command line says: it may name a file that is read again.
    args: ForwardArgs,
    /// Addresses that may be listened at.
    addresses: Vec<Prefixed>,
    /// Frames that the forwarder has made in this turn.
    made: Vec<Vec<u8>>,
    answers: Answers,
}

impl Program {
    fn run(mut self) -> Result<ExitCode, Error> {
        let mut ended = Ok(ExitCode::SUCCESS);
        while !self.signals.stop_requested() && !self.hands_over {
            if let Err(error) = self.turn() {
                ended = Err(error);
                break;
            }
        }
        if self.hands_over && ended.is_ok() {
            ended = self.forward_the_last().map(|()| ExitCode::SUCCESS);
        }
        self.read_tallies();
        let report = statistics::report(self.parts(), self.json);
        let Self {
            exos,
            keeper,
            control,
            exporter,
            kernel,
            printer,
            ..
        } = self;
        // In this order: the end of a connection to the control socket tells a successor that all else is given up. Nobody is to wait
        // for who reads what is printed.
        drop((kernel, exos));
        drop((keeper, exporter, control));
        printer.print(report);
        printer.finish();
        ended
    }

    /// One turn: forward, see to what is due, send, wait.
    fn turn(&mut self) -> Result<(), Error> {
        let count = self.forward();
        self.looking.note(self.exos.now(), count);
        self.handle_timeout();
        if let Some(checks) = &mut self.checks {
            checks.turn(&mut self.exos, &mut self.forwarder);
        }
        self.seek_servers();
        self.tell_of_changes();
        self.serve_askers();
        if self.signals.take_asked(Ask::Reload) {
            let said = self.reload();
            tell_of_reload(said);
        }
        self.follow_names();
        self.take_answers();
        if let Some(keeper) = &mut self.keeper {
            keeper.keep_names(&self.forwarder);
        }
        self.exos.send()?;
        if tell_news("forward", &mut self.exos) {
            return Err(taken_back());
        }
        if self.signals.take_report_request() {
            self.print();
        }
        self.wait()
    }

    /// Takes in what there is, and sends it on; how many frames.
    fn forward(&mut self) -> usize {
        let forwarder = &mut self.forwarder;
        if forwarder.reads_ahead() {
            self.exos.look(|frame| forwarder.look(frame));
        }
        forwarder.read_ahead(self.exos.now());
        let (generation, routes) = self.exos.stack.routes();
        forwarder.set_routes(generation, routes);
        let made = &mut self.made;
        let count = self.exos.relay(|stack, now, frame, checksum| {
            let verdict = forwarder.handle_frame(now, frame, checksum);
            // What has waited for this frame goes behind it, also where both wait for a neighbour.
            let passage = send_on(forwarder, verdict, stack, now, frame);
            if forwarder.has_made() {
                address_made(forwarder, stack, now, made);
            }
            passage
        });
        for frame in self.made.drain(..) {
            self.exos.transmit(&frame);
        }
        count
    }

    /// The last turns of one that hands over: what comes passes by from now on, and what came before goes on.
    fn forward_the_last(&mut self) -> Result<(), Error> {
        if let Err(error) = self.exos.let_pass() {
            exos_program::warn!("exos forward: takes packets until its link is closed: {error}");
        }
        for _ in 0..LAST_TURNS_MAX {
            // For what the driver has in its hands.
            std::thread::sleep(LAST_PAUSE);
            let count = self.forward();
            self.tell_of_changes();
            self.exos.send()?;
            if count == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Until there is something to do, or something is due.
    fn wait(&mut self) -> Result<(), Error> {
        if self.looking.goes_on(self.exos.now()) {
            return self.exos.look_on(None, &[self.signals.fd()]);
        }
        let behind = self.control.as_ref().is_some_and(ControlServer::is_behind);
        let control = behind.then_some(self.control_due);
        let checks = self.checks.as_ref().and_then(Checking::poll_timeout);
        let kernel = self.kernel.as_ref().map(Kernel::poll_timeout);
        let (flows, seeking) = (self.forwarder.poll_timeout(), self.seeking.poll_timeout());
        let scrapers = self.exporter.as_ref().and_then(Exporter::due_in);
        let scrapers = scrapers.map(|time| self.exos.now() + time);
        let due = [flows, checks, seeking, control, kernel, scrapers];
        let mut fds = vec![self.signals.fd()];
        fds.extend(self.control.iter().flat_map(ControlServer::fds));
        fds.extend(self.exporter.iter().flat_map(Exporter::fds));
        fds.extend(self.names.fd());
        self.exos.wait(due.into_iter().flatten().min(), &fds)
    }

    /// Asks where servers are that have come.
    fn seek_servers(&mut self) {
        let (now, stack) = (self.exos.now(), &mut self.exos.stack);
        for server in self.seeking.turn(now, stack, self.forwarder.services()) {
            exos_program::warn!("exos forward: {}", seeking::in_words(stack, server));
        }
    }

    /// Hears the control socket, and who scrapes. Flows have been kept by now, so that no place that is given out has any in the file.
    fn serve_askers(&mut self) {
        let now = self.exos.now();
        if self.control_due > now {
            return;
        }
        self.control_due = now + CONTROL_EVERY;
        if let Some(mut control) = self.control.take() {
            control.serve(|line| self.respond(line));
            self.control = Some(control);
        }
        if let Some(mut exporter) = self.exporter.take() {
            exporter.serve(|| {
                self.read_tallies();
                let status = serde_json::to_value(statistics::Report::of(self.parts()));
                control::metrics_text(&status.expect("numbers and texts under names"))
            });
            self.exporter = Some(exporter);
        }
    }

    /// Reads the file again: what it says takes the place of what was, or nothing changes. The file is short, so packets wait for
    /// it some 7 microseconds for each server. Where it has names that are not known, that happens when they are resolved.
    fn reload(&mut self) -> Result<String, Error> {
        if self.args.config.is_none() {
            return Err(Error::new("there is no file to read again")
                .mend("start the forwarder with --config FILE"));
        }
        self.names.pend(Wanted::of(&self.args)?);
        let said = match self.names.take_pending() {
            Some(wanted) => self
                .become_wanted(wanted?)
                .map(|changes| in_words(&changes)),
            None => {
                Ok("read its file again, and follows it when the names in it are resolved".into())
            }
        };
        // Those that are known too: that they have moved may be why somebody asks.
        self.names.ask()?;
        said
    }

    /// Does what is wanted now, with the addresses of its names that are known.
    fn become_wanted(&mut self, mut wanted: Wanted) -> Result<Changes, Error> {
        // While places are those of the servers that it was counted for.
        self.read_tallies();
        // The link, the table and the sockets are what they were at the start.
        wanted.link.address.clone_from(&self.addresses);
        check_listeners(&wanted)?;
        check_kernel(self.kernel.is_some(), &wanted)?;
        check_affinity(&wanted)?;
        if self.exos.via().is_some() {
            lent::check(false, &wanted)?;
            lent::claim(&mut self.exos, &wanted)?;
            if self.keeper.is_some() {
                lent::await_successor(&mut self.exos)?;
            }
        }
        let filled = self.names.known().filled(&wanted)?;
        let listens = listens(&filled, &self.exos.stack)?;
        let rule = wanted.health.rule()?;
        let services = self.forwarder.services_mut();
        let changed = services.become_these(&listens);
        let changes = changed.map_err(|misfit| Error::new(misfit.to_string()))?;
        self.names.set_written(wanted, listens);
        services.set_names(self.names.known().by_address());
        set_rules(&mut self.forwarder, &filled);
        self.set_checks(rule);
        Ok(changes)
    }

    /// Packets of servers that see their clients are for others, and come here as long as these are servers.
    fn take_answers(&mut self) {
        let services = self.forwarder.services();
        if let Err(error) = self.answers.take(&mut self.exos, services) {
            exos_program::warn!("exos forward: answers of new servers do not come here: {error}");
        }
    }

    /// Checks by this rule from now on; what is known of servers stays, unless nobody is asked any more.
    fn set_checks(&mut self, rule: Option<Rule>) {
        if self.checks.as_ref().map(Checking::rule) == rule.as_ref() {
            return;
        }
        if let Some(mut checks) = self.checks.take() {
            checks.stop(&mut self.exos);
        }
        if rule.is_none() {
            self.forwarder.services_mut().forget_checks();
        }
        self.checks = rule.map(Checking::new);
    }

    /// The line that answers this one.
    fn respond(&mut self, line: &[u8]) -> String {
        let request = match Request::parse(line) {
            Ok(request) => request,
            Err(error) => return control::refuse(error),
        };
        // To be told, or while places are those of the servers that it was counted for.
        self.read_tallies();
        match request.request {
            Kind::Status => {
                let status = statistics::Report::of(self.parts());
                control::answer(Ok(Told { status }))
            }
            Kind::HandOver => {
                let done = self.hand_over();
                control::answer(done.map(|()| json!({ "hands_over": true })))
            }
            Kind::Reload => {
                let said = self.reload().map_err(|e| e.to_string());
                control::answer(said.map(|said| json!({ "reloaded": said })))
            }
            _ => {
                let stack = &self.exos.stack;
                let source = |ip, reach| source(stack, ip, reach).map_err(|e| e.to_string());
                control::answer(control::apply(&mut self.forwarder, &request, &source))
            }
        }
    }

    /// Ends after this turn, for the forwarder that asks.
    fn hand_over(&mut self) -> Result<(), String> {
        lent::await_successor(&mut self.exos).map_err(|error| error.to_string())?;
        exos_program::info!("exos forward: hands over to another");
        self.hands_over = true;
        Ok(())
    }

    /// Flows that are silent for too long end; with some of them in the kernel, those that it has not seen either.
    fn handle_timeout(&mut self) {
        let now = self.exos.now();
        match &mut self.kernel {
            None => self.forwarder.handle_timeout(now),
            Some(kernel) => {
                kernel.turn(&mut self.exos, &mut self.forwarder);
                let seen = |id| kernel.seen(now, id);
                self.forwarder.handle_timeout_unless(now, seen);
            }
        }
    }

    /// What the kernel has forwarded so far is to be in what is reported.
    fn read_tallies(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.read_tallies(&mut self.forwarder);
        }
    }

    /// Anyone who keeps flows, or forwards them, hears of those that have changed before the packets leave that changed them.
    fn tell_of_changes(&mut self) {
        while let Some(id) = self.forwarder.poll_changed() {
            if let Some(keeper) = &mut self.keeper {
                keeper.keep(&self.forwarder, id);
            }
            if let Some(kernel) = &mut self.kernel {
                let now = self.exos.now();
                kernel.follow(now, &mut self.forwarder, &mut self.exos.stack, id);
            }
        }
    }

    fn print(&mut self) {
        self.read_tallies();
        self.printer
            .print(statistics::report(self.parts(), self.json));
    }

    fn parts(&self) -> statistics::Parts<'_> {
        statistics::Parts {
            exos: &self.exos,
            forwarder: &self.forwarder,
            kernel: self.kernel.as_ref(),
            started: self.started,
        }
    }
}

/// Tells a person what has become of a reload.
fn tell_of_reload(said: Result<String, Error>) {
    match said {
        Ok(said) => exos_program::info!("exos forward: {said}"),
        Err(error) => exos_program::warn!("exos forward: goes on as before: {error}"),
    }
}

/// What a person is told of a reload.
fn in_words(changes: &Changes) -> String {
    let Changes {
        added,
        removed,
        weighed,
    } = changes;
    format!("read its file again: {added} added, {removed} removed, {weighed} with another weight")
}
