//! Documents of several sizes, as fast as they go.
//!
//! In each run of a cell the servers take turns: each is started, checked to answer with the right document, measured
//! and stopped before the next, so none disturbs another and drift of the machine meets all alike.

use super::limit::LimitCase;
use super::load::Load;
use super::outcome::{Case, Outcome, Run};
use super::{Client, Connection, Group, Session, Size, limit};
use exos_host::Result;
use exos_lab::{Guard, WireKind};
use indicatif::ProgressBar;

/// What is measured together: the same frames, by each client that was asked for.
struct Cell {
    wire: WireKind,
    connection: Connection,
    size: Size,
    clients: Vec<Client>,
}

impl Cell {
    fn load(&self, client: Client) -> Load {
        Load {
            client,
            wire: self.wire,
            connection: self.connection,
            size: self.size,
        }
    }

    fn name(&self, client: Client) -> String {
        format!("documents/{}", self.load(client))
    }
}

/// Everything, in order.
fn cells(args: &super::HttpArgs) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &wire in &args.wire {
        for &connection in &args.connection {
            for size in args.sizes() {
                let mut cell = Cell {
                    wire,
                    connection,
                    size,
                    clients: Vec::new(),
                };
                let wanted = |client: &Client| args.wants(Group::Documents, &cell.name(*client));
                let clients = args.clients.iter().copied();
                cell.clients = clients.filter(|c| c.can_on(wire) && wanted(c)).collect();
                cells.push(cell);
            }
        }
    }
    cells.retain(|cell| !cell.clients.is_empty());
    cells
}

/// The names of the cells.
pub(super) fn names(args: &super::HttpArgs) -> Vec<String> {
    let names =
        |cell: &Cell| -> Vec<String> { cell.clients.iter().map(|&c| cell.name(c)).collect() };
    cells(args).iter().flat_map(names).collect()
}

/// Measures them.
pub(super) fn measure(session: &Session<'_>) -> Result<(Vec<Case>, Vec<LimitCase>)> {
    let cells = cells(session.args);
    let servers = session.servers.len();
    let steps: usize = cells.iter().map(|cell| cell.clients.len() * servers).sum();
    let progress = session.progress(steps * session.args.runs() as usize);
    let (mut cases, mut limits) = (Vec::new(), Vec::new());
    let mut lab: Option<(WireKind, Guard)> = None;
    for cell in &cells {
        let here = match lab.take() {
            Some((wire, lab)) if wire == cell.wire => lab,
            // The one before is taken down first.
            other => {
                drop(other);
                session.lab(cell.wire)?
            }
        };
        let (measured, limit) = measure_cell(session, &here, cell, &progress)?;
        measured
            .iter()
            .for_each(|case| progress.suspend(|| eprint!("{}", case.rows())));
        cases.extend(measured);
        limits.extend(limit);
        lab = Some((cell.wire, here));
    }
    progress.finish_and_clear();
    Ok((cases, limits))
}

fn measure_cell(
    session: &Session<'_>,
    lab: &Guard,
    cell: &Cell,
    progress: &ProgressBar,
) -> Result<(Vec<Case>, Option<LimitCase>)> {
    let mut runs = vec![vec![Vec::new(); session.servers.len()]; cell.clients.len()];
    let mut limits = Vec::new();
    for _ in 0..session.args.runs() {
        let limit = (cell.wire == WireKind::Plain)
            .then(|| limit::measure(session, lab, cell.connection, cell.size))
            .transpose()?;
        limits.extend(limit);
        for (&client, runs) in cell.clients.iter().zip(&mut runs) {
            for (at, runs) in runs.iter_mut().enumerate() {
                let server = session.servers[at].0;
                if !server.is_for(client) {
                    progress.inc(1);
                    continue;
                }
                progress.set_message(format!("{}, {server}", cell.name(client)));
                runs.push(cell.load(client).run(session, lab, server.into(), limit)?);
                progress.inc(1);
            }
        }
    }
    let cases = cell.clients.iter().zip(runs);
    let cases = cases.map(|(&client, runs)| case(session, cell, client, runs));
    Ok((
        cases.collect(),
        LimitCase::of(cell.connection, cell.size, limits),
    ))
}

fn case(session: &Session<'_>, cell: &Cell, client: Client, runs: Vec<Vec<Run>>) -> Case {
    let servers = session.servers.iter().map(|(server, _)| *server);
    let results = servers
        .zip(runs)
        .filter(|(_, runs)| !runs.is_empty())
        .map(|(server, runs)| Outcome::of(server, runs));
    Case::new(
        cell.name(client),
        client,
        cell.wire,
        cell.connection,
        cell.size,
        results.collect(),
    )
}
