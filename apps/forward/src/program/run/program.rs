//! A forwarder that runs: its loop, and how it ends.
//!
//! Each frame is shown to the forwarder first, where it lies in the link's memory. One that goes on gets the link address
//! of its next hop and leaves from where it is; only while a neighbour is asked for is it copied, to wait.

use std::process::ExitCode;

use exos::signals::{Ask, Signals};
use exos::{Error, Passage};
use exos_inet::Instant;
use exos_program::{Printer, taken_back, tell_news};

use crate::forwarder::Forwarder;
use crate::kernel::Kernel;
use crate::limits::{LAST_PAUSE, LAST_TURNS_MAX};
use crate::packets::onward::{address_made, send_on};
use crate::program::answers::Answers;
use crate::program::busy_poll::BusyPoll;
use crate::program::checking::Checking;
use crate::program::control::ControlServer;
use crate::program::exporter::Exporter;
use crate::program::keeper::Keeper;
use crate::program::links::Links;
use crate::program::seeking::{self, Seeking};
use crate::program::statistics;
use crate::settings::links::Links as WantedLinks;
use crate::settings::names::Names;
use crate::settings::options::ForwardArgs;

/// A forwarder that runs.
pub(super) struct Program {
    pub(super) links: Links,
    pub(super) forwarder: Forwarder,
    pub(super) keeper: Option<Keeper>,
    pub(super) checks: Option<Checking>,
    pub(super) seeking: Seeking,
    pub(super) names: Names,
    pub(super) control: Option<ControlServer>,
    pub(super) exporter: Option<Exporter>,
    /// When the control socket is looked at next.
    pub(super) control_due: Instant,
    /// Another takes its place now.
    pub(super) hands_over: bool,
    /// When the program began.
    pub(super) started: Instant,
    pub(super) kernel: Option<Kernel>,
    pub(super) busy_poll: BusyPoll,
    pub(super) signals: Signals,
    pub(super) printer: Printer,
    pub(super) json: bool,
    /// What the command line says: it may name a file that is read again.
    pub(super) args: ForwardArgs,
    /// The links as they were wanted at the start.
    pub(super) wanted_links: WantedLinks,
    /// Frames that the forwarder has made in this turn, each with the link by which it leaves.
    pub(super) made: Vec<(usize, Vec<u8>)>,
    pub(super) answers: Answers,
}

