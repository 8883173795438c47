//! What the user may choose of every experiment that loads web servers.

use super::{Connection, Size};
use crate::limits::{CONNECTIONS_MAX, SIZE_MAX};
use exos_host::{Error, Result};
use std::path::PathBuf;

/// Options of the room, and of how cells are chosen and told of.
#[derive(clap::Args, Clone, Debug)]
pub struct RoomArgs {
    /// Measure only a few cells, once and briefly, to check that everything works
    #[arg(long)]
    pub quick: bool,
    /// Measure only cells (combinations) whose name contains this text, such as new/100; see --list (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// List the names of all cells, and exit
    #[arg(long)]
    pub list: bool,
    /// Kinds of connection, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Connection::New, Connection::Persistent])]
    pub connection: Vec<Connection>,
    /// Connections that the client keeps busy at once
    #[arg(long, default_value_t = 64)]
    pub connections: u32,
    /// How often to measure each cell, each time all competitors one after the other [default: 3, with --quick 1]
    #[arg(long)]
    pub runs: Option<u32>,
    /// Seconds per measurement [default: 2, with --quick 1]
    #[arg(long)]
    pub duration: Option<u32>,
    /// Write the results as JSON to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a self-contained HTML report with charts to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Name of the lab to make
    #[arg(long, default_value = "bench")]
    pub lab: String,
    /// Measure this exos program instead of the running one
    #[arg(long, value_name = "PROGRAM")]
    pub exos: Option<PathBuf>,
    /// User ID, not root's, that exos runs as when the daemon provides its link
    #[arg(long, default_value_t = 65534)]
    pub uid: u32,
}

impl RoomArgs {
    /// How often each cell is measured.
    pub fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// How long one measurement lasts, in seconds.
    pub fn duration(&self) -> u32 {
        self.duration.unwrap_or(if self.quick { 1 } else { 2 })
    }

    /// Whether a cell was asked for.
    pub(crate) fn wants(&self, cell: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| cell.contains(text))
    }

    /// Says what cannot be measured, before anything is made.
    pub(crate) fn check(&self, sizes: &[Size]) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(what));
        if self.connection.is_empty() {
            return wrong("there is nothing to measure: give at least one kind of connection");
        }
        if self.runs() == 0 || self.duration() == 0 {
            return wrong("--runs and --duration must be at least 1");
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return wrong(&format!(
                "--connections must be from 1 to {CONNECTIONS_MAX}"
            ));
        }
        if let Some(size) = sizes.iter().find(|size| size.bytes() > SIZE_MAX) {
            return wrong(&format!(
                "--sizes: {size} is more than {}",
                Size::of_bytes(SIZE_MAX)
            ));
        }
        if self.uid == 0 {
            return wrong("--uid: programs with a part that the daemon lends are not root's");
        }
        Ok(())
    }
}

/// The sizes that were asked for, or those that are measured when none was.
pub(crate) fn sizes_or(asked: &[Size], default: &[u64]) -> Vec<Size> {
    if asked.is_empty() {
        default.iter().map(|&bytes| Size::of_bytes(bytes)).collect()
    } else {
        asked.to_vec()
    }
}
