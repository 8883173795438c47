//! FastCGI applications behind a web server: php-fpm, and a responder of ours that takes next to no time. Each has as many
//! processes, or threads, as the client has connections, so that no request waits for one.

use super::responder::Responder;
use super::stage::WebStage;
use crate::stage::args::shown_as_on_the_command_line;
use crate::stage::cpu::Family;
use crate::stage::process::{find_program, version};
use crate::stage::request::{Size, body};
use crate::stage::scratch::{fill, write};
use crate::stage::session::Started;
use exos_host::{Error, Result};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An application that answers what servers ask it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Application {
    /// php-fpm with a script that says a document.
    PhpFpm,
    /// Threads of ours that read a request and write the answer, which they have.
    Responder,
}

shown_as_on_the_command_line!(Application);

/// How an application is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reached {
    /// By a connection for each request.
    New,
    /// By connections that are kept.
    Kept,
    /// By buffers that it shares with the server, with a page that it keeps.
    Shared,
    /// By shared buffers, with a page that it copies for each request.
    Fresh,
}

impl Reached {
    /// By shared buffers.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::Fresh)
    }
}

/// An application behind a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Behind {
    pub application: Application,
    pub reached: Reached,
}

const PHP_FPM_CONF: &str = include_str!("../../../php-fpm/php-fpm.conf");

/// The PHP versions whose programs have a name of their own, as Debian's do.
const PHP_VERSIONS: [&str; 7] = ["8.5", "8.4", "8.3", "8.2", "8.1", "8.0", "7.4"];

impl Application {
    /// What it calls itself; an error that says how to install it when it is not there.
    pub(crate) fn version(self, exos: &Path) -> Result<String> {
        match self {
            Self::PhpFpm => version(&php_fpm()?, "-v"),
            Self::Responder => version(exos, "--version"),
        }
    }

    /// Where servers find what is asked for.
    pub(super) fn documents(self, stage: &WebStage) -> Result<String> {
        let documents = stage.scratch.directory(match self {
            Self::PhpFpm => "scripts",
            Self::Responder => "documents",
        })?;
        Ok(documents.to_string_lossy().into_owned())
    }

    /// Starts it on the server's core, with a document of this size.
    pub(crate) fn start(self, stage: &WebStage, size: Size, reached: Reached) -> Result<Started> {
        let (socket, shared) = (socket(stage), shared_socket(stage));
        for socket in [&socket, &shared] {
            let _ = std::fs::remove_file(socket);
        }
        match self {
            Self::PhpFpm => self.start_php_fpm(stage, size, &socket),
            Self::Responder => {
                let responder = Responder {
                    socket,
                    shared: reached.is_shared().then_some(shared),
                    is_fresh: reached == Reached::Fresh,
                    size_bytes: size.bytes(),
                    threads: stage.connections,
                };
                let command = Command::new(&stage.helpers);
                Ok(stage.help(command, stage.cores[0], &responder)?.started)
            }
        }
    }

    fn start_php_fpm(self, stage: &WebStage, size: Size, socket: &Path) -> Result<Started> {
        let script = Path::new(&self.documents(stage)?).join(size.document());
        write(&script, php(size))?;
        let prefix = stage.scratch.directory("php-fpm")?;
        let text = fill(
            PHP_FPM_CONF,
            &[
                ("@SOCKET@", socket.to_string_lossy().into_owned()),
                ("@PREFIX@", prefix.to_string_lossy().into_owned()),
                ("@PROCESSES@", stage.connections.to_string()),
            ],
        );
        let configuration = stage.scratch.write("php-fpm/configuration", text)?;
        let mut command = Command::new(php_fpm()?);
        command.args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"]);
        command.arg(configuration);
        let mut started = stage.start("php-fpm", command, stage.cores[0])?;
        // It listens before it has its processes, whose time is measured.
        let processes = 1 + stage.connections as usize;
        let pid = started.running.pid();
        stage.await_true(&mut started, || {
            socket.exists() && Family::of(pid).is_ok_and(|family| family.count() >= processes)
        })?;
        Ok(started)
    }
}

/// Where it listens.
pub(super) fn socket(stage: &WebStage) -> PathBuf {
    stage.scratch.file("application.sock")
}

/// Where it listens for servers that share its buffers.
pub(super) fn shared_socket(stage: &WebStage) -> PathBuf {
    stage.scratch.file("application-shared.sock")
}

/// A script that says a document, and its length, as the checks and the client of packets want to know it.
fn php(size: Size) -> Vec<u8> {
    let head = format!("<?php header('Content-Length: {}') ?>", size.bytes());
    [head.into_bytes(), body(size)].concat()
}

fn php_fpm() -> Result<PathBuf> {
    let names = PHP_VERSIONS.map(|version| format!("php-fpm{version}"));
    let mut names = ["php-fpm".to_owned()].into_iter().chain(names);
    let found = names.find_map(|name| find_program(&name, "php-fpm").ok());
    found.ok_or_else(|| {
        Error::new("php-fpm is not installed").mend("install it: apt install php-fpm")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_php_fpm_has_all_its_places() {
        for mark in ["@SOCKET@", "@PREFIX@", "@PROCESSES@"] {
            let used = |line: &str| !line.starts_with(';') && line.contains(mark);
            assert!(PHP_FPM_CONF.lines().any(used), "{mark}");
        }
    }

    #[test]
    fn a_script_says_the_document() {
        let size = Size::of_bytes(100);
        let script = String::from_utf8(php(size)).expect("text");
        let (head, said) = script.split_once("?>").expect("there is code in it");
        assert!(head.starts_with("<?php ") && head.contains("Content-Length: 100"));
        // PHP takes a line end behind that for its own.
        assert!(!said.starts_with('\n'));
        assert_eq!(said.as_bytes(), body(size));
    }
}