impl Program {
    pub(super) fn run(mut self) -> Result<ExitCode, Error> {
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
            links,
            keeper,
            control,
            exporter,
            kernel,
            printer,
            ..
        } = self;
        // In this order: the end of a connection to the control socket tells a successor that all else is given up. Nobody is to wait
        // for who reads what is printed.
        drop((kernel, links));
        drop((keeper, exporter, control));
        printer.print(report);
        printer.finish();
        ended
    }

    /// One turn: forward, see to what is due, send, wait.
    fn turn(&mut self) -> Result<(), Error> {
        let count = self.forward();
        self.busy_poll.note(self.links.now(), count);
        self.handle_timeout();
        if let Some(checks) = &mut self.checks {
            checks.turn(&mut self.links, &mut self.forwarder);
        }
        self.seek_servers();
        self.tell_of_changes();
        self.serve_askers();
        if self.signals.take_asked(Ask::Reload) {
            self.reload_and_tell();
        }
        self.follow_names();
        self.take_answers();
        if let Some(keeper) = &mut self.keeper {
            keeper.keep_names(&self.forwarder);
        }
        self.links.send()?;
        if tell_news("forward", self.links.first_mut()) {
            return Err(taken_back());
        }
        if self.signals.take_report_request() {
            self.print();
        }
        self.wait()
    }

    /// Takes in what there is, and sends it on; how many frames.
    fn forward(&mut self) -> usize {
        self.links.tell_routes(&mut self.forwarder);
        let links = 0..self.links.all().len();
        links.map(|link| self.forward_from(link)).sum()
    }

    /// Takes in what there is on a link.
    fn forward_from(&mut self, link: usize) -> usize {
        let (forwarder, made) = (&mut self.forwarder, &mut self.made);
        let (exos, mut others) = self.links.apart(link);
        forwarder.frames_come_by(link);
        if forwarder.reads_ahead() {
            exos.look(|frame| forwarder.look(frame));
        }
        forwarder.read_ahead(exos.now());
        let count = exos.relay(|stack, now, frame, checksum| {
            let verdict = forwarder.handle_frame(now, frame, checksum);
            // What has waited for this frame goes behind it, also where both wait for a neighbour.
            let passage = match others.send_on(forwarder, verdict, now, frame) {
                true => Passage::Done,
                false => send_on(forwarder, verdict, stack, now, frame, checksum),
            };
            if forwarder.has_made() {
                address_made(forwarder, stack, &mut others, now, made);
            }
            passage
        });
        for (link, frame) in self.made.drain(..) {
            self.links.all_mut()[link].transmit(&frame);
        }
        count
    }

    /// The last turns of one that hands over: what comes passes by from now on, and what came before goes on.
    fn forward_the_last(&mut self) -> Result<(), Error> {
        for exos in self.links.all_mut() {
            if let Err(error) = exos.let_pass() {
                exos_program::warn!(
                    "exos forward: takes packets until its link is closed: {error}"
                );
            }
        }
        for _ in 0..LAST_TURNS_MAX {
            // For what the driver has in its hands.
            std::thread::sleep(LAST_PAUSE);
            let count = self.forward();
            self.tell_of_changes();
            self.links.send()?;
            if count == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Until there is something to do, or something is due.
    fn wait(&mut self) -> Result<(), Error> {
        if self.busy_poll.goes_on(self.links.now()) {
            return self.links.look_on(&[self.signals.fd()]);
        }
        let behind = self.control.as_ref().is_some_and(ControlServer::is_behind);
        let control = behind.then_some(self.control_due);
        let checks = self.checks.as_ref().and_then(Checking::poll_timeout);
        let kernel = self.kernel.as_ref().map(Kernel::poll_timeout);
        let (flows, seeking) = (self.forwarder.poll_timeout(), self.seeking.poll_timeout());
        let scrapers = self.exporter.as_ref().and_then(Exporter::due_in);
        let scrapers = scrapers.map(|time| self.links.now() + time);
        let due = [flows, checks, seeking, control, kernel, scrapers];
        let mut fds = vec![self.signals.fd()];
        fds.extend(self.control.iter().flat_map(ControlServer::fds));
        fds.extend(self.exporter.iter().flat_map(Exporter::fds));
        fds.extend(self.names.fd());
        self.links.wait(due.into_iter().flatten().min(), &fds)
    }

    /// Asks where servers are that have come.
    fn seek_servers(&mut self) {
        let (now, links) = (self.links.now(), &mut self.links);
        let mut find = |server| links.stack_to(server).link_address(now, server);
        let silent = self.seeking.turn(now, &mut find, self.forwarder.services());
        for server in silent {
            let stack = links.stack_to(server);
            exos_program::warn!("exos forward: {}", seeking::in_words(stack, server));
        }
    }

    /// Packets of servers that see their clients are for others, and come here as long as these are servers.
    fn take_answers(&mut self) {
        let services = self.forwarder.services();
        if let Err(error) = self.answers.take(&mut self.links, services) {
            exos_program::warn!("exos forward: answers of new servers do not come here: {error}");
        }
    }

    /// Flows that are silent for too long end; with some of them in the kernel, those that it has not seen either.
    fn handle_timeout(&mut self) {
        let now = self.links.now();
        match &mut self.kernel {
            None => self.forwarder.handle_timeout(now),
            Some(kernel) => {
                kernel.turn(self.links.first_mut(), &mut self.forwarder);
                let seen = |id| kernel.seen(now, id);
                self.forwarder.handle_timeout_unless(now, seen);
            }
        }
    }

    /// What the kernel has forwarded so far is to be in what is reported.
    pub(super) fn read_tallies(&mut self) {
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
                let (now, stack) = (self.links.now(), &mut self.links.first_mut().stack);
                kernel.follow(now, &mut self.forwarder, stack, id);
            }
        }
    }

    fn print(&mut self) {
        self.read_tallies();
        self.printer
            .print(statistics::report(self.parts(), self.json));
    }

    pub(super) fn parts(&self) -> statistics::Parts<'_> {
        statistics::Parts {
            links: &self.links,
            forwarder: &self.forwarder,
            kernel: self.kernel.as_ref(),
            started: self.started,
        }
    }
}
