//! `exos bench http`: how many documents a second, at what cost.
//!
//! Set-up: a lab of its own; the server in namespace a on one core, wrk in namespace b on another. The servers
//! take turns: each is started, checked to answer with the right document, measured and stopped before the next,
//! so none disturbs another and drift of the machine meets all alike. A case (kind of connection, size) is
//! measured `--runs` times for each server in the order A B A B; medians are reported, all runs are in the JSON.
//!
//! nginx has the address of the interface, 10.10.0.1. exos has 10.10.0.10, which the kernel of that namespace
//! does not have and so does not answer for.

pub(crate) mod client;
mod documents;
mod options;
mod report;
mod server;

pub use client::{Errors, LatencyUs, Measured};
pub use documents::{Size, body};
pub use options::{Connection, HttpArgs};
pub use report::{Case, Outcome, Report, Run};
pub use server::Server;

use crate::cpu;
use crate::limits::{OTHER_LOAD_MAX, OTHER_LOAD_WINDOW};
use crate::output;
use crate::process::Interrupt;
use crate::scratch::Scratch;
use exos_host::{Error, Result, kernel};
use exos_lab::{Guard, Lab, Settings, Side, State};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Measures as asked, prints the table, and writes the JSON.
pub fn run(args: &HttpArgs) -> Result<ExitCode> {
    // Before the minutes of measuring: a file that cannot be written is told at once.
    let json = output::open(args.json.as_deref())?;
    let report = measure(args)?;
    output::write(json, &report.table(), &report.json())?;
    Ok(ExitCode::SUCCESS)
}

/// What all measurements of a session share.
struct Session<'a> {
    args: &'a HttpArgs,
    lab: &'a Lab,
    scratch: Scratch,
    interrupt: Interrupt,
    server_core: usize,
    client_core: usize,
    notes: RefCell<BTreeSet<String>>,
}

/// Measures as asked.
pub fn measure(args: &HttpArgs) -> Result<Report> {
    args.check()?;
    let interrupt = Interrupt::on_signals()?;
    let (server_core, client_core) = cpu::two_cores()?;
    let servers = args
        .servers
        .iter()
        .map(|server| server.version(args))
        .collect::<Result<Vec<_>>>()?;
    client::find()?;
    let lab = lab(args)?;
    let scratch = Scratch::new()?;
    documents::generate(&scratch.directory("documents")?, &args.sizes)?;
    scratch.write("report.lua", client::SCRIPT)?;
    let session = Session {
        args,
        lab: &lab,
        scratch,
        interrupt,
        server_core,
        client_core,
        notes: RefCell::default(),
    };
    session.note_other_load()?;
    let cases = session.cases()?;
    Ok(Report {
        kernel: kernel::release(),
        wire: args.wire.to_string(),
        mtu: lab.link(Side::A)?.mtu,
        congestion_control: lab
            .netns(Side::A)
            .sysctl("net/ipv4/tcp_congestion_control")?,
        connections: args.connections,
        runs: args.runs,
        duration_secs: args.duration,
        server_core,
        client_core,
        servers,
        notes: session.notes.take().into_iter().collect(),
        cases,
    })
}

fn settings(args: &HttpArgs) -> Settings {
    Settings {
        wire: args.wire,
        ..Settings::named(&args.lab)
    }
}

/// The session's own lab, prepared alike for all servers. Who still runs in one that was left behind would
/// distort what is measured.
fn lab(args: &HttpArgs) -> Result<Guard> {
    let left = exos_lab::status(&args.lab)?;
    let inside: Vec<String> = left
        .sides
        .iter()
        .flat_map(|s| &s.processes)
        .map(|(pid, name)| format!("{name} ({pid})"))
        .collect();
    if left.state != State::Down && !inside.is_empty() {
        return Err(Error::new(format!(
            "programs still run in the lab {}: {}",
            args.lab,
            inside.join(", ")
        ))
        .mend(format!(
            "stop them, then `exos lab down --name {}`",
            args.lab
        )));
    }
    let lab = exos_lab::up(&settings(args))?.0.guard();
    // Tens of thousands of connections a second from one address: all ports, and old ones used again.
    lab.netns(Side::B)
        .set_sysctl("net/ipv4/ip_local_port_range", "1024 65535")?;
    lab.netns(Side::B)
        .set_sysctl("net/ipv4/tcp_tw_reuse", "1")?;
    lab.netns(Side::A)
        .set_sysctl("net/core/somaxconn", "4096")?;
    lab.netns(Side::A)
        .set_sysctl("net/ipv4/tcp_max_syn_backlog", "4096")?;
    Ok(lab)
}

