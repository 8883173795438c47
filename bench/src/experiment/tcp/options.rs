//! What the user may choose, and the command lines of the helpers.

use exos_host::{Error, Result};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Groups of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Group {
    /// Goodput in both directions under delay, loss and reordering
    Bulk,
    /// Two flows through one bottleneck
    Fair,
    /// The plain wire without losses, compared with the packet limit of the link
    Wire,
    /// A SYN flood at link rate
    Flood,
}

/// Options of `exos bench tcp`.
#[derive(clap::Args, Clone, Debug)]
pub struct TcpArgs {
    /// Measure only a few cells, once each, to check in a minute that everything works
    #[arg(long)]
    pub quick: bool,
    /// Measure only cells (combinations) whose name contains this text, such as bulk/send/20ms or /1%; see --list
    /// (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Wire, Group::Flood, Group::Fair, Group::Bulk])]
    pub groups: Vec<Group>,
    /// List the names of all cells, and exit
    #[arg(long)]
    pub list: bool,
    /// How often to measure each cell, each time all competitors one after the other [default: 3, with --quick 1]
    #[arg(long)]
    pub runs: Option<u32>,
    /// Seconds per measurement
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// Bandwidth of the emulated link in Mbit/s; 0: as fast as the emulator can
    #[arg(long, default_value_t = 200)]
    pub rate: u64,
    /// SYNs per second of the flood, in thousands; 0: as fast as possible, which overflows the sender's own interface,
    /// so that its neighbours lose packets whichever of them is attacked
    #[arg(long, default_value_t = 300)]
    pub flood_rate: u64,
    /// Congestion control of the ExOS stack when it sends; Linux keeps CUBIC
    #[arg(long, value_name = "NAME", default_value = "cubic", value_parser = ["cubic", "newreno", "bbr"])]
    pub ours: String,
    /// Do not measure Linux's BBR
    #[arg(long)]
    pub no_bbr: bool,
    /// Seed of the losses in the first run; each further run uses the next number
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the results as JSON to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Name of the lab to make
    #[arg(long, default_value = "bench-tcp")]
    pub lab: String,
    /// Measure this exos program instead of the running one
    #[arg(long, value_name = "PROGRAM")]
    pub exos: Option<PathBuf>,
}

impl TcpArgs {
    /// How often each cell is measured.
    pub fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// Says what cannot be measured, before anything is made.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(what));
        if self.runs() == 0 || self.groups.is_empty() {
            return wrong("there is nothing to measure: give --runs of 1 or more, and a group");
        }
        if !(0.1..=600.0).contains(&self.seconds) {
            return wrong("--seconds must be from 0.1 to 600");
        }
        Ok(())
    }
}

/// What Linux's side does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Role {
    /// Send as fast as it is taken.
    Send,
    /// Receive as fast as it comes.
    Receive,
}

/// Options of Linux's side.
#[derive(clap::Args, Clone, Debug)]
pub struct PeerArgs {
    /// What to do
    #[arg(value_enum)]
    pub(super) role: Role,
    /// Listen and measure
    #[arg(long)]
    pub(super) listen: Option<SocketAddr>,
    /// Connect, and go on until the other side ends it
    #[arg(long)]
    pub(super) connect: Option<SocketAddr>,
    /// Connections to wait for
    #[arg(long, default_value_t = 1)]
    pub(super) connections: u32,
    /// The kernel's congestion control
    #[arg(long)]
    pub(super) congestion: Option<String>,
    /// Seconds from the last connection's beginning that are not measured
    #[arg(long, default_value_t = 0.0)]
    pub(super) warmup: f64,
    /// Seconds to measure
    #[arg(long, default_value_t = 1.0)]
    pub(super) seconds: f64,
    /// A file to make when it is ready
    #[arg(long)]
    pub(super) ready: Option<PathBuf>,
}

/// What is done with plain frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum RawRole {
    /// Send full-sized frames of a local experiment.
    Send,
    /// Count such frames.
    Count,
    /// The same, and answer every second one by a short one, as TCP does.
    Answer,
    /// Send SYNs from ever new addresses.
    Syns,
    /// Connect and make round trips, on Linux's sockets.
    Load,
    /// Serve those, on Linux's sockets.
    Echo,
}

/// Options of the senders and receivers of plain frames, and of the load beside them.
#[derive(clap::Args, Clone, Debug)]
pub struct RawArgs {
    /// What to do
    #[arg(value_enum)]
    pub(super) role: RawRole,
    /// Seconds to do it
    #[arg(long)]
    pub(super) seconds: f64,
    /// Link address that frames go to
    #[arg(long)]
    pub(super) mac: Option<exos_wire::Mac>,
    /// Where SYNs go to, and the load
    #[arg(long)]
    pub(super) to: Option<SocketAddr>,
    /// SYNs a second at most; 0: as many as go
    #[arg(long, default_value_t = 0)]
    pub(super) rate: u64,
    /// Send no faster than frames are answered
    #[arg(long)]
    pub(super) answered: bool,
    /// Phases of the load, each of this many seconds
    #[arg(long, default_value_t = 1)]
    pub(super) phases: u32,
    /// A file to make when it is ready
    #[arg(long)]
    pub(super) ready: Option<PathBuf>,
}
