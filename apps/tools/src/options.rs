//! The command lines of echo, discard and chargen.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use exos_program::{LinkArgs, TcpArgs};

use crate::limits::SECONDS_MAX;
use crate::service::Limits;

/// What all of them have.
#[derive(clap::Args, Clone, Debug)]
pub struct CommonArgs {
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    #[command(flatten)]
    pub(crate) tcp: TcpArgs,
    /// Print the statistics as JSON, a line on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Send back whatever arrives (RFC 862), over TCP and UDP.
///
/// A peer that does not take its answers is not read from: the window closes, and what waits is bounded.
/// Datagrams from ports below 1024 are not answered, lest two services answer each other for ever.
/// SIGINT and SIGTERM end it. Statistics are printed on SIGUSR1 and at the end.
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
    /// Connect to this server instead of being one, and end when all connections have
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) connect: Option<SocketAddr>,
    /// With --connect: connections at once
    #[arg(long, value_name = "N", default_value_t = 1, requires = "connect", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// End each connection after so many bytes; K, M and G are 1024, 1024 K and 1024 M
    #[arg(long, value_name = "N")]
    pub(crate) bytes: Option<Bytes>,
    /// End each connection after so many seconds
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,
}

impl LoadArgs {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            bytes: self.bytes.map(|b| b.0),
            time: self.seconds,
        }
    }
}

/// Throw away whatever arrives and say how fast it came (RFC 863), over TCP and UDP.
///
/// With --connect it reads from a server, for example one of chargen.
/// SIGINT and SIGTERM end it. Statistics are printed on SIGUSR1 and at the end.
#[derive(clap::Args, Clone, Debug)]
pub struct DiscardArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Port to serve [default: 9]; with --connect the local port [default: any]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
}

/// Send a pattern of characters as fast as it is taken, and say how fast that was (RFC 864), over TCP.
///
/// With --connect it sends to a server, for example one of discard.
/// SIGINT and SIGTERM end it. Statistics are printed on SIGUSR1 and at the end.
#[derive(clap::Args, Clone, Debug)]
pub struct ChargenArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Port to serve [default: 19]; with --connect the local port [default: any]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
}

/// A number of bytes as a person writes it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write a number of bytes, for example 5000, 64K, 10M or 1G";
        let (digits, shift) = match text.char_indices().last() {
            Some((at, 'k' | 'K')) => (&text[..at], 10),
            Some((at, 'm' | 'M')) => (&text[..at], 20),
            Some((at, 'g' | 'G')) => (&text[..at], 30),
            _ => (text, 0),
        };
        let number: u64 = digits.parse().map_err(|_| format!("{text:?}: {help}"))?;
        let bytes = number.checked_mul(1 << shift).filter(|&bytes| bytes > 0);
        bytes.map(Self).ok_or(format!("{text:?}: {help}"))
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok();
    let good = number.filter(|n| *n > 0.0 && *n <= SECONDS_MAX);
    good.map(Duration::from_secs_f64).ok_or(format!(
        "{text:?}: write seconds, for example 10 or 0.5, at most {SECONDS_MAX}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_seconds() {
        for (text, bytes) in [
            ("1", 1),
            ("64K", 65_536),
            ("10m", 10 << 20),
            ("1G", 1 << 30),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for bad in [
            "",
            "0",
            "K",
            "-1",
            "1T",
            "1.5M",
            "99999999999999999999",
            "18446744073709551615K",
        ] {
            let error = bad.parse::<Bytes>().unwrap_err();
            assert!(error.contains("64K"), "{bad}: {error}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "0", "-1", "nan", "inf", "1e9", "x"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
