//! A session: one stage, and the servers that are there.

use super::args::HttpArgs;
use super::bounded::Memory;
use super::load::busy_us;
use crate::experiment::cells::{compare, measure_cells};
use crate::report::{Contender, Tabular};
use crate::stage::packets::Visit;
use crate::stage::request::{Connection, Size};
use crate::stage::web::{Application, Server, Serving, WebStage};
use exos_host::{Error, Result};
use exos_lab::{Guard, Lab, WireKind};
use std::fmt::Display;
use std::time::Duration;

/// How long a server learns what it is asked for, and until slots are open again that the connections closed which it did not know yet.
const LEARNING_SECS: f64 = 0.1;
const LEARNT: Duration = Duration::from_millis(4500);

/// An error where a server has answered nothing: there is nothing to compare then.
pub(super) fn some_answers(server: Server, answers: u64, errors: u64) -> Result<()> {
    match answers {
        0 => Err(Error::new(format!(
            "{server} did not answer a single request ({errors} errors)"
        ))),
        _ => Ok(()),
    }
}

/// A session: servers in a lab, with what each calls itself.
pub(super) struct Session<'a> {
    pub(super) args: &'a HttpArgs,
    pub(super) web: WebStage,
    /// All that are there.
    pub(super) all: Vec<Server>,
    /// Those that serve files over HTTP/1.1 in plain text.
    pub(super) servers: Vec<Server>,
    /// Those that speak HTTP/3.
    pub(super) http3: Vec<Server>,
    /// Applications that are there, with what each calls itself.
    pub(super) applications: Vec<(Application, String)>,
    /// What servers may use of the memory, in groups that bound it; nothing where it cannot be bounded.
    pub(super) memory: Option<Memory>,
}

impl std::ops::Deref for Session<'_> {
    type Target = WebStage;

    fn deref(&self) -> &WebStage {
        &self.web
    }
}

impl Session<'_> {
    /// Those servers that can do something.
    pub(super) fn that(&self, can: impl Fn(Server) -> bool) -> Vec<Server> {
        let all = self.all.iter().copied();
        all.filter(|server| can(*server)).collect()
    }

    /// Measures cells on the plain wire: contenders in turn, and of what each did a case. Nothing where there are no contenders.
    pub(super) fn measure<C: Copy + Display, K: Display, O: Contender<Who = String>, T: Tabular>(
        &self,
        cells: &[C],
        contenders: impl Fn(C) -> Vec<K>,
        run: impl Fn(&Guard, C, &K) -> Result<O::Run>,
        case: impl Fn(C, Vec<O>) -> T,
    ) -> Result<Vec<T>> {
        let most = cells.iter().map(|cell| contenders(*cell).len()).max();
        let Some(most @ 1..) = most else {
            return Ok(Vec::new());
        };
        let lab = self.lab(WireKind::Plain)?;
        measure_cells(self, cells, most, |&cell| {
            let run = |contender: &K| run(&lab, cell, contender);
            let results = compare(self, cell, &contenders(cell), K::to_string, run)?;
            Ok(vec![case(cell, results)])
        })
    }

    /// Ends a server; for how long it had something to do for a request, where it is ours.
    pub(super) fn end_busy(&self, wire: WireKind, serving: Serving<'_>) -> Result<Option<f64>> {
        let is_ours = serving.server.is_ours();
        let told = self.end(wire, serving)?;
        Ok(is_ours.then(|| busy_us(&told)).flatten())
    }

    /// A visit of our client to a server that knows by then what it is asked for.
    pub(super) fn prepare_visit(
        &self,
        lab: &Lab,
        serving: &Serving<'_>,
        connection: Connection,
        size: Size,
    ) -> Result<Visit> {
        let visit = self.new_visit(lab, serving.server, connection, size)?;
        if serving.server == Server::Kernel {
            let mut first = visit.clone();
            first.seconds = LEARNING_SECS;
            self.visit(lab, serving, &first, || Ok(()))?;
            self.pause(LEARNT)?;
        }
        Ok(visit)
    }
}
