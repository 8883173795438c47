//! What the user may choose of every experiment that loads web servers.

use super::{Connection, Size};
use crate::limits::{CONNECTIONS_MAX, SIZE_MAX};
use exos_host::{Error, Result};
use std::path::PathBuf;

/// Options of the room, and of how cells are chosen and told of.
#[derive(clap::Args, Clone, Debug)]
pub struct RoomArgs {
    /// A few cells, once each and short: to see that all is well
    #[arg(long)]
    pub quick: bool,
    /// Only cells whose name contains this (repeatable), for example new/100; see --list
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// List the cells' names and measure nothing
    #[arg(long)]
    pub list: bool,
    /// Kinds of connection, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Connection::New, Connection::Persistent])]
    pub connection: Vec<Connection>,
    /// How many connections the client keeps busy at a time
    #[arg(long, default_value_t = 64)]
    pub connections: u32,
    /// How often each cell is measured, each time all that are compared one after the other [default: 3, with --quick 1]
    #[arg(long)]
    pub runs: Option<u32>,
    /// Seconds that one measurement lasts [default: 2, with --quick 1]
    #[arg(long)]
    pub duration: Option<u32>,
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
