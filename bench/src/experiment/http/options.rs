//! What the user may choose.

use super::room_options::{RoomArgs, sizes_or};
use super::{Server, Size};
use exos_host::{Error, Result};
use exos_lab::WireKind;
use serde::Serialize;
use std::fmt;

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
    /// wrk, on kernel sockets.
    Wrk,
    /// A client that writes packets itself, with as little TCP as the protocol allows; plain wire only.
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
    /// Documents of several sizes at full speed, compared with the packet limit of the link
    Documents,
    /// What each optimisation of exos serve is worth: without each one, without all, and on kernel sockets
    Specialisations,
    /// Latency at half of nginx's highest rate
    Latency,
    /// Fast clients next to many slow ones, and what the slow ones cost
    Readers,
    /// exos serve on two cores compared with one: what a request costs on each, and packets that arrive at the wrong
    /// core
    Cores,
}

/// Options of `exos bench http`.
#[derive(clap::Args, Clone, Debug)]
pub struct HttpArgs {
    /// The room, and how cells are chosen and told of.
    #[command(flatten)]
    pub room: RoomArgs,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Documents, Group::Specialisations, Group::Latency, Group::Readers, Group::Cores])]
    pub groups: Vec<Group>,
    /// Servers to measure, in this order, separated by commas; skips those not installed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Server::ALL)]
    pub servers: Vec<Server>,
    /// Clients that load the servers, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Client::Wrk, Client::Packets])]
    pub clients: Vec<Client>,
    /// Sizes of the documents in bytes, separated by commas; K is 1024 bytes, M 1024 K [default:
    /// 0,100,1K,10K,100K,1M, with --quick 100,10K; of specialisations 0,100,1K,10K,100K, with --quick 100,100K]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// Numbers of slow clients, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1000, 4000])]
    pub readers: Vec<u32>,
    /// Kinds of wire, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [WireKind::Plain, WireKind::Offload])]
    pub wire: Vec<WireKind>,
}

/// Most slow readers: a server of the kernel's has a descriptor for each.
const READERS_MAX: u32 = 8000;

impl std::ops::Deref for HttpArgs {
    type Target = RoomArgs;

    fn deref(&self) -> &RoomArgs {
        &self.room
    }
}

impl HttpArgs {
    /// The sizes to measure.
    pub fn sizes(&self) -> Vec<Size> {
        const KIB: u64 = 1024;
        let default: &[u64] = if self.quick {
            &[100, 10 * KIB]
        } else {
            &[0, 100, KIB, 10 * KIB, 100 * KIB, KIB * KIB]
        };
        sizes_or(&self.sizes, default)
    }

    /// Numbers of slow readers to measure.
    pub(super) fn readers(&self) -> &[u32] {
        let few = if self.quick { 1 } else { self.readers.len() };
        &self.readers[..few.min(self.readers.len())]
    }

    /// Whether a group, and one of its cells, was asked for.
    pub(super) fn wants(&self, group: Group, cell: &str) -> bool {
        self.groups.contains(&group) && self.room.wants(cell)
    }

    /// Says what cannot be measured, before anything is made.
    pub(super) fn check(&self) -> Result<()> {
        if self.servers.is_empty()
            || self.groups.is_empty()
            || self.clients.is_empty()
            || self.wire.is_empty()
        {
            return Err(Error::new(
                "there is nothing to measure: give at least one group, server, client and wire",
            ));
        }
        self.room.check(&self.sizes)?;
        if self.readers.iter().any(|n| !(1..=READERS_MAX).contains(n)) {
            return Err(Error::new(format!(
                "--readers must be from 1 to {READERS_MAX}"
            )));
        }
        Ok(())
    }
}
