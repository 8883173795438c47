//! What was measured as a page of HTML that needs nothing else: figures and tables.
//!
//! Here is the page and what its parts share; `documents`, `specialisations`, `latency`, `readers` and `cores` are the parts.

mod cores;
mod documents;
mod latency;
mod readers;
mod specialisations;

use super::{Client, Connection, Report};
use exos_program::html::{page, table};

impl Report {
    /// The page.
    pub(in crate::experiment::http) fn page(&self) -> String {
        let mut out = format!("<h1>Documents over HTTP</h1>\n{}", self.setting());
        self.figure_documents(&mut out);
        self.figure_cpu(&mut out);
        self.table_specialisations(&mut out);
        self.figure_latency(&mut out);
        self.table_readers(&mut out);
        self.table_cores(&mut out);
        self.table_documents(&mut out);
        page("exos bench http", &out)
    }

    /// The servers, by their numbers, which have the same colours in all figures.
    fn series(&self) -> impl Iterator<Item = (usize, &str)> {
        let servers = self.setting.servers.iter().enumerate();
        servers.map(|(at, server)| (at, server.name.as_str()))
    }

    fn setting(&self) -> String {
        self.setting.html(&self.versions())
    }
}

pub(crate) fn connections(connection: Connection) -> &'static str {
    match connection {
        Connection::New => "a connection for each request",
        Connection::Persistent => "standing connections",
    }
}

fn title_of(client: Client, wire: &str, connection: Connection) -> String {
    let client = match client {
        Client::Wrk => "wrk",
        Client::Packets => "our client",
    };
    format!("{client}, {wire} wire, {}", connections(connection))
}

#[cfg(test)]
mod tests {
    use crate::experiment::http::report::tests::report;
    use crate::report::Results as _;

    #[test]
    fn the_page_has_a_figure_for_each_kind_and_needs_nothing_else() {
        let html = report().html();
        // One of documents and one of what they cost, of two sizes, and one of latency.
        assert_eq!(html.matches("<svg").count(), 3);
        assert!(html.contains("1 KB</text>") && html.contains("1 MB</text>"));
        assert!(
            html.contains("class=\"limit\""),
            "the packet limit as a line"
        );
        assert!(html.contains("&lt;before&gt;") && !html.contains("<before>"));
        for elsewhere in ["http://", "https://", "<script", "src=", "@import", "url("] {
            assert!(!html.contains(elsewhere), "{elsewhere}");
        }
        for (opened, closed) in [
            ("<table", "</table"),
            ("<svg", "</svg"),
            ("<td", "</td"),
            ("<p", "</p"),
        ] {
            let opened = html.matches(opened).count();
            // `<p` also begins `<polyline`, which closes itself.
            let own = if closed == "</p" {
                html.matches("<polyline").count()
            } else {
                0
            };
            assert_eq!(opened - own, html.matches(closed).count(), "{closed}");
        }
    }
}
