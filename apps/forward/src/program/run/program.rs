//! A forwarder that runs: its first core's loop, which does what is done once for all cores, and how it ends.

use std::process::ExitCode;

use exos::Error;
use exos::signals::{Ask, Signals};
use exos_inet::Instant;
use exos_program::{Printer, taken_back, tell_news};

use crate::kernel::{self, Exits, Kernel};
use crate::program::answers::Answers;
use crate::program::checking::Checking;
use crate::program::control::ControlServer;
use crate::program::cores::core_loop::CoreLoop;
use crate::program::cores::other_core::OtherCore;
use crate::program::cores::table::{Shared, Table};
use crate::program::cores::worker::{Asks, Row};
use crate::program::exporter::Exporter;
use crate::program::seeking;
use crate::program::statistics;
use crate::settings::links::Links as WantedLinks;
use crate::settings::names::Names;
use crate::settings::options::ForwardArgs;

/// A forwarder that has all it needs.
pub(super) struct Started {
    pub(super) program: Program,
    pub(super) table: Table,
    pub(super) others: Vec<OtherCore>,
}

/// The first core of a forwarder that runs.
pub(super) struct Program {
    pub(super) core: CoreLoop,
    pub(super) checks: Option<Checking>,
    pub(super) names: Names,
    pub(super) control: Option<ControlServer>,
    pub(super) exporter: Option<Exporter>,
    /// When the control socket is looked at next.
    pub(super) control_due: Instant,
    /// When the kernel's part is looked at next, where there is one.
    pub(super) kernel_due: Option<Instant>,
    /// When it is to be looked at how packets leave in the kernel.
    pub(super) kernel_look: Option<Instant>,
    /// Another takes its place now.
    pub(super) hands_over: bool,
    /// When the program began.
    pub(super) started: Instant,
    pub(super) signals: Signals,
    pub(super) printer: Printer,
    pub(super) json: bool,
    /// What the command line says: it may name a file that is read again.
    pub(super) args: ForwardArgs,
    /// The links as they were wanted at the start.
    pub(super) wanted_links: WantedLinks,
    pub(super) answers: Answers,
}

impl Started {
    /// Forwards until a signal, an error, or a successor.
    ///
    /// # Errors
    ///
    /// A link has gone.
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        let Self {
            mut program,
            table,
            others,
        } = self;
        let shared = Shared::new(table);
        let ended = program.run(&shared, others);
        let rows = program.core.worker.last_rows(program.core.row());
        let mut table = shared.into_inner();
        table.read_tallies();
        let report = statistics::report(program.parts(&table, &rows), program.json);
        let Program {
            core,
            control,
            exporter,
            printer,
            ..
        } = program;
        let Table { keeper, kernel, .. } = table;
        // In this order: the end of a connection to the control socket tells a successor that all else is given up. Nobody is to wait
        // for who reads what is printed.
        drop((kernel, core));
        drop((keeper, exporter, control));
        printer.print(report);
        printer.finish();
        ended.map(|()| ExitCode::SUCCESS)
    }
}

impl Program {
    /// Starts the other cores, and is the first until all end.
    fn run(&mut self, shared: &Shared, others: Vec<OtherCore>) -> Result<(), Error> {
        std::thread::scope(|scope| {
            let mut threads = self.core.worker.threads(scope);
            for other in others {
                let core = other.worker.core();
                threads.start(core, || other.run(shared))?;
            }
            let mut ended = self.turns(shared);
            let mut how = Asks::STOP;
            if self.hands_over && ended.is_ok() {
                how = Asks::HAND_OVER;
                self.let_pass();
            }
            self.core.worker.ask_others(how);
            if how == Asks::HAND_OVER {
                ended = self.core.forward_the_last(shared);
            }
            // A core that ended by itself says why.
            threads.end(how.bits()).and(ended)
        })
    }

    fn turns(&mut self, shared: &Shared) -> Result<(), Error> {
        while !self.signals.stop_requested() && !self.hands_over {
            let asks = self.core.worker.take_asks();
            if asks.contains(Asks::ONE_LEFT) {
                break;
            }
            self.turn(shared, asks)?;
        }
        Ok(())
    }

