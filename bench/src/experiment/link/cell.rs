//! What is measured together, and how each group measures its cells.

use super::args::{Group, LinkArgs};
use super::session::Session;
use super::way::Way;
use crate::experiment::cells::{compare, measure_cells};
use crate::report::figure::Figure;
use crate::report::{Case, Contender, Tabular};
use exos_host::Result;
use std::fmt;

/// Frames of one length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub group: Group,
    pub frame_bytes: usize,
    /// How many of them leave at a time, or are under way.
    pub count: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, bytes, count) = (self.group, self.frame_bytes, self.count);
        match group {
            Group::Lone => write!(f, "{group}/{bytes}"),
            Group::Send | Group::Exchange => write!(f, "{group}/{bytes}/{count}"),
        }
    }
}

impl Cell {
    /// Those of a group.
    pub fn all(group: Group, lens: &[usize], counts: &[u32]) -> Vec<Self> {
        let of_len = |&frame_bytes: &usize| {
            let cell = move |&count: &u32| Self {
                group,
                frame_bytes,
                count,
            };
            counts.iter().map(cell)
        };
        lens.iter().flat_map(of_len).collect()
    }

    /// Whether it was asked for.
    pub fn is_wanted(&self, args: &LinkArgs) -> bool {
        args.groups.contains(&self.group) && args.common.wants(&self.to_string())
    }
}

/// Measures cells by those of some ways that were asked for and are there.
pub(super) fn measure<O: Contender<Who = Way>, C: Tabular>(
    session: &Session,
    cells: &[Cell],
    ways: &[Way],
    run: impl Fn(Cell, Way) -> Result<O::Run>,
    case: impl Fn(Cell, Vec<O>) -> C,
) -> Result<Vec<C>> {
    let there = session.ways.iter().copied();
    let ways: Vec<Way> = there.filter(|way| ways.contains(way)).collect();
    if cells.is_empty() || ways.is_empty() {
        return Ok(Vec::new());
    }
    measure_cells(session, cells, ways.len(), |cell| {
        let results = compare(session, cell, &ways, |way| *way, |way| run(*cell, *way))?;
        Ok(vec![case(*cell, results)])
    })
}

/// A figure of what each of some ways did by the ring: of each length of frames one, with a group of bars for each case, by what
/// `label` says of it.
pub(super) fn by_ring<C: Case<Outcome: Contender<Who = Way>>>(
    about: (&'static str, &'static str),
    ways: &[Way],
    cases: &[C],
    label: impl Fn(&C) -> (usize, String),
    value: impl Fn(&C::Outcome) -> f64,
) -> Option<Figure> {
    let series: Vec<String> = ways.iter().map(Way::to_string).collect();
    let series: Vec<&str> = series.iter().map(String::as_str).collect();
    let kind = |case: &&C| format!("frames of {} bytes", label(case).0);
    let name = |case: &&C| label(case).1;
    let value = |case: &&C, way: &str| Contender::find(case.parts().1, way).map(&value);
    let by = ("by the ring", series[0]);
    Figure::by_peer(about, by, &series, cases, (kind, name), value, |_| None)
}
