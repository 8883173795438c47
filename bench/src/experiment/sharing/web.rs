//! The web server that is measured, and its client, wrk.

use super::daemon::DIRECT_UID;
use super::session::{OURS, Session};
use crate::experiment::http::wrk;
use crate::stage::Started;
use crate::stage::daemon::Daemon;
use exos_host::{Error, Result};
use exos_lab::{INTERFACE, Side};

/// Connections of the client.
const CONNECTIONS: u32 = 64;

/// Bytes of the document.
const DOCUMENT_LEN: usize = 100;

const PORT: u16 = 80;

/// What a request comes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A connection that stands.
    Persistent,
    /// A connection of its own.
    New,
}

/// Where the server has its packets from.
#[derive(Clone, Copy)]
pub(super) enum Link<'d> {
    /// The device itself, as root.
    Device,
    /// Its queue, lent by the daemon to an ordinary user: what they send is not checked.
    Queue(&'d Daemon<'d>),
    /// A virtual interface of its own, lent by the daemon to an ordinary user.
    Daemon(&'d Daemon<'d>),
}

/// A server.
pub(super) struct Server(Started);

impl Server {
    /// Starts it on the first core, when it serves.
    pub fn start(session: &Session<'_>, link: Link<'_>) -> Result<Self> {
        let documents = session.scratch.directory("documents")?;
        crate::stage::scratch::write(&documents.join("d"), vec![b'x'; DOCUMENT_LEN])?;
        let documents = documents.to_string_lossy().into_owned();
        let port = PORT.to_string();
        let common = ["serve", &documents, "--port", &port];
        let core = session.cores[0];
        let mut started = match link {
            Link::Device => {
                let (address, link) = (format!("{OURS}/24"), format!("xdp:{INTERFACE}"));
                let own = ["--via", "none", "--link", &link, "--address", &address];
                let mut command = session.lab.command(Side::A, session.program())?;
                command.args(common).args(own);
                session.start("serve", command, core)?
            }
            Link::Queue(daemon) => {
                let socket = daemon.socket();
                let own = [
                    "--via",
                    "xokd",
                    "--xokd",
                    socket.as_str(),
                    "--mode",
                    "direct",
                ];
                session.as_other(DIRECT_UID, core, &[&common[..], &own].concat())?
            }
            Link::Daemon(daemon) => {
                let socket = daemon.socket();
                let own = [
                    "--via",
                    "xokd",
                    "--xokd",
                    socket.as_str(),
                    "--mode",
                    "shared",
                ];
                session.as_user(core, &[&common[..], &own].concat())?
            }
        };
        session.await_address(&mut started)?;
        Ok(Self(started))
    }

    /// Requests a second that it answers, from the second core.
    pub fn load(&self, session: &Session<'_>, kind: Kind) -> Result<f64> {
        let script = session.scratch.write("report.lua", wrk::SCRIPT)?;
        let mut command = session.lab.command(Side::B, wrk::find()?)?;
        let seconds = session.args.seconds().ceil() as u64;
        command.arg("-t1").arg(format!("-c{CONNECTIONS}"));
        command.arg(format!("-d{seconds}s")).arg("-s").arg(script);
        if kind == Kind::New {
            command.args(["-H", "Connection: close"]);
        }
        command.arg(format!("http://{OURS}:{PORT}/d"));
        let client = session.start("wrk", command, session.cores[1])?;
        let output = session.said(client, seconds as f64)?;
        let measured = wrk::parse(&output)
            .ok_or_else(|| Error::new(format!("wrk did not report what it measured: {output}")))?;
        if measured.requests == 0 {
            let errors = measured.errors;
            return Err(Error::new(format!(
                "the server answered nothing ({errors:?})"
            )));
        }
        Ok(measured.requests as f64 * 1e6 / measured.duration_us as f64)
    }

    /// Ends it.
    pub fn stop(self) -> Result<()> {
        self.0.stop()
    }
}
