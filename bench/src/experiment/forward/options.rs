//! What the user may choose, and the cells that come of it.

use super::Contender;
use crate::experiment::http::{Connection, RoomArgs, Size, sizes_or};
use exos_host::{Error, Result};
use exos_lab::WireKind;
use std::fmt;

/// Options of `exos bench forward`.
#[derive(clap::Args, Clone, Debug)]
pub struct ForwardArgs {
    /// The room, and how cells are chosen and told of.
    #[command(flatten)]
    pub room: RoomArgs,
    /// Forwarders to measure, in this order, separated by commas; skips those not installed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Contender::ALL)]
    pub contenders: Vec<Contender>,
    /// Kinds of wire, separated by commas [default: plain,offload, with --quick plain]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub wire: Vec<WireKind>,
    /// Sizes of the documents in bytes, separated by commas; K is 1024 bytes, M 1024 K [default: 0,100,1K,10K,100K,1M,
    /// with --quick 100]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// Requests per second at which to measure latency; 0: do not measure it
    #[arg(long, default_value_t = 1000)]
    pub latency_rate: u32,
}

/// What is measured together: all who forward, on one wire, with one kind of connection and one document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub wire: WireKind,
    pub connection: Connection,
    pub size: Size,
    /// Requests a second; as many as go where there is none.
    pub rate: Option<u32>,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rate.is_some() {
            f.write_str("latency/")?;
        }
        let (wire, connection) = (self.wire, self.connection);
        write!(f, "{wire}/{connection}/{}", self.size.name())
    }
}

impl ForwardArgs {
    /// The sizes to measure.
    pub fn sizes(&self) -> Vec<Size> {
        const KIB: u64 = 1024;
        let default: &[u64] = if self.room.quick {
            &[100]
        } else {
            &[0, 100, KIB, 10 * KIB, 100 * KIB, 1024 * KIB]
        };
        sizes_or(&self.sizes, default)
    }

    fn wires(&self) -> Vec<WireKind> {
        match (&self.wire[..], self.room.quick) {
            ([], true) => vec![WireKind::Plain],
            ([], false) => vec![WireKind::Plain, WireKind::Offload],
            (wires, _) => wires.to_vec(),
        }
    }

    /// Everything, in order, wire after wire.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for wire in self.wires() {
            for &connection in &self.room.connection {
                let cell = |size| Cell {
                    wire,
                    connection,
                    size,
                    rate: None,
                };
                cells.extend(self.sizes().into_iter().map(cell));
            }
            if wire == WireKind::Plain && self.latency_rate > 0 {
                cells.push(Cell {
                    wire,
                    connection: Connection::Persistent,
                    size: self.sizes()[0],
                    rate: Some(self.latency_rate),
                });
            }
        }
        cells.retain(|cell| self.room.wants(&cell.to_string()));
        cells
    }

    /// Says what cannot be measured, before anything is made.
    pub(super) fn check(&self) -> Result<()> {
        if self.contenders.is_empty() {
            return Err(Error::new(
                "there is nothing to measure: give at least one of --contenders",
            ));
        }
        self.room.check(&self.sizes)
    }
}
