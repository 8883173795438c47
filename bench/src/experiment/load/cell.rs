//! What is measured together.

use crate::experiment::asked::Asked;
use crate::stage::request::Size;
use crate::stage::web::{Server, WebLoad, WebStage};
use std::fmt;

/// Groups of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Group {
    /// HTTP/1.1 in plain text, compared with the packet limit of the link
    Http,
    /// HTTP/1.1 over TLS: full and resumed handshakes, and standing connections
    Tls,
    /// HTTP/2, a hundred streams on each connection, in plain text and over TLS
    Http2,
}

/// All generators on one server, with one way of asking and one document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub(super) server: Server,
    pub(super) asked: Asked,
    pub(super) size: Size,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, asked) = (self.server, self.asked);
        write!(f, "{server}/{asked}/{}", self.size.name())
    }
}

impl Cell {
    /// Whether the server can be asked so.
    pub(super) fn is_possible(self) -> bool {
        match self.asked {
            Asked::Plain(_) => self.server.serves_files(),
            // Others would be the limit.
            Asked::Tls(_) | Asked::Http2(_) | Asked::Http3 => {
                self.server.is_ours() && self.server.has_tls()
            }
        }
    }

    /// The load.
    pub(super) fn load(self, web: &WebStage) -> WebLoad {
        self.asked.load(web, self.server, self.size)
    }
}
