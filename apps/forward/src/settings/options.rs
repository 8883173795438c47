//! The command line of `exos forward`, and what it wants: itself, or by the file that it names.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use exos::Error;
use exos_program::config::link::CORES_MAX;
use exos_program::control::FORWARD_SOCKET;
use exos_program::{Idle, UserArgs};

use crate::forwarder::NoServer;
use crate::health::HealthArgs;
use crate::limits::{FLOWS_DEFAULT, FLOWS_MAX, RESOLVE_EVERY};
use crate::packets::reach::Reach;
use crate::program::control::CtlArgs;
use crate::service::{Affinity, Balance};
use crate::settings::config;
use crate::settings::links::Links;
use crate::settings::wanted::{Service, Wanted};
use crate::settings::written::{ListenAddress, To, interval};
use crate::splice::proxy::Version;

/// Forward connections to servers packet by packet (a layer-4 load balancer).
///
/// Packets to a listener (--listen) are sent on to one of the servers (--to) of its address family, with an address of
/// this program as the source; answers go back to the client with the listener's address as the source. --reach offers
/// other modes. All packets of a connection go to one server, chosen by a hash of the client's address and port (Maglev)
/// and by the servers' weights. TCP runs between client and server; this program acknowledges nothing itself. It
/// answers pings to its addresses. SIGINT and SIGTERM stop it. It prints statistics on SIGUSR1 and at the end.
#[derive(clap::Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ForwardArgs {
    #[command(subcommand)]
    pub(crate) other: Option<Other>,
    #[command(flatten)]
    pub(crate) user: UserArgs,
    #[command(flatten)]
    pub(crate) links: Links,
    /// Number of CPU cores to use, each with a share of every interface's queues and a TCP/IP stack; --core chooses
    /// which [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=CORES_MAX), conflicts_with = "splice")]
    pub(crate) cores: Option<u32>,
    /// Read listeners, servers and the link from this TOML file (docs/forward.md); link options on the command line
    /// override it; SIGHUP reloads it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "to", "reach", "flows", "keep", "control", "metrics", "balance", "affinity", "no_server", "passive", "passive_window", "passive_rest", "splice"])]
    pub(crate) config: Option<PathBuf>,
    /// Address and port that clients connect to: an address from --address or from the daemon; TCP unless it begins
    /// with udp: (repeatable)
    #[arg(long, required_unless_present = "config", num_args = 1.., value_name = "[tcp:|udp:]ADDRESS:PORT")]
    pub(crate) listen: Vec<ListenAddress>,
    /// Server to forward to; a NAME stands for all its addresses. PORT defaults to the listener's, WEIGHT to 1; a
    /// server of weight 0 gets no new connections (repeatable)
    #[arg(long, required_unless_present = "config", num_args = 1.., value_name = "ADDRESS|NAME[:PORT][,WEIGHT]")]
    pub(crate) to: Vec<To>,
    /// Names are resolved again when their records' time to live is over, and at the latest after this; 0: only at the
    /// start and on SIGHUP
    #[arg(long, value_name = "TIME", default_value = RESOLVE_EVERY, value_parser = interval, conflicts_with_all = ["config", "splice"])]
    pub(crate) resolve: Duration,
    /// Whose address servers see, and how their answers reach clients
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    pub(crate) reach: Reach,
    /// Most connections to track at once; each takes about 90 bytes of memory
    #[arg(long, value_name = "N", default_value_t = FLOWS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(FLOWS_MAX)))]
    pub(crate) flows: u32,
    /// Keep the connection table in this file, best in memory (/run/NAME), so that the next forwarder continues the
    /// connections
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    /// How to choose the server of a new connection
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub(crate) balance: Balance,
    /// What part of a client's address chooses its server
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub(crate) affinity: Affinity,
    #[command(flatten)]
    pub(crate) health: HealthArgs,
    /// What to do with new connections while no server is available
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub(crate) no_server: NoServer,
    /// Take commands of exos forward ctl at this socket, which only this program's user may open
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = FORWARD_SOCKET)]
    pub(crate) control: Option<PathBuf>,
    /// Serve all counters to Prometheus (GET /metrics) at this loopback address of the host
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Take over from the forwarder at the same --control, if one runs: it ends when this one is ready. Give both the
    /// same --keep
    #[arg(long, conflicts_with = "splice")]
    pub(crate) take_over: bool,
    /// Forward established connections in the kernel (XDP): only their first and last packets come to this program
    #[arg(long)]
    pub(crate) in_kernel: bool,
    /// Run as a proxy that joins kernel sockets with splice(2) instead: TCP only, at addresses of this host, without a
    /// link
    #[arg(long, conflicts_with_all = ["balance", "affinity", "check", "control", "metrics", "in_kernel", "reach", "no_server", "passive", "passive_window", "passive_rest"])]
    pub(crate) splice: bool,
    /// With --splice: tell servers the client's address by the PROXY protocol, which they must expect
    #[arg(long, value_enum, value_name = "VERSION", requires = "splice")]
    pub(crate) proxy_protocol: Option<Version>,
    /// What to do while no packets arrive [default: poll if there is a core to spare]
    #[arg(long, value_name = "HOW", conflicts_with = "splice")]
    pub(crate) idle: Option<Idle>,
    /// Print the statistics as one line of JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

