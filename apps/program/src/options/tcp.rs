//! The options of TCP that a program passes on from its command line.

use std::str::FromStr;

use exos_inet::tcp::congestion::Algorithm;
use exos_inet::tcp::{EcnMode, Options};

use crate::units::parse_size;

/// How the connections of a program behave.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct TcpArgs {
    /// Congestion control algorithm: cubic, newreno or bbr [default: cubic]
    #[arg(long, help_heading = "TCP", value_name = "NAME")]
    pub congestion: Option<Congestion>,
    /// Explicit congestion notification (ECN): off, accept (if the peer asks for it) or request [default: accept]
    #[arg(long, help_heading = "TCP", value_name = "MODE")]
    pub ecn: Option<Ecn>,
    /// Do not use selective acknowledgements (SACK)
    #[arg(long, help_heading = "TCP")]
    pub no_sack: bool,
    /// Size of each connection's receive buffer, such as 256KiB, which limits its window
    #[arg(long, help_heading = "TCP", value_name = "SIZE", value_parser = receive_buffer)]
    pub receive_buffer: Option<u32>,
    /// Hold back partial segments while sent data is unacknowledged (Nagle's algorithm)
    #[arg(long, help_heading = "TCP")]
    pub nagle: bool,
}

/// A size that a receive buffer can have.
fn receive_buffer(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(parse_size(text)?).ok();
    let bytes = bytes.filter(|bytes| (2048..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| format!("{text:?} is out of bounds; write a size from 2KiB to 1GiB"))
}

impl TcpArgs {
    /// These options, and those of a file where they say nothing.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        Self {
            congestion: self.congestion.or(file.congestion),
            ecn: self.ecn.or(file.ecn),
            no_sack: self.no_sack || file.no_sack,
            receive_buffer: self.receive_buffer.or(file.receive_buffer),
            nagle: self.nagle || file.nagle,
        }
    }

    /// What was asked for, all else as the stack has it.
    pub fn options(&self) -> Options {
        let mut options = Options {
            nagle: self.nagle,
            sack: !self.no_sack,
            ..Options::default()
        };
        if let Some(Congestion(algorithm)) = self.congestion {
            options.congestion = algorithm;
        }
        if let Some(Ecn(mode)) = self.ecn {
            options.ecn = mode;
        }
        if let Some(bytes) = self.receive_buffer {
            options.receive_buffer_bytes = bytes;
            options.receive_buffer_max_bytes = bytes;
        }
        options
    }
}

/// An algorithm of congestion control, by its name.
#[derive(Copy, Clone)]
pub struct Congestion(pub Algorithm);

impl std::fmt::Debug for Congestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

impl FromStr for Congestion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Algorithm::by_name(text).map(Self);
        found.ok_or(format!("{text:?} is unknown; write cubic, newreno or bbr"))
    }
}

/// When connections use explicit congestion notification, as people write it.
#[derive(Copy, Clone, Debug)]
pub struct Ecn(pub EcnMode);

impl FromStr for Ecn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "off" => EcnMode::Off,
            "accept" => EcnMode::Accept,
            "request" => EcnMode::Request,
            _ => {
                return Err(format!(
                    "{text:?} is no way to use it; write off, accept or request"
                ));
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_what_connections_get() {
        let default = TcpArgs::default().options();
        assert!(default.sack && !default.nagle);
        assert_eq!(default.congestion.name(), Algorithm::default().name());
        let args = TcpArgs {
            congestion: Some("bbr".parse().unwrap()),
            ecn: Some("request".parse().unwrap()),
            no_sack: true,
            receive_buffer: Some(50_000),
            nagle: true,
        };
        let options = args.options();
        assert!(!options.sack && options.nagle);
        assert_eq!(options.congestion.name(), "bbr");
        assert_eq!(
            (default.ecn, options.ecn),
            (EcnMode::Accept, EcnMode::Request)
        );
        assert!("on".parse::<Ecn>().unwrap_err().contains("request"));
        assert_eq!(options.receive_buffer_bytes, 50_000);
        let both = TcpArgs {
            receive_buffer: Some(60_000),
            ..TcpArgs::default()
        }
        .or(args);
        assert!(both.no_sack && both.nagle && both.congestion.is_some() && both.ecn.is_some());
        assert_eq!(both.receive_buffer, Some(60_000));
        assert!("vegas".parse::<Congestion>().unwrap_err().contains("cubic"));
    }

    #[test]
    fn receive_buffers_are_sizes_within_bounds() {
        assert_eq!(receive_buffer("64KiB"), Ok(65_536));
        assert_eq!(receive_buffer("2048"), Ok(2048));
        for bad in ["2047", "2GiB", "99999999999", "much"] {
            assert!(receive_buffer(bad).is_err(), "{bad}");
        }
    }
}
