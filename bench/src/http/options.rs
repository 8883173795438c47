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

/// Who loads the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// wrk, on the kernel's sockets.
    Wrk,
    /// A client of ours that writes packets itself, with as little of TCP as the protocol allows. Plain wire only.
    Packets,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Client::Wrk => "wrk",
            Client::Packets => "packets",
        })
    }
}

/// Groups of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Group {
    /// Documents of several sizes as fast as they go, beside the packet limit of the link
    Documents,
    /// What each specialisation of exos serve is worth: each taken away alone, then all, and the same server on sockets
    Specialisations,
    /// Latency at half of nginx's highest rate
    Latency,
    /// Fast readers beside many slow ones, and what those cost
    Readers,
    /// exos serve on two cores against one: what a request costs each of them, and what comes to the wrong one
    Cores,
}

/// Options of `exos bench http`.
#[derive(clap::Args, Clone, Debug)]
pub struct HttpArgs {
    /// A few cells, once each and short: some minutes to see that all is well
    #[arg(long)]
    pub quick: bool,
    /// Only cells whose name contains this (repeatable), for example wrk/plain or new/100
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Documents, Group::Specialisations, Group::Latency, Group::Readers, Group::Cores])]
    pub groups: Vec<Group>,
    /// List the cells' names and measure nothing
    #[arg(long)]
    pub list: bool,
    /// Who to measure, in this order, separated by commas; what is not installed is left out
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Server::ALL)]
    pub servers: Vec<Server>,
    /// Who loads them, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Client::Wrk, Client::Packets])]
    pub clients: Vec<Client>,
    /// Sizes of the documents in bytes, separated by commas; K is 1024 bytes, M 1024 K [default:
    /// 0,100,1K,10K,100K,1M, with --quick 100,10K; of specialisations 0,100,1K,10K,100K, with --quick 100,100K]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// Kinds of connection, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Connection::New, Connection::Persistent])]
    pub connection: Vec<Connection>,
    /// How many connections the client keeps busy at a time
    #[arg(long, default_value_t = 64)]
    pub connections: u32,
    /// How often each cell is measured, each time all servers one after the other [default: 3, with --quick 1]
    #[arg(long)]
    pub runs: Option<u32>,
    /// Seconds that one measurement lasts [default: 2, with --quick 1]
    #[arg(long)]
    pub duration: Option<u32>,
    /// Numbers of slow readers, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1000, 4000])]
    pub readers: Vec<u32>,
    /// plain: no offloads, what crosses looks like a wire; offload: the kernel's defaults. Separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [WireKind::Plain, WireKind::Offload])]
    pub wire: Vec<WireKind>,
    /// Write JSON to this file, or to standard output for -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a report with figures to this file, a page of HTML that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Name of the lab that is made for it
    #[arg(long, default_value = "bench")]
    pub lab: String,
    /// The exos program to measure instead of this one
    #[arg(long, value_name = "PROGRAM")]
    pub exos: Option<PathBuf>,
    /// Who exos runs as where the daemon lends it a link: a user number, not root's
    #[arg(long, default_value_t = 65534)]
    pub uid: u32,
}

/// Most slow readers: a server of the kernel's has a descriptor for each.
const READERS_MAX: u32 = 8000;

impl HttpArgs {
    /// How often each cell is measured.
    pub fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// How long one measurement lasts, in seconds.
    pub fn duration(&self) -> u32 {
        self.duration.unwrap_or(if self.quick { 1 } else { 2 })
    }

    /// The sizes to measure.
    pub fn sizes(&self) -> Vec<Size> {
        const KIB: u64 = 1024;
        let default: &[u64] = if self.quick {
            &[100, 10 * KIB]
        } else {
            &[0, 100, KIB, 10 * KIB, 100 * KIB, KIB * KIB]
        };
        if self.sizes.is_empty() {
            default.iter().map(|&bytes| Size::of_bytes(bytes)).collect()
        } else {
            self.sizes.clone()
        }
    }

    /// Numbers of slow readers to measure.
    pub(super) fn readers(&self) -> &[u32] {
        let few = if self.quick { 1 } else { self.readers.len() };
        &self.readers[..few.min(self.readers.len())]
    }

    /// Whether a group, and one of its cells, was asked for.
    pub(super) fn wants(&self, group: Group, cell: &str) -> bool {
        self.groups.contains(&group)
            && (self.only.is_empty() || self.only.iter().any(|text| cell.contains(text)))
    }

    /// Says what cannot be measured, before anything is made.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(what));
        if self.servers.is_empty()
            || self.connection.is_empty()
            || self.groups.is_empty()
            || self.clients.is_empty()
            || self.wire.is_empty()
        {
            return wrong(
                "there is nothing to measure: give at least one group, server, client, wire and kind of connection",
            );
        }
        if self.runs() == 0 || self.duration() == 0 {
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
        if self.readers.iter().any(|n| !(1..=READERS_MAX).contains(n)) {
            return wrong(&format!("--readers must be from 1 to {READERS_MAX}"));
        }
        if self.uid == 0 {
            return wrong("--uid: programs with a part that the daemon lends are not root's");
        }
        Ok(())
    }
}
