//! How a document is asked for: by which version of HTTP, on what, and over how many connections.

use crate::stage::request::{Connection, Size};
use crate::stage::web::{Carried, Server, Setup, WebLoad, WebStage};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Streams that are kept busy on a connection of HTTP/2 or HTTP/3.
const STREAMS: u32 = 100;
/// Of documents of a megabyte and more.
const STREAMS_OF_LONG: u32 = 2;
const LONG: u64 = 1 << 20;
/// For this many connections of the other ways there is one of streams: each carries what a hundred would.
const CONNECTIONS_FOR_ONE: u32 = 16;

/// What is done for a request beside answering it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// A new connection with a full handshake.
    Full,
    /// A new connection with a handshake that resumes an earlier session.
    Resumed,
    /// Many requests on each connection.
    Persistent,
}

/// What HTTP/2 is spoken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Carrier {
    /// TCP, by prior knowledge.
    Plain,
    /// TLS.
    Tls,
}

/// How a server is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// By HTTP/1.1 in plain text.
    Plain(Connection),
    /// By HTTP/1.1 over TLS.
    Tls(Kind),
    /// By HTTP/2.
    Http2(Carrier),
    /// By HTTP/3.
    Http3,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(connection) => write!(f, "{connection}"),
            Self::Tls(kind) => write!(f, "tls/{kind}"),
            Self::Http2(carrier) => write!(f, "http2/{carrier}"),
            Self::Http3 => f.write_str("http3"),
        }
    }
}

impl Asked {
    /// How requests are spread over connections.
    pub fn connection(self) -> Connection {
        match self {
            Self::Plain(connection) => connection,
            Self::Tls(Kind::Full | Kind::Resumed) => Connection::New,
            Self::Tls(Kind::Persistent) | Self::Http2(_) | Self::Http3 => Connection::Persistent,
        }
    }

    /// The share of handshakes that resume a session, where there are any.
    fn resuming(self) -> Option<f64> {
        match self {
            Self::Plain(_) | Self::Http2(Carrier::Plain) => None,
            Self::Tls(Kind::Resumed) => Some(1.0),
            Self::Tls(_) | Self::Http2(Carrier::Tls) | Self::Http3 => Some(0.0),
        }
    }

    /// What is done for a request, of HTTP/1.1 over TLS.
    pub fn handshake(self) -> Option<Kind> {
        match self {
            Self::Tls(kind) => Some(kind),
            Self::Plain(_) | Self::Http2(_) | Self::Http3 => None,
        }
    }

    /// What HTTP/2 is spoken on.
    pub fn carrier(self) -> Option<Carrier> {
        match self {
            Self::Http2(carrier) => Some(carrier),
            Self::Plain(_) | Self::Tls(_) | Self::Http3 => None,
        }
    }

    /// What carries requests for a document of this size.
    fn carried(self, size: Size) -> Carried {
        match self {
            Self::Plain(_) | Self::Tls(_) => Carried::Http1,
            Self::Http2(_) => Carried::Http2(STREAMS),
            Self::Http3 if size.bytes() >= LONG => Carried::Http3(STREAMS_OF_LONG),
            Self::Http3 => Carried::Http3(STREAMS),
        }
    }

    /// Requests that are under way on each connection.
    pub fn streams(self, size: Size) -> u32 {
        let streams = self.carried(size).streams();
        streams.map_or(1, |(_, streams)| streams)
    }

    /// Connections that a client keeps busy, where it is told to keep as many in the other ways.
    pub fn connections(self, of_others: u32) -> u32 {
        match self {
            Self::Http2(_) | Self::Http3 => of_others.div_ceil(CONNECTIONS_FOR_ONE),
            Self::Plain(_) | Self::Tls(_) => of_others,
        }
    }

    /// How a server is set up that is asked so.
    pub fn setup(self, server: Server) -> Setup {
        Setup {
            tls: !matches!(self, Self::Plain(_)),
            http2: matches!(self, Self::Http2(_)),
            http3: self == Self::Http3,
            ..server.into()
        }
    }

    /// The load.
    pub fn load(self, web: &WebStage, server: Server, size: Size) -> WebLoad {
        WebLoad {
            at: match self {
                Self::Plain(_) => server.address(),
                Self::Http2(Carrier::Plain) => server.http2_address(false),
                Self::Tls(_) | Self::Http2(Carrier::Tls) | Self::Http3 => server.tls_address(),
            },
            resuming: self.resuming(),
            carried: self.carried(size),
            connections: self.connections(web.connections),
            ..web.load_of(server, self.connection(), size)
        }
    }
}
