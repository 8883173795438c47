//! What the user may choose, and the cells that come of it.

use super::Generator;
use crate::experiment::http::{Connection, RoomArgs, Server, Size, sizes_or};
use exos_host::{Error, Result};
use std::fmt;

/// Options of `exos bench load`.
#[derive(clap::Args, Clone, Debug)]
pub struct LoadArgs {
    /// The room, and how cells are chosen and told of.
    #[command(flatten)]
    pub room: RoomArgs,
    /// Load generators to measure, in this order, separated by commas; skips those not installed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Generator::ALL)]
    pub generators: Vec<Generator>,
    /// Servers to load, separated by commas; skips those not installed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Server::Exos, Server::Nginx])]
    pub servers: Vec<Server>,
    /// Sizes of the documents in bytes, separated by commas; K is 1024 bytes, M 1024 K [default: 0,100,1K,10K,100K, with
    /// --quick 100]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
}

/// What is measured together: all generators on one server, with one kind of connection and one document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub server: Server,
    pub connection: Connection,
    pub size: Size,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}",
            self.server,
            self.connection,
            self.size.name()
        )
    }
}

impl std::ops::Deref for LoadArgs {
    type Target = RoomArgs;

    fn deref(&self) -> &RoomArgs {
        &self.room
    }
}

impl LoadArgs {
    /// The sizes to measure.
    pub fn sizes(&self) -> Vec<Size> {
        const KIB: u64 = 1024;
        let default: &[u64] = if self.quick {
            &[100]
        } else {
            &[0, 100, KIB, 10 * KIB, 100 * KIB]
        };
        sizes_or(&self.sizes, default)
    }

    /// Everything, in order.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &server in &self.servers {
            for &connection in &self.connection {
                let cell = |size| Cell {
                    server,
                    connection,
                    size,
                };
                cells.extend(self.sizes().into_iter().map(cell));
            }
        }
        cells.retain(|cell| self.wants(&cell.to_string()));
        cells
    }

    /// Says what cannot be measured, before anything is made.
    pub(super) fn check(&self) -> Result<()> {
        if self.servers.is_empty() || self.generators.is_empty() {
            return Err(Error::new(
                "there is nothing to measure: give at least one generator and server",
            ));
        }
        if self.servers.contains(&Server::Handlers) {
            return Err(Error::new(
                "exos-handlers answers in the kernel, where generators on sockets do not hear it",
            )
            .mend("leave it out of --servers"));
        }
        self.room.check(&self.sizes)
    }
}
