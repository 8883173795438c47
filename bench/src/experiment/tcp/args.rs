//! What the user may choose of `exos bench tcp`.

use crate::stage::args::CommonArgs;

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
    /// How cells are chosen and told of.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Wire, Group::Flood, Group::Fair, Group::Bulk])]
    pub groups: Vec<Group>,
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
}

impl TcpArgs {
    /// How long one measurement lasts.
    pub(super) fn seconds(&self) -> f64 {
        self.common.seconds(4.0)
    }

    /// Of the cells of a group those that were asked for.
    pub(super) fn wanted<C: ToString>(
        &self,
        group: Group,
        cells: impl IntoIterator<Item = C>,
    ) -> Vec<C> {
        let is_asked = self.groups.contains(&group);
        self.common.wanted(is_asked, cells)
    }
}
