//! h2load: how it is told to load a server over HTTP/2, and what it reports.

use super::load::WebLoad;
use super::tls::{GROUP, SUITE};
use crate::stage::process::find_program;
use exos_host::{Error, Result};
use std::path::PathBuf;
use std::process::Command;

/// What it measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct H2load {
    /// Answers of status 200 received.
    pub responses: u64,
    /// Answers a second, by its own clock.
    pub per_sec: f64,
    /// Bytes of frames received.
    pub bytes: u64,
    /// From a request to its whole answer, the mean, in microseconds.
    pub mean_us: f64,
    /// Requests that failed, and answers of another status.
    pub errors: u64,
    /// Over TLS: version, suite and group of the key exchange, as `exos load` reports them.
    pub agreed: Option<String>,
}

/// The program.
pub(crate) fn find() -> Result<PathBuf> {
    find_program("h2load", "nghttp2-client")
}

impl WebLoad {
    /// A command by which h2load makes it, of one that starts h2load: HTTP/1.1 where a request at a time is carried.
    pub fn by_h2load(&self, mut command: Command) -> Command {
        let streams = self.carried.streams().map_or(1, |(_, streams)| streams);
        command.args(self.carried.streams().is_none().then_some("--h1"));
        command.args(["-t", "1", "-c", &self.connections.to_string()]);
        command.args(["-m", &streams.to_string()]);
        if self.resuming.is_some() {
            // It would not heed OpenSSL's configuration.
            command.arg(format!("--groups={GROUP}"));
            command.arg(format!("--tls13-ciphers={SUITE}"));
        }
        command.arg("-D").arg(format!("{}s", self.whole_seconds()));
        command.arg(self.url());
        command
    }
}

impl H2load {
    /// What it says that it measured.
    ///
    /// # Errors
    ///
    /// It says something else.
    pub fn read(output: &str) -> Result<Self> {
        let strange = || Error::new(format!("h2load did not report what it measured: {output}"));
        parse(output).ok_or_else(strange)
    }
}

fn parse(output: &str) -> Option<H2load> {
    let line = |begin: &str| output.lines().find_map(|line| line.strip_prefix(begin));
    let counted = |list: &str, what: &str| -> Option<u64> {
        let mut parts = list.split(", ").map(str::trim);
        let part = parts.find_map(|part| part.strip_suffix(what))?;
        part.trim().parse().ok()
    };
    let agreed = || -> Option<String> {
        let (version, suite) = (line("TLS Protocol: ")?, line("Cipher: ")?);
        let group = line("Server Temp Key: ")?.split_whitespace().next()?;
        Some(format!("{version} {suite} {group}"))
    };
    let mut finished = line("finished in ")?.split(", ");
    let per_sec = finished.nth(1)?.strip_suffix(" req/s")?.parse().ok()?;
    let requests = line("requests: ")?;
    let statuses = line("status codes: ")?;
    let responses = counted(statuses, "2xx")?;
    let other: u64 = ["3xx", "4xx", "5xx"]
        .iter()
        .filter_map(|class| counted(statuses, class))
        .sum();
    let (_, bytes) = line("traffic: ")?.split_once('(')?;
    let times = line("time for request:")?;
    Some(H2load {
        responses,
        per_sec,
        bytes: bytes.split(')').next()?.parse().ok()?,
        mean_us: microseconds(times.split_whitespace().nth(2)?)?,
        errors: other + counted(requests, "failed")?,
        agreed: agreed(),
    })
}

/// A time as it writes it: `812us`, `1.20ms`, `3.00s`.
fn microseconds(text: &str) -> Option<f64> {
    for (unit, times) in [("us", 1.0), ("ms", 1e3), ("s", 1e6)] {
        if let Some(number) = text
            .strip_suffix(unit)
            .and_then(|it| it.parse::<f64>().ok())
        {
            return Some(times * number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tls::AGREED;
    use super::*;

    const OUTPUT: &str = "starting benchmark...\n\
        finished in 2.00s, 27628.28 req/s, 5.97MB/s\n\
        requests: 55260 total, 55900 started, 55260 done, 55250 succeeded, 10 failed, 7 errored, 0 timeout\n\
        status codes: 55250 2xx, 0 3xx, 3 4xx, 0 5xx\n\
        traffic: 11.94MB (12523456) total, 2.13MB (2230000) headers (space savings 51.00%), 5.27MB (5526000) data\n\
        \u{20}                    min         max         mean         sd        +/- sd\n\
        time for request:      812us     12.34ms      1.20ms       500us    70.00%\n";

    #[test]
    fn what_it_reports_is_read() {
        let measured = H2load::read(OUTPUT).expect("a report");
        let wanted = H2load {
            responses: 55_250,
            per_sec: 27_628.28,
            bytes: 12_523_456,
            mean_us: 1200.0,
            errors: 13,
            agreed: None,
        };
        assert_eq!(measured, wanted);
        let over_tls = "TLS Protocol: TLSv1.3\nCipher: TLS_AES_128_GCM_SHA256\nServer Temp Key: X25519 253 bits\n";
        let measured = H2load::read(&(over_tls.to_owned() + OUTPUT)).expect("a report");
        assert_eq!(measured.agreed.as_deref(), Some(AGREED));
        assert_eq!(AGREED, format!("TLSv1.3 {SUITE} {GROUP}"));
    }

    #[test]
    fn other_output_is_not_mistaken_for_a_result() {
        for output in [
            "",
            "finished in 2.00s",
            &OUTPUT.replace("2xx", "xx"),
            &OUTPUT.replace("req/s", ""),
        ] {
            assert!(H2load::read(output).is_err(), "{output}");
        }
    }
}
