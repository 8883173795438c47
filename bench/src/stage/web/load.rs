//! A load of a web server, which one of several programs makes.

use crate::stage::request::{Connection, Size};
use std::net::SocketAddrV4;

/// As many requests as go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebLoad {
    /// Connections that are kept busy at once.
    pub connections: u32,
    pub seconds: f64,
    pub connection: Connection,
    /// Where the server answers.
    pub at: SocketAddrV4,
    /// What it is asked for.
    pub size: Size,
}

impl WebLoad {
    /// How long it takes by a program that counts in whole seconds.
    pub fn whole_seconds(&self) -> u32 {
        whole(self.seconds)
    }

    /// What is asked for, and where.
    pub fn url(&self) -> String {
        format!("http://{}/{}", self.at, self.size.document())
    }
}

/// Whole seconds that are no less.
pub(crate) fn whole(seconds: f64) -> u32 {
    seconds.ceil() as u32
}
