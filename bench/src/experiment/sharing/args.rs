//! What the user may choose of `exos bench sharing`.

use crate::stage::args::CommonArgs;

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
    /// How figures are chosen and told of.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Protection, Group::Demultiplexing, Group::Fairness, Group::Daemon])]
    pub groups: Vec<Group>,
    /// Bandwidth of the shared link in Mbit/s; it must be less than one core can send through the daemon, or the core
    /// is shared instead of the link
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub rate: u64,
    /// User ID, not root's, that the programs run as
    #[arg(long, default_value_t = 65534, value_parser = clap::value_parser!(u32).range(1..))]
    pub uid: u32,
}

impl SharingArgs {
    /// How long one measurement lasts.
    pub(super) fn seconds(&self) -> f64 {
        let default = if self.common.quick { 1.0 } else { 3.0 };
        self.common.seconds(default)
    }
}
