//! Table 2 as people read it: what each specialisation is worth down, sizes across.

use super::{ALL, Specialised, Variant};
use crate::experiment::http::outcome::Outcome;
use crate::experiment::http::{Client, Connection, Size};
use exos_program::figure::number;

/// Where nothing was measured.
const NOTHING: &str = "-";

/// One client, wire and kind of connection.
pub(in crate::experiment::http) struct Matrix<'a> {
    pub client: Client,
    pub wire: &'a str,
    pub connection: Connection,
    pub sizes: Vec<Size>,
    /// What each row is, and its cells.
    pub rows: Vec<(String, Vec<String>)>,
}

/// Of all that was measured.
pub(in crate::experiment::http) fn matrices(cases: &[Specialised]) -> Vec<Matrix<'_>> {
    let kind = |case: &Specialised| (case.client, case.connection, case.wire.clone());
    let of_a_kind = cases.chunk_by(|a, b| kind(a) == kind(b));
    of_a_kind.map(matrix).collect()
}

fn matrix(cases: &[Specialised]) -> Matrix<'_> {
    let rate = |variant: Variant| {
        let label = format!("requests/s, {}", variant.name());
        (label, each(cases, variant, |r| number(r.requests_per_sec)))
    };
    let mut rows = vec![
        rate(Variant::Everything),
        rate(Variant::WithoutAll),
        rate(Variant::Sockets),
    ];
    let total = [("direct", "direct access, by sockets")];
    let ones = ALL.iter().map(|&name| (name, name));
    let rest = [
        ("all", "all of these together"),
        ("total", "total, by sockets"),
    ];
    let times = total.into_iter().chain(ones).chain(rest);
    rows.extend(times.map(|(what, label)| (label.to_owned(), worth(cases, what))));
    let limited = each(cases, Variant::Everything, |r| r.limited_by.to_owned());
    rows.push(("limited by, exos".to_owned(), limited));
    let errors = |case: &Specialised| case.results.iter().map(|r| r.errors).sum::<u64>();
    let errors: Vec<u64> = cases.iter().map(errors).collect();
    if errors.iter().any(|count| *count > 0) {
        let errors = errors.iter().map(u64::to_string).collect();
        rows.push(("errors of all".to_owned(), errors));
    }
    // Nobody measured it: no row of nothing.
    rows.retain(|(_, cells)| cells.iter().any(|cell| cell != NOTHING));
    let sizes = cases.iter().map(|case| Size::of_bytes(case.size_bytes));
    Matrix {
        client: cases[0].client,
        wire: &cases[0].wire,
        connection: cases[0].connection,
        sizes: sizes.collect(),
        rows,
    }
}

/// Something of one way to be set up, for each size.
fn each(cases: &[Specialised], variant: Variant, show: fn(&Outcome) -> String) -> Vec<String> {
    let cell = |case: &Specialised| case.result(variant).map_or(NOTHING.to_owned(), show);
    cases.iter().map(cell).collect()
}

/// How many times faster the server is with it, for each size, and of how much and how little in one run.
fn worth(cases: &[Specialised], what: &str) -> Vec<String> {
    let cell = |case: &Specialised| {
        let found = case.worth.iter().find(|worth| worth.what == what);
        found.map_or(NOTHING.to_owned(), |worth| {
            let r = &worth.ratio;
            if r.least == r.most {
                return format!("{:.2}", r.median);
            }
            format!("{:.2} ({:.2} to {:.2})", r.median, r.least, r.most)
        })
    };
    cases.iter().map(cell).collect()
}

impl Matrix<'_> {
    /// As lines of text.
    pub fn lines(&self) -> Vec<String> {
        let title = format!("{}/{}/{}", self.client, self.wire, self.connection);
        let head = self.sizes.iter().map(|size| size.name()).collect();
        let line = |(label, cells): &(String, Vec<String>)| {
            let cells: String = cells.iter().map(|cell| format!(" {cell:>20}")).collect();
            format!("{label:<36}{cells}")
        };
        let mut lines = vec![line(&(title, head))];
        lines.extend(self.rows.iter().map(line));
        lines
    }
}