impl Session<'_> {
    /// Other programs on the two cores take time from server and client, and their time cannot be told apart.
    fn note_other_load(&self) -> Result<()> {
        let before = self.core_times()?;
        std::thread::sleep(OTHER_LOAD_WINDOW);
        let after = self.core_times()?;
        let cores = [
            (self.server_core, after.0 - before.0),
            (self.client_core, after.1 - before.1),
        ];
        for (core, time) in cores {
            let busy = time.busy_share();
            if busy > OTHER_LOAD_MAX {
                let percent = 100.0 * busy;
                self.note(format!(
                    "core {core} was {percent:.0} % busy with other programs before measuring"
                ));
            }
        }
        Ok(())
    }

    fn note(&self, note: String) {
        self.notes.borrow_mut().insert(note);
    }

    /// A server that ends has to leave the wire as it found it.
    fn note_changed_wire(&self, server: Server) -> Result<()> {
        let settings = settings(self.args);
        if exos_lab::up(&settings)?.1 != exos_lab::Outcome::Unchanged {
            self.note(format!(
                "{server} did not leave the wire as it was; it was repaired"
            ));
        }
        Ok(())
    }

    fn cases(&self) -> Result<Vec<Case>> {
        let (connections, sizes) = (&self.args.connection, &self.args.sizes);
        let total =
            connections.len() * sizes.len() * self.args.servers.len() * self.args.runs as usize;
        let progress = ProgressBar::new(total as u64);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} left  {msg}")
            .expect("a valid template");
        progress.set_style(style);
        let mut cases = Vec::new();
        for &connection in connections {
            for &size in sizes {
                cases.push(self.case(connection, size, &progress)?);
            }
        }
        progress.finish_and_clear();
        Ok(cases)
    }

    fn case(&self, connection: Connection, size: Size, progress: &ProgressBar) -> Result<Case> {
        let servers = &self.args.servers;
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); servers.len()];
        for _ in 0..self.args.runs {
            for (&server, runs) in servers.iter().zip(&mut runs) {
                progress.set_message(format!("{server}, {connection} connections, {size}"));
                runs.push(self.run(server, connection, size)?);
                progress.inc(1);
            }
        }
        let outcomes = servers
            .iter()
            .zip(runs)
            .map(|(server, runs)| Outcome::of(server.to_string(), runs));
        Ok(Case {
            connection,
            size_bytes: size.bytes(),
            results: outcomes.collect(),
        })
    }

    /// One server, one case, once: start, check, measure, stop.
    fn run(&self, server: Server, connection: Connection, size: Size) -> Result<Run> {
        self.interrupt.check()?;
        let mut running = server.start(self)?;
        server.wait_until_right(self, &mut running, size)?;
        let (cpu, cores) = (cpu::of_family(running.pid())?, self.core_times()?);
        let measured = client::measure(self, server, connection, size)?;
        let cpu = cpu::of_family(running.pid())? - cpu;
        let cores_after = self.core_times()?;
        running.check()?;
        running.stop()?;
        self.note_changed_wire(server)?;
        Ok(Run::new(
            measured,
            cpu,
            cores_after.0 - cores.0,
            cores_after.1 - cores.1,
        ))
    }

    /// The times of the server's core and the client's.
    fn core_times(&self) -> Result<(cpu::CoreTime, cpu::CoreTime)> {
        Ok((
            cpu::of_core(self.server_core)?,
            cpu::of_core(self.client_core)?,
        ))
    }
}
