//! The command line of `exos bench`.

use crate::experiment::cost::{self, CostArgs, ReplayArgs};
use crate::experiment::forward::{self, ForwardArgs};
use crate::experiment::http::{self, HttpArgs, PacketsArgs};
use crate::experiment::load::{self, LoadArgs};
use crate::experiment::sharing::{self, ProgramArgs, SharingArgs};
use crate::experiment::tcp::{self, PeerArgs, RawArgs, TcpArgs};
use exos_host::Result;
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
    /// The client of packets of `exos bench http`, which starts it
    #[command(hide = true)]
    HttpPackets(PacketsArgs),
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
    /// A part of `exos bench cost` that needs a process of its own
    #[command(hide = true)]
    CostReplay(ReplayArgs),
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
    /// The programs of `exos bench sharing`, which starts them
    #[command(hide = true)]
    SharingProgram(ProgramArgs),
    /// Linux's side of `exos bench tcp`, which starts it
    #[command(hide = true)]
    TcpPeer(PeerArgs),
    /// The senders and receivers of plain frames of `exos bench tcp`, which starts them
    #[command(hide = true)]
    TcpRaw(RawArgs),
}

/// Does what the command line says.
pub fn run(args: BenchArgs) -> Result<ExitCode> {
    match args.command {
        BenchCommand::Http(args) => http::run(&args),
        BenchCommand::Load(args) => load::run(&args),
        BenchCommand::Forward(args) => forward::run(&args),
        BenchCommand::HttpPackets(args) => http::packets(&args),
        BenchCommand::Cost(args) => cost::run(&args),
        BenchCommand::CostReplay(args) => cost::replay(&args),
        BenchCommand::Tcp(args) => tcp::run(&args),
        BenchCommand::Sharing(args) => sharing::run(&args),
        BenchCommand::SharingProgram(args) => sharing::program(&args),
        BenchCommand::TcpPeer(args) => tcp::peer(&args),
        BenchCommand::TcpRaw(args) => tcp::raw(&args),
    }
}