impl ForwardArgs {
    /// What the options say, or the file that they name. Of the link, an option comes before the file.
    ///
    /// # Errors
    ///
    /// The file cannot stand, with all that is wrong with it.
    pub(crate) fn wanted(&self) -> Result<Wanted, Error> {
        if let Some(file) = &self.config {
            if let Some(Some(_)) = &self.health.check {
                return Err(Error::new("the file says how servers are checked")
                    .mend("write it under [check] there; --check alone checks the file"));
            }
            let wanted = config::read(file).map_err(|errors| Error::new(errors.to_string()))?;
            return Ok(self.over(wanted));
        }
        Ok(Wanted {
            user: self.user.clone(),
            links: self.links.clone(),
            cores: self.cores,
            flows: self.flows,
            keep: self.keep.clone(),
            control: self.control.clone(),
            in_kernel: self.in_kernel,
            balance: self.balance,
            affinity: self.affinity,
            metrics: self.metrics,
            no_server: self.no_server,
            health: self.health.clone(),
            resolve: self.resolve,
            services: vec![Service::new(
                self.listen.clone(),
                self.reach,
                self.to.iter().cloned(),
            )],
        })
    }

    /// What these options say over what a file says.
    pub(crate) fn over(&self, file: Wanted) -> Wanted {
        Wanted {
            user: self.user.clone().or(file.user),
            links: self.links.clone().or(file.links),
            cores: self.cores.or(file.cores),
            // Of the options beside a file this one says only yes.
            in_kernel: self.in_kernel || file.in_kernel,
            ..file
        }
    }
}

/// What is done with a forwarder that runs.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum Other {
    Ctl(CtlArgs),
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ForwardArgs,
    }

    /// An option of the link beside a file takes effect, also where it does not name the link.
    #[test]
    fn options_of_the_link_come_before_the_file() {
        let file = std::env::temp_dir().join(format!("wanted-{}.toml", std::process::id()));
        let text = "[link]\nname = \"xdp:eth0\"\naddresses = [\"10.0.0.1/24\"]\ngateways = [\"10.0.0.254\"]\n\
                    [[service]]\nlisten = [\"10.0.0.1:80\"]\nto = [\"10.0.0.2\"]\n";
        std::fs::write(&file, text).unwrap();
        let of = |more: &[&str]| {
            let words = ["forward", "--config", file.to_str().unwrap()];
            let line = Line::try_parse_from(words.iter().chain(more)).unwrap();
            line.args.wanted().unwrap().links.first().clone()
        };
        let (plain, changed) = (of(&[]), of(&["--address", "10.0.0.9/24", "--core", "1"]));
        assert_eq!(changed.address, ["10.0.0.9/24".parse().unwrap()]);
        assert_eq!(changed.core, [1]);
        assert_eq!((changed.link, changed.gateway), (plain.link, plain.gateway));
        let other = of(&["--link", "xdp:eth1"]);
        assert_eq!(other.link, Some("xdp:eth1".parse().unwrap()));
        assert_eq!(other.address, plain.address);
        std::fs::remove_file(&file).unwrap();
    }
}
