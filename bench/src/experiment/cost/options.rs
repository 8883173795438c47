//! What the user may choose, and what the program tells itself when it starts itself once more.

use super::scenario::{Family, Link, Scenario, StackKind};
use crate::limits::{IDLE_CONNECTIONS_MAX, OPERATIONS_MAX};
use exos_host::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Options of `exos bench cost`.
#[derive(clap::Args, Clone, Debug)]
pub struct CostArgs {
    /// Scenarios to count instructions of, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Scenario::ALL)]
    pub scenarios: Vec<Scenario>,
    /// TCP/IP stacks, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [StackKind::Exos, StackKind::Smoltcp])]
    pub stacks: Vec<StackKind>,
    /// Address families, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Family::Ipv4, Family::Ipv6])]
    pub families: Vec<Family>,
    /// What the link says about received checksums, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Link::Verified, Link::Unknown])]
    pub links: Vec<Link>,
    /// Operations of each scenario to count
    #[arg(long, default_value_t = 2000)]
    pub operations: u64,
    /// Idle connections to hold at once; 0: do not measure memory and time
    #[arg(long, default_value_t = 1_000_000)]
    pub connections: u32,
    /// Also measure the idle connections with an allocator that asks for huge pages
    #[arg(long)]
    pub huge_pages: bool,
    /// Do not count instructions
    #[arg(long)]
    pub no_instructions: bool,
    /// Write the results as JSON to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Only write a callgrind profile of this scenario, with the first of --stacks, --families and --links
    #[arg(long, value_enum, value_name = "SCENARIO")]
    pub profile: Option<Scenario>,
    /// File to write the profile to
    #[arg(
        long,
        value_name = "FILE",
        default_value = "exos.callgrind",
        requires = "profile"
    )]
    pub profile_file: PathBuf,
}

impl CostArgs {
    /// Says what cannot be measured, before anything is started.
    pub(super) fn check(&self) -> Result<()> {
        if !(1..=OPERATIONS_MAX).contains(&self.operations) {
            return Err(Error::new(format!(
                "--operations must be from 1 to {OPERATIONS_MAX}"
            )));
        }
        if self.connections > IDLE_CONNECTIONS_MAX {
            return Err(Error::new(format!(
                "--connections must be at most {IDLE_CONNECTIONS_MAX}"
            )));
        }
        Ok(())
    }
}

/// One exchange.
#[derive(clap::Args, Copy, Clone, Debug, Eq, PartialEq)]
pub struct Exchange {
    /// Whose stack is under test
    #[arg(long)]
    pub stack: StackKind,
    /// The exchange
    #[arg(long)]
    pub scenario: Scenario,
    /// The address family
    #[arg(long)]
    pub family: Family,
    /// What the link says about received checksums
    #[arg(long)]
    pub link: Link,
    /// Operations that are measured
    #[arg(long)]
    pub operations: u64,
}

impl Exchange {
    /// The same as arguments of the command line.
    pub(super) fn to_arguments(self) -> [String; 5] {
        [
            format!("--stack={}", self.stack),
            format!("--scenario={}", self.scenario),
            format!("--family={}", self.family),
            format!("--link={}", self.link),
            format!("--operations={}", self.operations),
        ]
    }
}

/// What `exos bench cost` starts itself with.
#[derive(clap::Args, Clone, Debug)]
pub struct ReplayArgs {
    #[command(subcommand)]
    pub(super) part: Part,
}

/// A part of the measurement that needs a process of its own.
#[derive(clap::Subcommand, Clone, Debug)]
pub(super) enum Part {
    /// Replay one exchange
    Exchange(Exchange),
    /// Keep idle connections
    Idle(Connections),
    /// Keep connections in TIME-WAIT
    TimeWait(Connections),
    /// Arm and expire timers
    Timers(Connections),
}

/// How many.
#[derive(clap::Args, Copy, Clone, Debug)]
pub(super) struct Connections {
    /// How many of them
    #[arg(long)]
    pub connections: u32,
}

/// What a replay says of itself: how much work the counted instructions were for.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct Replayed {
    pub operations: u64,
    pub frames_in: u64,
    pub frames_out: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        exchange: Exchange,
    }

    #[test]
    fn an_exchange_survives_the_command_line() {
        for scenario in Scenario::ALL {
            let exchange = Exchange {
                stack: StackKind::Smoltcp,
                scenario,
                family: Family::Ipv6,
                link: Link::Unknown,
                operations: 77,
            };
            let words = ["exos".to_owned()]
                .into_iter()
                .chain(exchange.to_arguments());
            assert_eq!(Line::parse_from(words).exchange, exchange);
        }
    }
}
