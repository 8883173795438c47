//! The command line of `exos forward`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use exos_program::control::FORWARD_SOCKET;
use exos_program::{Idle, LinkArgs, UserArgs};

use crate::control::CtlArgs;
use crate::forwarder::NoServer;
use crate::health::HealthArgs;
use crate::limits::{FLOWS_DEFAULT, FLOWS_MAX, RESOLVE_EVERY, WEIGHT_MAX};
use crate::names::{To, interval};
use crate::packet::Transport;
use crate::reach::Reach;
use crate::service::{Affinity, Balance};
use crate::splice::Version;

/// Forward connections to servers packet by packet (a layer-4 load balancer).
///
/// Packets to a listener (--listen) are sent on to one of the servers (--to) of its address family, with an address of
/// this program as the source; answers go back to the client with the listener's address as the source. --reach has
/// other ways. All packets of a connection go to one server, chosen by a hash of the client's address and port (Maglev)
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
    pub(crate) link: LinkArgs,
    /// Read listeners, servers and the link from this TOML file (docs/forward.md); link options on the command line
    /// override it; SIGHUP reloads it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "to", "reach", "flows", "keep", "control", "metrics", "balance", "affinity", "no_server", "passive", "passive_window", "passive_rest", "splice"])]
    pub(crate) config: Option<PathBuf>,
    /// Address and port that clients connect to: an address from --address or from the daemon; TCP unless it begins
    /// with udp: (repeatable)
    #[arg(long, required_unless_present = "config", num_args = 1.., value_name = "[tcp:|udp:]ADDRESS:PORT")]
    pub(crate) listen: Vec<Place>,
    /// Server to forward to; a NAME stands for all its addresses. PORT defaults to the listener's, WEIGHT to 1; a
    /// server of weight 0 gets no new connections (repeatable)
    #[arg(long, required_unless_present = "config", num_args = 1.., value_name = "ADDRESS|NAME[:PORT][,WEIGHT]")]
    pub(crate) to: Vec<To>,
    /// How often to resolve names, to follow servers that move; 0: only at the start
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

/// What is done with a forwarder that runs.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum Other {
    Ctl(CtlArgs),
}

/// Where something is listened to.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Place {
    pub(crate) transport: Transport,
    pub(crate) at: SocketAddr,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (transport, at) = match text.split_once(':') {
            Some(("tcp", at)) => (Transport::Tcp, at),
            Some(("udp", at)) => (Transport::Udp, at),
            _ => (Transport::Tcp, text),
        };
        let help = "write for example 192.0.2.7:80, udp:192.0.2.7:53 or [2001:db8::7]:80";
        Ok(Self {
            transport,
            at: end(at).ok_or_else(|| format!("{text:?} is no place to listen at; {help}"))?,
        })
    }
}

/// A server with its weight.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Weighted {
    pub(crate) ip: IpAddr,
    /// The listener's where it says none.
    pub(crate) port: Option<u16>,
    pub(crate) weight: u16,
}

impl FromStr for Weighted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help =
            "write for example 192.0.2.8, 192.0.2.8:8080, or [2001:db8::8]:80,3 for a weight of 3";
        let (at, weight) = match text.split_once(',') {
            Some((at, weight)) => (at, weight.parse().ok().filter(|w| *w <= WEIGHT_MAX)),
            None => (text, Some(1)),
        };
        let (ip, port) = match at.parse::<IpAddr>() {
            Ok(ip) => (Some(ip).filter(is_host), None),
            Err(_) => (end(at).map(|e| e.ip()), end(at).map(|e| e.port())),
        };
        Ok(Self {
            ip: ip.ok_or_else(|| format!("{at:?} is no server; {help}"))?,
            port,
            weight: weight.ok_or_else(|| {
                format!("the weight of {text:?} is not from 0 to {WEIGHT_MAX}; {help}")
            })?,
        })
    }
}

fn end(text: &str) -> Option<SocketAddr> {
    let end: SocketAddr = text.parse().ok()?;
    (end.port() != 0 && is_host(&end.ip())).then_some(end)
}

pub(crate) fn is_host(ip: &IpAddr) -> bool {
    !ip.is_unspecified() && !ip.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_servers() {
        let place = |text: &str| text.parse::<Place>().unwrap();
        assert_eq!(place("10.0.0.1:80"), place("tcp:10.0.0.1:80"));
        assert_eq!(place("udp:[fd00::1]:53").transport, Transport::Udp);
        let server = |text: &str| text.parse::<Weighted>().unwrap();
        assert_eq!(
            (server("10.0.0.1:80").weight, server("10.0.0.1:80").port),
            (1, Some(80))
        );
        assert_eq!(
            (server("fd00::1,5").weight, server("fd00::1,5").port),
            (5, None)
        );
        assert_eq!(server("[fd00::1]:80,7").weight, 7);
        for bad in [
            "",
            "80",
            "10.0.0.1",
            "10.0.0.1:0",
            "0.0.0.0:80",
            "sctp:10.0.0.1:80",
            "224.0.0.1:80",
        ] {
            let error = bad.parse::<Place>().unwrap_err();
            assert!(error.contains("192.0.2.7:80"), "{bad}: {error}");
        }
        for bad in [
            "10.0.0.1:80,",
            "10.0.0.1:80,x",
            "10.0.0.1:80,1001",
            "10.0.0.1:0",
            "0.0.0.0",
            ",1",
        ] {
            let error = bad.parse::<Weighted>().unwrap_err();
            assert!(error.contains("192.0.2.8:8080"), "{bad}: {error}");
        }
    }
}
