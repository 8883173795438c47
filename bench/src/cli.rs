//! The command line of `exos bench`.

use crate::experiment::ash::{self, AshArgs};
use crate::experiment::cost::{self, CostArgs};
use crate::experiment::forward::{self, ForwardArgs};
use crate::experiment::http::{self, HttpArgs};
use crate::experiment::iolite::{self, IoliteArgs};
use crate::experiment::link::{self, LinkArgs};
use crate::experiment::load::{self, LoadArgs};
use crate::experiment::sharing::{self, SharingArgs};
use crate::experiment::sockets::{self, SocketsArgs};
use crate::experiment::tcp::{self, TcpArgs};
use crate::stage::exchange::{Answerer, Asker};
use crate::stage::helper::{Entry, entry};
use crate::stage::packets::Visit;
use crate::stage::web::Responder;
use exos_host::{Error, Result};
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
    /// Documents, pages of FastCGI and proxying over HTTP: exos serve compared with nginx, h2o, lighttpd, HAProxy, and the packet limit of the link
    ///
    /// Makes a lab of its own and removes it. Needs root, wrk, two cores or more, and an otherwise idle machine; skips
    /// servers and applications that are not installed. A full run takes two hours; --quick, --only, --groups, --servers,
    /// --sizes and others select parts of it.
    Http(HttpArgs),
    /// Load generators: exos load, with and without its optimisations, compared with wrk, ab, httperf and h2load
    ///
    /// How many requests a second each makes to exos serve and to nginx, and what a request costs it (Figure 6 of the
    /// paper), also over TLS and by HTTP/2. Makes a lab of its own and removes it. Needs root, two cores or more, and an otherwise idle machine;
    /// skips programs that are not installed. A full run takes forty minutes; --quick, --only, --groups and others select parts of
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
    /// Unmodified programs by exos run, compared with themselves on the kernel's sockets: servers and clients at their usual jobs
    ///
    /// How many requests or bytes a second each serves or gets; how busy both sides' cores were tells who was the limit. Makes a
    /// lab of its own and removes it. Needs root, two cores or more, and an otherwise idle machine; leaves out programs that are
    /// not installed. A full run takes twenty minutes; --quick and --only (redis, python3/, /large) select parts of it.
    Sockets(SocketsArgs),
    /// Handlers in the kernel compared with programs that poll or sleep, on our stack and on the kernel's sockets
    ///
    /// Round trips and rates of a remote increment, round trips while other programs want the core, what generated code costs
    /// beside code written by hand, how long a handler takes to be in force, and values got from a cache, compared with memcached,
    /// which has to be installed. Makes a lab of its own and removes it. Needs root, two cores or more, and an otherwise idle
    /// machine. A full run takes ten minutes; --quick and --only select parts of it.
    Ash(AshArgs),
    /// Frames over a veth: what each way of sending carries and costs, one way, both ways, and one frame at a time
    ///
    /// AF_XDP's ring, live frame mode and the choice between them, compared with UDP sockets and iperf3. Makes a lab of its own
    /// and removes it. Needs root, two cores or more, and an otherwise idle machine. A full run takes five minutes; --quick,
    /// --only, --groups and --ways select parts of it.
    Link(LinkArgs),
    /// Bytes from process to process by shared buffers, compared with the kernel's pipes, vmsplice and Unix sockets
    ///
    /// Throughput of messages, the round trip of one byte between processes that poll and that sleep, and exos io's tools beside GNU's. Needs two cores and an
    /// otherwise idle machine, and no privilege. A full run takes four minutes; --quick and --only select parts of it.
    Iolite(IoliteArgs),
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
const HELPERS: [Entry; 33] = [
    entry::<Visit>(),
    entry::<Responder>(),
    entry::<Asker>(),
    entry::<Answerer>(),
    entry::<tcp::Listener>(),
    entry::<tcp::Connector>(),
    entry::<tcp::Syns>(),
    entry::<tcp::Clients>(),
    entry::<tcp::Echo>(),
    entry::<sharing::Send>(),
    entry::<sharing::Receive>(),
    entry::<sharing::Hold>(),
    entry::<sharing::Claim>(),
    entry::<sharing::Ping>(),
    entry::<sockets::Requests>(),
    entry::<ash::Counters>(),
    entry::<ash::Asking>(),
    entry::<ash::CacheServer>(),
    entry::<ash::Busy>(),
    entry::<ash::Flooding>(),
    entry::<ash::Receiving>(),
    entry::<link::Sender>(),
    entry::<link::Receiver>(),
    entry::<iolite::Consuming>(),
    entry::<iolite::Producing>(),
    entry::<iolite::Answering>(),
    entry::<iolite::Timing>(),
    entry::<iolite::Gathering>(),
    entry::<iolite::Trickling>(),
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
        BenchCommand::Sockets(args) => sockets::run(&args),
        BenchCommand::Ash(args) => ash::run(&args),
        BenchCommand::Link(args) => link::run(&args),
        BenchCommand::Iolite(args) => iolite::run(&args),
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
