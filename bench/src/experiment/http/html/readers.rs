//! Fast readers beside slow ones.

use super::table;
use crate::experiment::http::Report;
use exos_program::figure::number;

impl Report {
    pub(super) fn table_readers(&self, out: &mut String) {
        if self.readers.is_empty() {
            return;
        }
        *out += "<h2>Fast readers beside slow ones</h2>\n<p>Slow ones take a segment a second of 1 MB. Bytes are those \
                 that each of them adds to the server's process, and to the kernel's sockets on its side.</p>\n";
        let rows = self.readers.iter().flat_map(|case| {
            case.results.iter().map(|r| {
                vec![
                    case.readers.to_string(),
                    r.server.clone(),
                    number(r.alone_per_sec),
                    number(r.beside_per_sec),
                    format!("{:.2}", r.kept),
                    number(r.process_bytes_per_reader),
                    number(r.kernel_bytes_per_reader),
                ]
            })
        });
        *out += &table(
            &[
                "slow readers",
                "server",
                "requests/s without",
                "with",
                "kept",
                "process, bytes each",
                "kernel, bytes each",
            ],
            rows,
        );
    }
}
