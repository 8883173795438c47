//! What the user may choose, and the command line of the programs that share the interface.

use exos_host::{Error, Result};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Groups of figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Group {
    /// A web server through the daemon compared with one on the interface itself, and where the time of a packet goes
    Protection,
    /// Packets among 1 to 10,000 grants, and how soon a new grant takes effect
    Demultiplexing,
    /// How the link is divided, and latency next to a hostile sender
    Fairness,
    /// Processor time and memory of the daemon
    Daemon,
}

/// Options of `exos bench sharing`.
#[derive(clap::Args, Clone, Debug)]
pub struct SharingArgs {
    /// Measure everything once and briefly, to check in a minute that it works
    #[arg(long)]
    pub quick: bool,
    /// Measure only figures whose name contains this text, such as send/ or latency (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Protection, Group::Demultiplexing, Group::Fairness, Group::Daemon])]
    pub groups: Vec<Group>,
    /// How often to measure everything, each time all competitors one after the other [default: 5, with --quick 1]
    #[arg(long)]
    pub runs: Option<u32>,
    /// Seconds per measurement [default: 3, with --quick 1]
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Bandwidth of the shared link in Mbit/s; it must be less than one core can send through the daemon, or the core
    /// is shared instead of the link
    #[arg(long, default_value_t = 500)]
    pub rate: u64,
    /// User ID, not root's, that the programs run as
    #[arg(long, default_value_t = 65534)]
    pub uid: u32,
    /// Write the results as JSON to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Name of the lab to make
    #[arg(long, default_value = "bench-sharing")]
    pub lab: String,
    /// Measure this exos program instead of the running one
    #[arg(long, value_name = "PROGRAM")]
    pub exos: Option<PathBuf>,
}

impl SharingArgs {
    /// How often everything is measured.
    pub fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// How long one measurement lasts.
    pub fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 1.0 } else { 3.0 })
    }

    /// Says what cannot be measured, before anything is made.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(what));
        if self.runs() == 0 || self.groups.is_empty() {
            return wrong("there is nothing to measure: give --runs of 1 or more, and a group");
        }
        if !(0.1..=600.0).contains(&self.seconds()) {
            return wrong("--seconds must be from 0.1 to 600");
        }
        if !(1..=100_000).contains(&self.rate) {
            return wrong("--rate must be from 1 to 100000 Mbit/s");
        }
        if self.uid == 0 {
            return wrong(
                "--uid must not be root's: what is measured is programs without privilege",
            );
        }
        Ok(())
    }
}

/// What a program does with its part of the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum ProgramRole {
    /// Send TCP segments that belong to no connection.
    Send,
    /// Count what comes, and how long it was under way where the sender noted the time.
    Receive,
    /// Hold a part and do nothing.
    Idle,
    /// Claim port after port, and send a packet to each.
    Claim,
    /// Hold as many exact grants as asked for.
    Hold,
    /// Make round trips on Linux's sockets.
    Ping,
}

/// How frames are handed to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Way {
    /// One by one, on the ring.
    Ring,
    /// As super-packets, through the packet socket.
    Packet,
}

/// Which grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Grants {
    /// Ports.
    Ports,
    /// Connections of one port.
    Connections,
}

/// Options of a program of this experiment.
#[derive(clap::Args, Clone, Debug)]
pub struct ProgramArgs {
    /// What to do
    #[arg(value_enum)]
    pub(super) role: ProgramRole,
    /// The daemon's socket; without it the device itself
    #[arg(long)]
    pub(super) xokd: Option<PathBuf>,
    /// Our address and port
    #[arg(long)]
    pub(super) from: Option<SocketAddr>,
    /// Where to
    #[arg(long)]
    pub(super) to: Option<SocketAddr>,
    /// Bits a second to there; without it as many as go
    #[arg(long)]
    pub(super) rate: Option<u64>,
    /// Where to as well
    #[arg(long)]
    pub(super) also_to: Option<SocketAddr>,
    /// Bits a second to there
    #[arg(long)]
    pub(super) also_rate: Option<u64>,
    /// Link address that frames go to
    #[arg(long)]
    pub(super) mac: Option<exos_wire::Mac>,
    /// Bytes of a frame
    #[arg(long, default_value_t = 1514)]
    pub(super) bytes: usize,
    /// How frames are handed over
    #[arg(long, value_enum, default_value_t = Way::Ring)]
    pub(super) way: Way,
    /// How many claims
    #[arg(long, default_value_t = 0)]
    pub(super) count: u32,
    /// Of what kind
    #[arg(long, value_enum, default_value_t = Grants::Ports)]
    pub(super) grants: Grants,
    /// Seconds to do it, of what ends by itself
    #[arg(long, default_value_t = 1.0)]
    pub(super) seconds: f64,
}
