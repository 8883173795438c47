//! The command line of `exos ss`.

use exos::Error;

use crate::states::{States, Wanted};

/// Show the sockets of programs, as ss shows the kernel's.
///
/// Of all programs that this user may look into (its own, or all for root): those of exos, with unmodified ones by exos run, and others
/// that link the library. Each says it of itself, one that sleeps within a second. Shown are connections, without those in TIME-WAIT and
/// SYN-RECV; -a shows all sockets, -l those that listen. The exit status is 1 when a program has not told all of its own.
#[derive(clap::Args, Debug)]
pub struct SsArgs {
    /// All sockets, listening ones too; also with -l
    #[arg(short = 'a', long)]
    all: bool,
    /// Only sockets that listen
    #[arg(short = 'l', long)]
    listening: bool,
    /// TCP; with -u both, as without either
    #[arg(short = 't', long)]
    tcp: bool,
    /// UDP
    #[arg(short = 'u', long)]
    udp: bool,
    /// IPv4; with -6 both, as without either
    #[arg(short = '4', long)]
    ipv4: bool,
    /// IPv6
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Numbers in place of names: they are so always
    #[arg(short = 'n', long)]
    numeric: bool,
    /// What TCP knows of each connection
    #[arg(short = 'i', long)]
    pub(crate) info: bool,
    /// Which processes have a socket
    #[arg(short = 'p', long)]
    pub(crate) processes: bool,
    /// No line of headings
    #[arg(short = 'H', long)]
    pub(crate) no_header: bool,
    /// Only of this process; also of one that exos run runs
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Filter of states: state NAME, exclude NAME, such as: state time-wait
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

impl SsArgs {
    /// Which sockets are asked for.
    ///
    /// # Errors
    ///
    /// The filter is none.
    pub(crate) fn wanted(&self) -> Result<Wanted, Error> {
        let states = match (self.all, self.listening) {
            (true, _) => States::ALL,
            (_, true) => States::listening(),
            _ => States::usual(),
        };
        Ok(Wanted {
            states: states.filtered(&self.filter)?,
            tcp: self.tcp || !self.udp,
            udp: self.udp || !self.tcp,
            ipv4: self.ipv4 || !self.ipv6,
            ipv6: self.ipv6 || !self.ipv4,
        })
    }
}
