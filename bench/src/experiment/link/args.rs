//! What the user may choose of `exos bench link`.

use super::way::Way;
use crate::stage::args::{CommonArgs, all, shown_as_on_the_command_line};

/// Groups of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Group {
    /// One direction, in batches of 1, 16, 64 and 256
    Send,
    /// Both directions, with 16, 64 and 256 frames under way
    Exchange,
    /// The time of a single frame there and back
    Lone,
}

shown_as_on_the_command_line!(Group);

/// Options of `exos bench link`.
#[derive(clap::Args, Clone, Debug)]
pub struct LinkArgs {
    /// How cells are chosen and told of.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Send, Group::Exchange, Group::Lone])]
    pub groups: Vec<Group>,
    /// Ways of sending to measure, in this order, separated by commas; skips those that this machine does not have
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = all::<Way>())]
    pub ways: Vec<Way>,
}
