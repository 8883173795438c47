//! A load of a web server, which one of several programs makes.

use crate::stage::request::{Connection, Size};
use std::net::SocketAddrV4;
use std::path::PathBuf;

/// As many requests as go.
#[derive(Clone, Debug)]
pub(crate) struct WebLoad {
    /// Connections that are kept busy at once.
    pub connections: u32,
    pub seconds: f64,
    pub connection: Connection,
    /// Where the server answers.
    pub at: SocketAddrV4,
    /// What it is asked for.
    pub size: Size,
    /// Or the requests of this log, in its order: by `exos load`.
    pub log: Option<PathBuf>,
    /// Over TLS: the share of its handshakes that resume a session, 0 to 1.
    pub resuming: Option<f64>,
    /// What carries the requests.
    pub carried: Carried,
}

/// What carries requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// HTTP/1.1, a request at a time.
    Http1,
    /// HTTP/2, with as many requests under way on each connection.
    Http2(u32),
    /// HTTP/3, with as many.
    Http3(u32),
}

impl Carried {
    /// The version, and how many requests are under way on each connection, where these are many.
    pub fn streams(self) -> Option<(u8, u32)> {
        match self {
            Self::Http1 => None,
            Self::Http2(streams) => Some((2, streams)),
            Self::Http3(streams) => Some((3, streams)),
        }
    }
}

impl WebLoad {
    /// How long it takes by a program that counts in whole seconds.
    pub fn whole_seconds(&self) -> u32 {
        whole(self.seconds)
    }

    /// What is asked for, and where.
    pub fn url(&self) -> String {
        let scheme = self.resuming.map_or("http", |_| "https");
        format!("{scheme}://{}/{}", self.at, self.size.document())
    }
}

/// Whole seconds that are no less.
pub(crate) fn whole(seconds: f64) -> u32 {
    seconds.ceil() as u32
}
