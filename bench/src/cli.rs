//! The command line of `exos bench`.

use crate::experiment::cost::{self, CostArgs};
use crate::experiment::forward::{self, ForwardArgs};
use crate::experiment::http::{self, HttpArgs};
use crate::experiment::load::{self, LoadArgs};
use crate::experiment::sharing::{self, SharingArgs};
use crate::experiment::tcp::{self, TcpArgs};
use crate::stage::helper::{Entry, entry};
use crate::stage::packets::{Answer, Ask, Visit};
use exos_host::{Error, Result};
use std::process::ExitCode;

/// Measure our programs beside their peers.
#[derive(clap::Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

/// The experiments.
#[derive(clap::Subcommand, Debug)]
pub enum BenchCommand {
    /// Static documents over HTTP: exos serve beside nginx, h2o and lighttpd, and beside the packet limit of the link
    ///
    /// Makes a lab of its own and removes it. Needs root, wrk, two cores or more, and a machine that does nothing else
    /// meanwhile; servers that are not installed are left out. The whole takes an hour and a half: --quick, --only, --groups,
    /// --servers, --sizes and others choose.
    Http(HttpArgs),
    /// Load generators: exos load, with its specialisations and without, on sockets, and wrk, ab, httperf
    ///
    /// The paper's Figure 6: how many requests a second each makes of exos serve and of nginx, and what a request costs it.
    /// Makes a lab of its own and removes it. Needs root, two cores or more, and a machine that does nothing else
    /// meanwhile; what is not installed is left out. The whole takes half an hour: --quick, --only and others choose.
    Load(LoadArgs),
    /// Forwarders: exos forward, packet by packet and by joining sockets, beside HAProxy, nginx and nftables
    ///
    /// The paper's Figure 7: how many requests a second come through each, what one costs it, and what time it adds. Makes
    /// namespaces of its own and removes them. Needs root, two cores or more, wrk for the offload wire, and a machine that does
    /// nothing else meanwhile; what is not installed is left out. The whole takes an hour: --quick, --only and others choose.
    Forward(ForwardArgs),
    /// Instructions, memory and time of our stack, beside smoltcp's: segments, connections, timers
    ///
    /// All in memory: no wire, no privilege. Instructions need valgrind; the machine may do other things meanwhile,
    /// only nanoseconds suffer.
    Cost(CostArgs),
    /// TCP: goodput under delay, loss and reordering, fairness, the packet limit, a SYN flood, beside Linux's stack
    ///
    /// Makes a lab of its own and removes it. Needs root, two cores or more, and a machine that does nothing else
    /// meanwhile. The whole takes most of an hour: --quick, --only and --groups choose.
    Tcp(TcpArgs),
    /// Sharing an interface through the daemon: what protection costs, and who gets how much of the link
    ///
    /// Makes a lab and daemons of its own and removes them; the programs run as an ordinary user. Needs root, wrk, two
    /// cores or more, and a machine that does nothing else meanwhile. --quick, --groups and --only choose.
    Sharing(SharingArgs),
    /// A part of an experiment that needs a process of its own, which starts it
    #[command(hide = true)]
    Helper {
        /// Which
        name: String,
        /// Its settings, as JSON
        settings: String,
    },
}

/// All helpers.
const HELPERS: [Entry; 20] = [
    entry::<Visit>(),
    entry::<Ask>(),
    entry::<Answer>(),
    entry::<tcp::Listener>(),
    entry::<tcp::Connector>(),
    entry::<tcp::FrameSender>(),
    entry::<tcp::FrameReceiver>(),
    entry::<tcp::Syns>(),
    entry::<tcp::Clients>(),
    entry::<tcp::Echo>(),
    entry::<sharing::Send>(),
    entry::<sharing::Receive>(),
    entry::<sharing::Idle>(),
    entry::<sharing::Hold>(),
    entry::<sharing::Claim>(),
    entry::<sharing::Ping>(),
    entry::<cost::Replay>(),
    entry::<cost::IdleConnections>(),
    entry::<cost::WaitingConnections>(),
    entry::<cost::ManyTimers>(),
];

/// Does what the command line says.
pub fn run(args: BenchArgs) -> Result<ExitCode> {
    match args.command {
        BenchCommand::Http(args) => http::run(&args),
        BenchCommand::Load(args) => load::run(&args),
        BenchCommand::Forward(args) => forward::run(&args),
        BenchCommand::Cost(args) => cost::run(&args),
        BenchCommand::Tcp(args) => tcp::run(&args),
        BenchCommand::Sharing(args) => sharing::run(&args),
        BenchCommand::Helper { name, settings } => {
            let helper = HELPERS.iter().find(|(known, _)| *known == name);
            let (_, run) =
                helper.ok_or_else(|| Error::new(format!("there is no helper {name}")))?;
            run(&settings).map(|()| ExitCode::SUCCESS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_helper_has_a_name_of_its_own() {
        let names: HashSet<&str> = HELPERS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), HELPERS.len());
    }
}
