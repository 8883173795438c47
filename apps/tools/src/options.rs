//! The command lines of echo, discard and chargen.

use std::time::Duration;

use exos_program::names::HostPort;
use exos_program::{SharingLinkArgs, TcpArgs};

use crate::service::Limits;
use exos_program::units::{parse_seconds, parse_size};

/// What all of them have.
#[derive(clap::Args, Clone, Debug)]
pub struct CommonArgs {
    #[command(flatten)]
    pub(crate) link: SharingLinkArgs<true>,
    #[command(flatten)]
    pub(crate) tcp: TcpArgs,
    /// Print the statistics as one line of JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Send back whatever arrives (RFC 862), over TCP and UDP.
///
/// While a peer does not read its answers, nothing more is read from it: the TCP window closes, and memory stays
/// bounded. Datagrams from ports below 1024 are not answered, so that two services cannot answer each other forever.
/// SIGINT and SIGTERM stop it. It prints statistics on SIGUSR1 and at the end.
#[derive(clap::Args, Clone, Debug)]
pub struct EchoArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Port to serve
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
}

/// What discard and chargen have.
#[derive(clap::Args, Clone, Debug)]
pub struct LoadArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Connect to this server instead of serving, and exit when all connections have ended; of a name's addresses, the
    /// first that a route leads to
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) connect: Option<HostPort>,
    /// Number of connections at once, with --connect
    #[arg(long, value_name = "N", default_value_t = 1, requires = "connect", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// End each connection after this many bytes, such as 64k or 10mb
    #[arg(long, value_name = "SIZE", value_parser = some_bytes)]
    pub(crate) bytes: Option<u64>,
    /// End each connection after this time, such as 30s; a plain number is seconds
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) seconds: Option<Duration>,
}

impl LoadArgs {
    /// When a connection ends.
    pub fn limits(&self) -> Limits {
        Limits {
            bytes: self.bytes,
            time: self.seconds,
        }
    }
}

/// Receive data, throw it away, and report the rate (RFC 863), over TCP and UDP.
///
/// With --connect it reads from a server, such as exos chargen. SIGINT and SIGTERM stop it. It prints statistics on
/// SIGUSR1 and at the end.
#[derive(clap::Args, Clone, Debug)]
pub struct DiscardArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Port to serve [default: 9]; with --connect, the local port [default: any]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
}

/// Send a pattern of characters as fast as the peer reads it, and report the rate (RFC 864), over TCP.
///
/// With --connect it sends to a server, such as exos discard. SIGINT and SIGTERM stop it. It prints statistics on
/// SIGUSR1 and at the end.
#[derive(clap::Args, Clone, Debug)]
pub struct ChargenArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Port to serve [default: 19]; with --connect, the local port [default: any]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
}

/// A size of something.
fn some_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    (bytes > 0)
        .then_some(bytes)
        .ok_or_else(|| format!("{text:?} is nothing; write a size, as in 64k"))
}

fn some_time(text: &str) -> Result<Duration, String> {
    let time = parse_seconds(text)?;
    let is_some = !time.is_zero();
    let help = || format!("{text:?} is over at once; write what takes some time, as in 10s");
    is_some.then_some(time).ok_or_else(help)
}
