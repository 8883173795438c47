//! What each specialisation is worth: the paper's Table 2.

use super::{table, title_of};
use crate::experiment::http::Report;
use crate::experiment::http::specialisations::matrices;
use exos_program::html::escape;
use std::fmt::Write as _;

/// How the numbers are to be read.
const READING: &str = "How many times more requests a second the server answers with each specialisation than without it, \
     all others left on: of each run, then the median, with the least and the most. Direct access is the event loop on \
     packets without any of them, by the same server on the kernel's sockets (the paper's Baseline); the total is the \
     whole by that server. Where the client is what limits, the server could have done more.";

impl Report {
    pub(super) fn table_specialisations(&self, out: &mut String) {
        let matrices = matrices(&self.specialisations);
        if matrices.is_empty() {
            return;
        }
        let _ = write!(
            out,
            "<h2>What each specialisation is worth</h2>\n<p>{READING}</p>\n"
        );
        for matrix in matrices {
            let title = title_of(matrix.client, matrix.wire, matrix.connection);
            let sizes: Vec<String> = matrix.sizes.iter().map(ToString::to_string).collect();
            let head = [""].into_iter().chain(sizes.iter().map(String::as_str));
            let rows = matrix.rows.into_iter();
            let rows = rows.map(|(label, cells)| [vec![label], cells].concat());
            let _ = write!(
                out,
                "<h3>{}</h3>\n{}",
                escape(&title),
                table(&head.collect::<Vec<_>>(), rows)
            );
        }
    }
}
