//! The generators: where their programs are, and how each is told to load a server.

use super::cell::Cell;
use crate::experiment::asked::{Asked, Kind};
use crate::stage::process::{find_program, output_of};
use crate::stage::request::Connection;
use crate::stage::web::{WebStage, h2load, whole, wrk};
use exos_host::Result;
use exos_lab::{Lab, Side};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A load generator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Generator {
    /// exos load, with acknowledgements merged into the next packet.
    Exos,
    /// exos load, with acknowledgements in packets of their own.
    Unmerged,
    /// exos load on kernel sockets.
    Sockets,
    /// wrk, one thread.
    Wrk,
    /// ab (ApacheBench).
    Ab,
    /// httperf.
    Httperf,
    /// h2load, one thread; by HTTP/2, and over TLS on standing connections.
    H2load,
}

impl fmt::Display for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Generator::Exos => "exos",
            Generator::Unmerged => "exos-unmerged",
            Generator::Sockets => "exos-sockets",
            Generator::Wrk => "wrk",
            Generator::Ab => "ab",
            Generator::Httperf => "httperf",
            Generator::H2load => "h2load",
        })
    }
}

/// Requests a second that ab makes room for in its records: more than it manages anywhere.
const AB_RATE_MAX: u32 = 300_000;

/// What OpenSSL offers in the hellos of wrk and ab: group and suite that `exos load` and `exos serve` agree on. By itself, from 3.5 on, it
/// would exchange keys by ML-KEM beside, which takes more of both sides' time.
const OPENSSL_CONF: &str = "\
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = tls
[tls]
Groups = X25519
Ciphersuites = TLS_AES_128_GCM_SHA256
MinProtocol = TLSv1.3
";

impl Generator {
    /// On a stack of our own: it looks for packets while it waits, so that its core is always busy, and tells itself for
    /// which part of the time it had something to do.
    pub(super) fn polls(self) -> bool {
        matches!(self, Self::Exos | Self::Unmerged)
    }

    /// Whether it is measured so.
    pub(super) fn asks(self, how: Asked) -> bool {
        match (self, how) {
            (Self::H2load, Asked::Plain(_)) => false,
            (_, Asked::Plain(_)) | (Self::Exos | Self::Sockets, _) => true,
            // It resumes a session whenever it has one, and cannot be told not to.
            (Self::Wrk, Asked::Tls(kind)) => kind != Kind::Full,
            (Self::Ab, Asked::Tls(kind)) => kind != Kind::Resumed,
            (Self::H2load, Asked::Tls(kind)) => kind == Kind::Persistent,
            (Self::H2load, Asked::Http2(_)) => true,
            (Self::Unmerged | Self::Httperf, _)
            | (Self::Wrk | Self::Ab, Asked::Http2(_))
            | (_, Asked::Http3) => false,
        }
    }

    /// Its program; an error that says how to install it when it is not there.
    pub(super) fn program(self, exos: &Path) -> Result<PathBuf> {
        match self {
            Generator::Exos | Generator::Unmerged | Generator::Sockets => Ok(exos.to_owned()),
            Generator::Wrk => wrk::find(),
            Generator::Ab => find_program("ab", "apache2-utils"),
            Generator::Httperf => find_program("httperf", "httperf"),
            Generator::H2load => h2load::find(),
        }
    }

    /// What the program calls itself, for the report.
    pub(super) fn version(self, exos: &Path) -> Result<String> {
        let option = match self {
            Generator::Wrk => "-v",
            Generator::Ab => "-V",
            _ => "--version",
        };
        let said = output_of(&self.program(exos)?, &[option])?;
        let line = said.lines().find(|line| !line.contains("warning"));
        Ok(short(line.unwrap_or_default()).to_owned())
    }

    /// A command that loads for as long as the stage's measurements last; `None` of httperf, which counts calls instead.
    pub(super) fn command(self, web: &WebStage, lab: &Lab, cell: Cell) -> Result<Option<Command>> {
        let load = cell.load(web);
        let mut command = lab.command(Side::B, self.program(&web.program)?)?;
        let mut command = match self {
            Generator::Wrk => web.wrk(lab, &load)?,
            Generator::Httperf => return Ok(None),
            Generator::H2load => load.by_h2load(command),
            Generator::Ab => {
                ab(&mut command, web, load.connection).arg(load.url());
                command
            }
            _ => {
                let mut command = load.by_exos(command, self.polls());
                command.args((self == Generator::Unmerged).then_some("--no-merging"));
                command
            }
        };
        let openssl_conf = web.scratch.write("generators.cnf", OPENSSL_CONF)?;
        command.env("OPENSSL_CONF", openssl_conf);
        Ok(Some(command))
    }
}

/// ab speaks HTTP/1.0: a connection for each request, unless it asks to keep it.
fn ab<'c>(command: &'c mut Command, web: &WebStage, connection: Connection) -> &'c mut Command {
    command.args(["-q", "-r", "-c", &web.connections.to_string()]);
    // The time first, since it sets a number of requests too.
    let seconds = whole(web.seconds);
    command.args(["-t", &seconds.to_string()]);
    command.args(["-n", &(seconds * AB_RATE_MAX).to_string()]);
    command.args((connection == Connection::Persistent).then_some("-k"))
}

/// A version without the remarks behind it.
fn short(line: &str) -> &str {
    let line = line
        .trim_start_matches("This is ")
        .trim_start_matches("httperf: ");
    let ends = [" <", " [", " Copyright", " compiled"];
    let ends = ends.iter().filter_map(|end| line.find(end));
    &line[..ends.min().unwrap_or(line.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_short() {
        for (line, expected) in [
            (
                "This is ApacheBench, Version 2.3 <$Revision: 1 $>",
                "ApacheBench, Version 2.3",
            ),
            (
                "wrk debian/4.1.0-3 [epoll] Copyright (C) 2012",
                "wrk debian/4.1.0-3",
            ),
            (
                "httperf: httperf-0.9.0 compiled without DEBUG",
                "httperf-0.9.0",
            ),
            ("exos 0.1.0", "exos 0.1.0"),
            ("", ""),
        ] {
            assert_eq!(short(line), expected);
        }
    }
}
