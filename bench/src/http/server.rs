//! The servers: how each is started, and a check that it answers with the right document.

use super::{HttpArgs, Session, Size, body};
use crate::limits::{ANSWER_TIMEOUT, POLL_INTERVAL, START_TIMEOUT};
use crate::process::{Running, find_program};
use crate::scratch::write;
use exos_host::{Error, Result, error::Context as _};
use exos_lab::{INTERFACE, Side};
use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A server to be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Server {
    /// Ours.
    Exos,
    /// The peer.
    Nginx,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Server::Exos => "exos",
            Server::Nginx => "nginx",
        })
    }
}

const NGINX_CONF: &str = include_str!("../../nginx/nginx.conf");

impl Server {
    /// Where it answers. Ours has an address that the kernel of its namespace does not have.
    pub(super) fn address(self) -> SocketAddr {
        let last = match self {
            Server::Exos => 10,
            Server::Nginx => 1,
        };
        (IpAddr::from([10, 10, 0, last]), 80).into()
    }

    /// Its program; an error that says how to install it when it is not there.
    fn program(self, args: &HttpArgs) -> Result<PathBuf> {
        match self {
            Server::Exos => match &args.exos {
                Some(path) => Ok(path.clone()),
                None => std::env::current_exe().context(|| "cannot tell where this program is"),
            },
            Server::Nginx => find_program("nginx", "nginx"),
        }
    }

    /// What the program calls itself, for the report.
    pub(super) fn version(self, args: &HttpArgs) -> Result<String> {
        let program = self.program(args)?;
        let option = match self {
            Server::Exos => "--version",
            Server::Nginx => "-v",
        };
        let output = Command::new(&program)
            .arg(option)
            .stdin(Stdio::null())
            .output();
        let output = output.context(|| format!("cannot run {}", program.display()))?;
        // nginx says it on standard error.
        let said = [output.stdout, output.stderr].concat();
        let line = String::from_utf8_lossy(&said)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        Ok(line.trim_start_matches("nginx version: ").to_owned())
    }

    /// Starts it in namespace a on its core.
    pub(super) fn start(self, session: &Session<'_>) -> Result<Running> {
        let mut command = session.lab.command(Side::A, self.program(session.args)?)?;
        let documents = session.scratch.directory("documents")?;
        match self {
            Server::Exos => {
                command
                    .arg("serve")
                    .arg(documents)
                    .args(["--link", &format!("xdp:{INTERFACE}")]);
                command.args([
                    "--address",
                    &format!("{}/24", self.address().ip()),
                    "--port",
                    "80",
                ]);
            }
            Server::Nginx => {
                let prefix = session.scratch.directory("nginx")?;
                let fill = |text: &str, mark: &str, value: &str| text.replace(mark, value);
                let conf = fill(NGINX_CONF, "@ADDRESS@", &self.address().to_string());
                let conf = fill(&conf, "@DOCUMENTS@", &documents.to_string_lossy());
                let conf = fill(&conf, "@PREFIX@", &prefix.to_string_lossy());
                write(&prefix.join("nginx.conf"), conf)?;
                command
                    .arg("-p")
                    .arg(&prefix)
                    .arg("-c")
                    .arg(prefix.join("nginx.conf"));
            }
        }
        command.stdout(Stdio::null());
        let errors = session.scratch.file(&format!("{self}.err"));
        Running::start(&self.to_string(), command, session.server_core, &errors)
    }

    /// Waits until it answers, and checks that it answers with the whole document and nothing else.
    pub(super) fn wait_until_right(
        self,
        session: &Session<'_>,
        running: &mut Running,
        size: Size,
    ) -> Result<()> {
        let end = Instant::now() + START_TIMEOUT;
        loop {
            session.interrupt.check()?;
            running.check()?;
            match session
                .lab
                .netns(Side::B)
                .run(|| get(self.address(), &size.document()))?
            {
                Ok(answer) => return check_answer(self, &answer, size),
                Err(_) if Instant::now() < end => std::thread::sleep(POLL_INTERVAL),
                Err(e) => return Err(Error::io(format!("{self} does not answer"), e)),
            }
        }
    }
}

/// One request on a connection of its own; everything that came back.
fn get(address: SocketAddr, document: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    write!(
        stream,
        "GET /{document} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        address.ip()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if answer.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}

/// An answer must be status 200 and the document, byte for byte: speed counts only when it is right.
fn check_answer(server: Server, answer: &[u8], size: Size) -> Result<()> {
    let wrong = |what: String| {
        Err(Error::new(format!(
            "{server} answers wrongly to /{}: {what}",
            size.document()
        )))
    };
    let Some(head) = answer.windows(4).position(|w| w == b"\r\n\r\n") else {
        return wrong("no end of the head".to_owned());
    };
    let status = answer.split(|&b| b == b'\r').next().unwrap_or_default();
    if !status.starts_with(b"HTTP/1.1 200 ") {
        return wrong(String::from_utf8_lossy(status).into_owned());
    }
    let (got, expected) = (&answer[head + 4..], body(size));
    if got.len() != expected.len() {
        return wrong(format!("{} bytes instead of {}", got.len(), expected.len()));
    }
    match got.iter().zip(&expected).position(|(a, b)| a != b) {
        Some(at) => wrong(format!("another byte at {at}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_document_is_right() {
        let size = Size::of_bytes(100);
        let with = |head: &str, body: &[u8]| [head.as_bytes(), body].concat();
        let right = with(
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
            &body(size),
        );
        check_answer(Server::Exos, &right, size).expect("right");
        let mut other = right.clone();
        *other.last_mut().expect("not empty") ^= 1;
        for (answer, said) in [
            (other, "another byte at 99"),
            (right[..right.len() - 1].to_vec(), "99 bytes instead of 100"),
            (
                with("HTTP/1.1 404 Not Found\r\n\r\n", b""),
                "HTTP/1.1 404 Not Found",
            ),
            (b"HTTP/1.1 200 OK\r\n".to_vec(), "no end of the head"),
        ] {
            let error = check_answer(Server::Exos, &answer, size).expect_err(said);
            assert!(error.what.contains(said), "{error}");
        }
    }

    #[test]
    fn the_configuration_has_all_its_places() {
        for mark in ["@ADDRESS@", "@DOCUMENTS@", "@PREFIX@"] {
            assert!(
                NGINX_CONF
                    .lines()
                    .any(|line| !line.starts_with('#') && line.contains(mark)),
                "{mark}"
            );
        }
    }
}
