//! What the user may choose.

use super::{Server, Size};
use crate::limits::{CONNECTIONS_MAX, SIZE_MAX};
use exos_host::{Error, Result};
use exos_lab::WireKind;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// How requests are spread over connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// A new connection for each request: the client sends `Connection: close`.
    New,
    /// Many requests on each connection.
    Persistent,
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Connection::New => "new",
            Connection::Persistent => "persistent",
        })
    }
}

/// Options of `exos bench http`.
#[derive(clap::Args, Clone, Debug)]
pub struct HttpArgs {
    /// Who to measure, in this order, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Server::Exos, Server::Nginx])]
    pub servers: Vec<Server>,
    /// Sizes of the documents in bytes, separated by commas; K is 1024 bytes, M 1024 K
    #[arg(long, value_delimiter = ',', default_value = "0,100,1K,10K,100K,1M")]
    pub sizes: Vec<Size>,
    /// Kinds of connection, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Connection::New, Connection::Persistent])]
    pub connection: Vec<Connection>,
    /// How many connections the client keeps busy at a time
    #[arg(long, default_value_t = 64)]
    pub connections: u32,
    /// How often each case is measured; the table shows the median
    #[arg(long, default_value_t = 3)]
    pub runs: u32,
    /// Seconds that one measurement lasts
    #[arg(long, default_value_t = 2)]
    pub duration: u32,
    /// plain: no offloads, what crosses looks like a wire; offload: the kernel's defaults
    #[arg(long, value_enum, default_value_t)]
    pub wire: WireKind,
    /// Write JSON to this file, or to standard output for -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Name of the lab that is made for it
    #[arg(long, default_value = "bench")]
    pub lab: String,
    /// The exos program to measure instead of this one
    #[arg(long, value_name = "PROGRAM")]
    pub exos: Option<PathBuf>,
}

impl HttpArgs {
    /// Says what cannot be measured, before anything is made.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(what));
        if self.servers.is_empty() || self.sizes.is_empty() || self.connection.is_empty() {
            return wrong(
                "there is nothing to measure: give at least one server, size and kind of connection",
            );
        }
        if self.runs == 0 || self.duration == 0 {
            return wrong("--runs and --duration must be at least 1");
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return wrong(&format!(
                "--connections must be from 1 to {CONNECTIONS_MAX}"
            ));
        }
        if let Some(size) = self.sizes.iter().find(|size| size.bytes() > SIZE_MAX) {
            return wrong(&format!(
                "--sizes: {size} is more than {}",
                Size::of_bytes(SIZE_MAX)
            ));
        }
        Ok(())
    }
}
