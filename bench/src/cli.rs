//! The command line of `exos bench`.

use crate::experiment::cost::{self, CostArgs, ReplayArgs};
use crate::experiment::forward::{self, ForwardArgs};
use crate::experiment::http::{self, HttpArgs, PacketsArgs};
use crate::experiment::load::{self, LoadArgs};
use crate::experiment::sharing::{self, ProgramArgs, SharingArgs};
use crate::experiment::tcp::{self, PeerArgs, RawArgs, TcpArgs};
use exos_host::Result;
use std::process::ExitCode;

/// Measure ExOS programs and compare them with others (nginx, HAProxy, wrk, Linux's TCP and more).
#[derive(clap::Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

/// The experiments.
#[derive(clap::Subcommand, Debug)]
pub enum BenchCommand {
    /// Static documents over HTTP: exos serve compared with nginx, h2o, lighttpd, and the packet limit of the link
    ///
    /// Makes a lab of its own and removes it. Needs root, wrk, two cores or more, and an otherwise idle machine; skips
    /// servers that are not installed. A full run takes an hour and a half; --quick, --only, --groups, --servers,
    /// --sizes and others select parts of it.
    Http(HttpArgs),
    /// The client of packets of `exos bench http`, which starts it
    #[command(hide = true)]
    HttpPackets(PacketsArgs),
    /// Load generators: exos load, with and without its optimisations, compared with wrk, ab and httperf
    ///
    /// How many requests a second each makes to exos serve and to nginx, and what a request costs it (Figure 6 of the
    /// paper). Makes a lab of its own and removes it. Needs root, two cores or more, and an otherwise idle machine;
    /// skips programs that are not installed. A full run takes half an hour; --quick, --only and others select parts of
    /// it.
    Load(LoadArgs),
    /// Forwarders: exos forward, by packets and by joined sockets, compared with HAProxy, nginx and nftables
    ///
    /// How many requests a second pass through each, what a request costs it, and how much latency it adds (Figure 7 of
    /// the paper). Makes namespaces of its own and removes them. Needs root, two cores or more, wrk for the offload
    /// wire, and an otherwise idle machine; skips programs that are not installed. A full run takes an hour; --quick,
    /// --only and others select parts of it.
    Forward(ForwardArgs),
    /// Instructions, memory and time of the TCP/IP stack, compared with smoltcp: segments, connections, timers
    ///
    /// Runs in memory, without network or privilege. Counting instructions needs valgrind. Other load on the machine
    /// affects only the nanoseconds.
    Cost(CostArgs),
    /// A part of `exos bench cost` that needs a process of its own
    #[command(hide = true)]
    CostReplay(ReplayArgs),
    /// TCP compared with Linux's: goodput under delay, loss and reordering, fairness, packet rate, SYN flood
    ///
    /// Makes a lab of its own and removes it. Needs root, two cores or more, and an otherwise idle machine. A full run
    /// takes most of an hour; --quick, --only and --groups select parts of it.
    Tcp(TcpArgs),
    /// Sharing an interface through the daemon: what protection costs, and how the link is divided
    ///
    /// Makes a lab and daemons of its own and removes them; the programs run as an ordinary user. Needs root, wrk, two
    /// cores or more, and an otherwise idle machine. --quick, --groups and --only select parts of it.
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