    /// One turn: forward, see to what is due, send, wait.
    fn turn(&mut self, shared: &Shared, asks: Asks) -> Result<(), Error> {
        let checks = self.checks.as_ref().and_then(Checking::poll_timeout);
        let asked = asks.contains(Asks::NEIGHBOURS).then_some(Instant::START);
        let due = [checks, self.kernel_due, asked];
        let due = due.into_iter().flatten().min();
        let Self {
            core,
            checks,
            answers,
            kernel_due,
            kernel_look,
            ..
        } = self;
        // Before the table is taken: other cores are not to wait for what the system says of the links.
        let now = core.links.now();
        let look = kernel_look.filter(|at| *at <= now);
        let exits = look.map(|_| kernel::exits(&core.links));
        core.turn(shared, due, |core, table| {
            see_to(core, table, checks.as_mut(), exits);
            *kernel_due = table.kernel.as_ref().map(Kernel::poll_timeout);
            *kernel_look = table.kernel.as_ref().map(Kernel::next_look);
            take_answers(core, table, answers);
        });
        self.serve_askers(shared);
        if self.signals.take_asked(Ask::Reload) {
            self.reload_and_tell(shared);
        }
        self.follow_names(shared);
        self.core.links.send()?;
        let mut links = self.core.links.all_mut().iter_mut();
        if links.any(|link| tell_news("forward", link)) {
            return Err(taken_back());
        }
        if self.signals.take_report_request() {
            self.print(shared);
        }
        self.wait()
    }

    /// What comes is the host's from now on, or a successor's that listens there.
    fn let_pass(&mut self) {
        for exos in self.core.links.all_mut() {
            if let Err(error) = exos.let_pass() {
                exos_program::warn!(
                    "exos forward: takes packets until its link is closed: {error}"
                );
            }
        }
    }

    /// Until there is something to do, or something is due.
    fn wait(&mut self) -> Result<(), Error> {
        let behind = self.control.as_ref().is_some_and(ControlServer::is_behind);
        let control = behind.then_some(self.control_due);
        let checks = self.checks.as_ref().and_then(Checking::poll_timeout);
        let scrapers = self.exporter.as_ref().and_then(Exporter::due_in);
        let scrapers = scrapers.map(|time| self.core.links.now() + time);
        let due = [checks, control, self.kernel_due, scrapers];
        let mut fds = vec![self.signals.fd()];
        fds.extend(self.control.iter().flat_map(ControlServer::fds));
        fds.extend(self.exporter.iter().flat_map(Exporter::fds));
        fds.extend(self.names.fd());
        self.core.wait(due.into_iter().flatten().min(), &fds)
    }

    /// Changes what all cores have in common, beside what packets change of it, and sees to what follows from that.
    pub(super) fn change<T>(
        &mut self,
        shared: &Shared,
        change: impl FnOnce(&mut Self, &mut Table) -> T,
    ) -> T {
        let mut table = shared.lock();
        // To be told, or while places are those of the servers that it was counted for.
        table.read_tallies();
        let changed = change(self, &mut table);
        take_answers(&mut self.core, &table, &mut self.answers);
        self.core.done_with(&mut table);
        self.core.see_to_changes();
        changed
    }

    /// What all cores have counted by now. The table is not to be locked.
    pub(super) fn rows(&self) -> Vec<Row> {
        self.core.worker.all_rows(self.core.row())
    }

    fn print(&mut self, shared: &Shared) {
        let rows = self.rows();
        let report = self.change(shared, |program, table| {
            statistics::report(program.parts(table, &rows), program.json)
        });
        self.printer.print(report);
    }

    pub(super) fn parts<'a>(&'a self, table: &'a Table, cores: &'a [Row]) -> statistics::Parts<'a> {
        statistics::Parts {
            cores,
            forwarder: &table.forwarder,
            kernel: table.kernel.as_ref(),
            unresolved: self.names.known().failures(),
            started: self.started,
        }
    }
}

/// What the first core does with the table beside forwarding: servers are checked and sought, and the kernel has its part.
fn see_to(
    core: &mut CoreLoop,
    table: &mut Table,
    checks: Option<&mut Checking>,
    exits: Option<Result<Exits, Error>>,
) {
    if let Some(kernel) = &mut table.kernel {
        kernel.turn(&mut core.links, &mut table.forwarder, exits);
    }
    if let Some(checks) = checks {
        checks.turn(&mut core.links, &mut table.forwarder);
    }
    for server in core.seek_servers(table) {
        let stack = core.links.stack_to(server);
        exos_program::warn!("exos forward: {}", seeking::in_words(stack, server));
    }
}

/// Packets of servers that see their clients are for others, and come here as long as these are servers.
fn take_answers(core: &mut CoreLoop, table: &Table, answers: &mut Answers) {
    let services = table.forwarder.services();
    if let Err(error) = answers.take(&mut core.links, services) {
        exos_program::warn!("exos forward: answers of new servers do not come here: {error}");
    }
}
