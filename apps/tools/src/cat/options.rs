//! The command line of `exos cat`.

use exos::Error;
use exos_program::names::HostPort;
use exos_program::{SharingLinkArgs, TcpArgs, TlsArgs};
use exos_tls::client::Client;

use super::program::Side;

/// Connect standard input and output to a TCP connection, like netcat.
///
/// At the end of standard input it closes its half of the connection (like `nc -N`). The exit status is 0 if all data
/// was delivered and both sides closed, else 1 with a message that says why. It prints statistics on SIGUSR1 and, with
/// --statistics, at the end.
#[derive(clap::Args, Clone, Debug)]
pub struct CatArgs {
    /// Host and port to connect to; a name's addresses are tried until one answers
    #[arg(
        value_name = "HOST:PORT",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    pub(crate) to: Option<HostPort>,
    /// Accept one connection at --port instead of connecting
    #[arg(long, requires = "port")]
    pub(crate) listen: bool,
    /// Local port [default when connecting: any]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Speak TLS on the connection; it then stays open until the server ends it, as with `openssl s_client -quiet`
    #[arg(long, conflicts_with = "listen")]
    pub(crate) tls: bool,
    #[command(flatten)]
    pub(crate) tls_args: TlsArgs,
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
    /// Speaks TLS with the host, where that is wanted.
    pub(super) fn client(&self) -> Result<Option<Client>, Error> {
        match &self.to {
            Some(to) if self.tls => self.tls_args.client(&to.host, &[]).map(Some),
            _ if self.tls_args.is_given() => Err(Error::new("no TLS is spoken")
                .mend("say --tls, or leave --insecure, --cacert and --tls-name out")),
            _ => Ok(None),
        }
    }

    pub(super) fn side(&self) -> Side {
        match (&self.to, self.port) {
            (Some(to), _) => Side::Connect(to.clone()),
            (None, Some(port)) => Side::Listen(port),
            (None, None) => unreachable!("the command line requires one of them"),
        }
    }
}
