//! Measuring: the cells in their order, and in each run of a cell the generators in turn.

use super::generator::Generator;
use super::options::Cell;
use super::outcome::{Case, Outcome, Run, Watched};
use super::report::Report;
use super::said::Seen;
use super::{LoadArgs, httperf};
use crate::experiment::http::{Known, Room, Server, Serving, available, documents, limit, wrk};
use crate::report::Named;
use crate::stage::Stage;
use exos_host::{Error, Result};
use exos_lab::{Guard, WireKind};
use indicatif::ProgressBar;
use std::process::Command;
use std::time::Duration;

/// When a load is watched, as parts of the time that it takes: it has begun then, and is not about to end.
const WATCHED: [f64; 2] = [0.25, 0.75];

/// A session: the room, and who is in it.
struct Session<'a> {
    args: &'a LoadArgs,
    room: Room,
    servers: Known,
    generators: Vec<(Generator, String)>,
    left_out: Vec<String>,
}

impl<'a> Session<'a> {
    fn new(args: &'a LoadArgs) -> Result<Self> {
        let stage = Stage::new(args.exos.as_deref())?;
        let (servers, mut left_out) = available(&args.servers, stage.program())?;
        let mut generators = Vec::new();
        for &generator in &args.generators {
            match generator.version(stage.program()) {
                Ok(version) => generators.push((generator, version)),
                Err(error) => left_out.push(error.to_string()),
            }
        }
        if servers.is_empty() || generators.is_empty() {
            return Err(Error::new(left_out.join("; ")));
        }
        documents::generate(&stage.scratch.directory("documents")?, &args.sizes())?;
        stage.scratch.write("report.lua", wrk::SCRIPT)?;
        Ok(Self {
            args,
            room: Room::new(stage, &args.room),
            servers,
            generators,
            left_out,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        let is_there = |server: Server| self.servers.iter().any(|(there, _)| *there == server);
        let cells = self.args.cells().into_iter();
        cells.filter(|cell| is_there(cell.server)).collect()
    }

    /// All generators on a server, in turn, as often as asked for.
    fn measure(&self, lab: &Guard, cell: Cell, progress: &ProgressBar) -> Result<Case> {
        let mut runs = vec![Vec::new(); self.generators.len()];
        let mut limits = Vec::new();
        for _ in 0..self.args.runs() {
            let limit = limit::measure(&self.room, lab, cell.connection, cell.size)?;
            limits.push(limit);
            for ((generator, _), runs) in self.generators.iter().zip(&mut runs) {
                progress.set_message(format!("{cell}, {generator}"));
                runs.push(self.load(lab, cell, *generator, limit)?);
                progress.inc(1);
            }
        }
        let generators = self.generators.iter().map(|(generator, _)| *generator);
        let results = generators.zip(runs);
        let results = results.map(|(generator, runs)| Outcome::of(generator, runs));
        Ok(Case::new(cell, &limits, results.collect()))
    }

    /// Starts the server, has it loaded, and stops it.
    fn load(&self, lab: &Guard, cell: Cell, generator: Generator, limit: f64) -> Result<Run> {
        let room = &self.room;
        let command = match generator.command(room, lab, cell)? {
            Some(command) => command,
            None => self.after_a_try(lab, cell)?,
        };
        let serving = room.serve(lab, cell.server, cell.size)?;
        let mut started = room.start(&generator.to_string(), command, room.cores[1])?;
        let watched = self.watch(&serving)?;
        if started.running.check().is_err() {
            room.note(format!("{generator} was done before it had been watched for long enough ({cell}): it seems less busy than it was"));
        }
        let output = room.said(started, room.seconds.into())?;
        let told = room.end(WireKind::Plain, cell.server, serving)?;
        let seen = Seen::of(generator, &output, cell)?;
        // A server that polls tells itself how long it had something to do: of the time in which it was loaded.
        let busy_us = told["counters"]["busy_micros"].as_u64();
        let server_busy = busy_us.map(|us| (us as f64 / 1e6 / seen.seconds).min(1.0));
        Ok(Run::new(seen, watched, server_busy, limit))
    }

    /// httperf's command: what it manages is tried on a server of its own, whose time does not count.
    fn after_a_try(&self, lab: &Guard, cell: Cell) -> Result<Command> {
        let serving = self.room.serve(lab, cell.server, cell.size)?;
        let command = httperf::command(&self.room, lab, cell)?;
        self.room.end(WireKind::Plain, cell.server, serving)?;
        Ok(command)
    }

    /// What both cores do in the middle of a load.
    fn watch(&self, serving: &Serving<'_>) -> Result<Watched> {
        let part = |part: f64| Duration::from_secs_f64(part * f64::from(self.room.seconds));
        std::thread::sleep(part(WATCHED[0]));
        let before = self.room.times(serving)?;
        std::thread::sleep(part(WATCHED[1] - WATCHED[0]));
        let used = self.room.times(serving)?.since(&before);
        Ok(Watched {
            generator: used.client.busy_share(),
            server: used.server.busy_share(),
        })
    }
}

/// Measures as asked.
pub(super) fn measure(args: &LoadArgs) -> Result<Report> {
    let session = Session::new(args)?;
    let (room, cells) = (&session.room, session.cells());
    room.note_other_load()?;
    let lab = room.lab(WireKind::Plain)?;
    let mut setting = room.setting(&lab, &args.room, &session.servers, &session.left_out)?;
    let steps = cells.len() * session.generators.len() * args.runs() as usize;
    let progress = room.progress(steps);
    let mut cases = Vec::new();
    for &cell in &cells {
        let case = session.measure(&lab, cell, &progress)?;
        progress.suspend(|| eprint!("{}", case.rows()));
        cases.push(case);
    }
    progress.finish_and_clear();
    setting.notes = room.notes();
    Ok(Report {
        schema: "exos.bench.load/1",
        setting,
        server_core: room.cores[0],
        generator_core: room.cores[1],
        generators: Named::all(&session.generators),
        cases,
    })
}
