//! The command line of `exos cat`.

use std::net::SocketAddr;

use exos::Error;
use exos_program::{SharingLinkArgs, TcpArgs};

use super::program::Side;

/// Connect standard input and output to a TCP connection, like netcat.
///
/// At the end of standard input it closes its half of the connection (like `nc -N`). The exit status is 0 if all data
/// was delivered and both sides closed, else 1 with a message that says why. It prints statistics on SIGUSR1 and, with
/// --statistics, at the end.
#[derive(clap::Args, Clone, Debug)]
pub struct CatArgs {
    /// Address and port to connect to
    #[arg(
        value_name = "ADDRESS:PORT",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    pub(crate) to: Option<SocketAddr>,
    /// Accept one connection at --port instead of connecting
    #[arg(long, requires = "port")]
    pub(crate) listen: bool,
    /// Local port [default when connecting: any]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    #[command(flatten)]
    pub(crate) link: SharingLinkArgs<true>,
    #[command(flatten)]
    pub(crate) tcp: TcpArgs,
    /// Print statistics at the end, to standard error
    #[arg(long)]
    pub(crate) statistics: bool,
    /// Print statistics as one line of JSON, to standard error
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
