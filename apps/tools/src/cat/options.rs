//! The command line of `exos cat`.

use std::net::SocketAddr;

use exos::Error;
use exos_program::{LinkArgs, TcpArgs};

use super::program::Side;

/// Join standard input and output to a TCP connection, as netcat does.
///
/// At the end of standard input the sending half is closed (as by `nc -N`). The exit status is 0 when everything was
/// delivered and both sides finished, else 1 with a line that says why. Statistics are printed on SIGUSR1 and, if asked
/// for, at the end.
#[derive(clap::Args, Clone, Debug)]
pub struct CatArgs {
    /// Where to connect to
    #[arg(
        value_name = "ADDRESS:PORT",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    pub(crate) to: Option<SocketAddr>,
    /// Take one connection to --port instead
    #[arg(long, requires = "port")]
    pub(crate) listen: bool,
    /// The local port; when connecting, any if left out
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    #[command(flatten)]
    pub(crate) tcp: TcpArgs,
    /// Print the statistics at the end, on standard error
    #[arg(long)]
    pub(crate) statistics: bool,
    /// Print them as a line of JSON, on standard error
    #[arg(long)]
    pub(crate) json: bool,
}

impl CatArgs {
    pub(super) fn side(&self) -> Result<Side, Error> {
        match (self.to, self.port) {
            (Some(to), _) if to.port() == 0 => {
                Err(Error::new("port 0 cannot be connected to").mend("give the server's port"))
            }
            (Some(to), _) => Ok(Side::Connect(to)),
            (None, Some(port)) => Ok(Side::Listen(port)),
            (None, None) => unreachable!("the command line requires one of them"),
        }
    }
}
