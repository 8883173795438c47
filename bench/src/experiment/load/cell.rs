//! What is measured together.

use crate::experiment::http::{Carrier, Kind};
use crate::stage::request::{Connection, Size};
use crate::stage::web::{Carried, Server, Setup, WebLoad, WebStage};
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

/// Streams that are kept busy on a connection of HTTP/2.
const STREAMS: u32 = 100;
/// For this many connections of the other groups there is one of HTTP/2: each carries what a hundred would.
const CONNECTIONS_FOR_ONE: u32 = 16;

/// How a server is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// By HTTP/1.1 in plain text.
    Plain(Connection),
    /// By HTTP/1.1 over TLS.
    Tls(Kind),
    /// By HTTP/2.
    Http2(Carrier),
}

/// All generators on one server, with one way of asking and one document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub(super) server: Server,
    pub(super) asked: Asked,
    pub(super) size: Size,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Plain(connection) => write!(f, "{connection}"),
            Asked::Tls(kind) => write!(f, "tls/{kind}"),
            Asked::Http2(carrier) => write!(f, "http2/{carrier}"),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, asked) = (self.server, self.asked);
        write!(f, "{server}/{asked}/{}", self.size.name())
    }
}

impl Asked {
    /// How requests are spread over connections.
    pub(super) fn connection(self) -> Connection {
        match self {
            Asked::Plain(connection) => connection,
            Asked::Tls(Kind::Full | Kind::Resumed) => Connection::New,
            Asked::Tls(Kind::Persistent) | Asked::Http2(_) => Connection::Persistent,
        }
    }

    /// The share of handshakes that resume a session, where there are any.
    fn resuming(self) -> Option<f64> {
        match self {
            Asked::Plain(_) | Asked::Http2(Carrier::Plain) => None,
            Asked::Tls(Kind::Resumed) => Some(1.0),
            Asked::Tls(_) | Asked::Http2(Carrier::Tls) => Some(0.0),
        }
    }

    /// What is done for a request, of HTTP/1.1 over TLS.
    pub(super) fn handshake(self) -> Option<Kind> {
        match self {
            Asked::Tls(kind) => Some(kind),
            Asked::Plain(_) | Asked::Http2(_) => None,
        }
    }

    /// What HTTP/2 is spoken on.
    pub(super) fn carrier(self) -> Option<Carrier> {
        match self {
            Asked::Http2(carrier) => Some(carrier),
            Asked::Plain(_) | Asked::Tls(_) => None,
        }
    }

    /// What carries the requests.
    pub(super) fn carried(self) -> Carried {
        match self {
            Asked::Http2(_) => Carried::Http2(STREAMS),
            Asked::Plain(_) | Asked::Tls(_) => Carried::Http1,
        }
    }

    /// Whether such a server can be asked so.
    pub(super) fn is_of(self, server: Server) -> bool {
        match self {
            Asked::Plain(_) => server.serves_files(),
            // Others would be the limit.
            Asked::Tls(_) | Asked::Http2(_) => server.is_ours() && server.has_tls(),
        }
    }
}

impl Cell {
    /// How its server is set up.
    pub(super) fn setup(self) -> Setup {
        Setup {
            tls: !matches!(self.asked, Asked::Plain(_)),
            ..self.server.into()
        }
    }

    /// Connections that a generator keeps busy, where it is told to keep as many in the other groups.
    pub(super) fn connections(self, of_others: u32) -> u32 {
        match self.asked {
            Asked::Http2(_) => of_others.div_ceil(CONNECTIONS_FOR_ONE),
            Asked::Plain(_) | Asked::Tls(_) => of_others,
        }
    }

    /// The load.
    pub(super) fn load(self, web: &WebStage) -> WebLoad {
        let resuming = self.asked.resuming();
        WebLoad {
            at: match resuming {
                Some(_) => self.server.tls_address(),
                None => self.server.address(),
            },
            resuming,
            carried: self.asked.carried(),
            connections: self.connections(web.connections),
            ..web.load_of(self.server, self.asked.connection(), self.size)
        }
    }
}
