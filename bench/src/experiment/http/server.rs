//! The servers: where each answers, and how it is started.

use super::{Client, Room};
use crate::stage::Started;
use crate::stage::daemon::Daemon;
use crate::stage::process::{find_program, said_by};
use crate::stage::scratch::write;
use exos_host::Result;
use exos_lab::{INTERFACE, Lab, Side};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server to be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Server {
    /// exos serve on the interface itself.
    Exos,
    /// exos serve with SYNs answered in the kernel; only for the client packets, because wrk's end of the wire has no
    /// XDP program
    Handlers,
    /// exos serve without privilege, on a virtual interface from the daemon.
    Xokd,
    /// exos serve on kernel sockets.
    Sockets,
    /// nginx.
    Nginx,
    /// h2o.
    H2o,
    /// lighttpd.
    Lighttpd,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Server::Exos => "exos",
            Server::Handlers => "exos-handlers",
            Server::Xokd => "exos-xokd",
            Server::Sockets => "exos-sockets",
            Server::Nginx => "nginx",
            Server::H2o => "h2o",
            Server::Lighttpd => "lighttpd",
        })
    }
}

/// The kernel's address on side a.
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
/// An address there that the kernel does not have, and so does not answer for.
const EXOS: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 10);
const PORT: u16 = 80;

const NGINX_CONF: &str = include_str!("../../../nginx/nginx.conf");
const H2O_CONF: &str = include_str!("../../../h2o/h2o.conf");
const LIGHTTPD_CONF: &str = include_str!("../../../lighttpd/lighttpd.conf");

/// A server, and how it is to be set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Setup {
    pub server: Server,
    /// The specialisations that it is to do without.
    pub without: &'static [&'static str],
    /// Ours: this many cores, of an interface with as many queues.
    pub cores: u32,
}

impl From<Server> for Setup {
    fn from(server: Server) -> Self {
        Self {
            server,
            without: &[],
            cores: 1,
        }
    }
}

/// A server that runs, with the daemon that lends it its link.
pub(crate) struct Serving<'s> {
    pub started: Started,
    /// Dropped after it.
    _daemon: Option<Daemon<'s>>,
}

impl Serving<'_> {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.started.running.pid()
    }
}

impl Server {
    /// All of them, ours first.
    pub const ALL: [Self; 7] = [
        Self::Exos,
        Self::Handlers,
        Self::Xokd,
        Self::Sockets,
        Self::Nginx,
        Self::H2o,
        Self::Lighttpd,
    ];

    /// A program of ours.
    pub fn is_ours(self) -> bool {
        matches!(
            self,
            Self::Exos | Self::Handlers | Self::Xokd | Self::Sockets
        )
    }

    /// Whether a client can load it: what a handler answers arrives only where a program of XDP receives.
    pub(crate) fn is_for(self, client: Client) -> bool {
        self != Self::Handlers || client == Client::Packets
    }

    /// Where it answers.
    pub(crate) fn address(self) -> SocketAddrV4 {
        let has_stack = matches!(self, Self::Exos | Self::Handlers | Self::Xokd);
        SocketAddrV4::new(if has_stack { EXOS } else { KERNEL }, PORT)
    }

    /// Its program; an error that says how to install it when it is not there.
    fn program(self, exos: &Path) -> Result<PathBuf> {
        match self {
            Server::Nginx => find_program("nginx", "nginx"),
            Server::H2o => find_program("h2o", "h2o"),
            Server::Lighttpd => find_program("lighttpd", "lighttpd"),
            _ => Ok(exos.to_owned()),
        }
    }

    /// What the program calls itself, for the report.
    pub(super) fn version(self, exos: &Path) -> Result<String> {
        let option = match self {
            Server::Nginx | Server::Lighttpd | Server::H2o => "-v",
            _ => "--version",
        };
        let said = said_by(&self.program(exos)?, &[option])?;
        let line = said.lines().next().unwrap_or_default();
        Ok(line.trim_start_matches("nginx version: ").to_owned())
    }

    /// Writes the configuration of a peer, and says where it is.
    fn configure(self, room: &Room, documents: &str, command: &mut Command) -> Result<()> {
        let prefix = room.scratch.directory(&self.to_string())?;
        let file = prefix.join("configuration");
        let text = match self {
            Server::Nginx => NGINX_CONF,
            Server::H2o => H2O_CONF,
            _ => LIGHTTPD_CONF,
        };
        let fill = [
            ("@ADDRESS@", self.address().to_string()),
            ("@HOST@", KERNEL.to_string()),
            ("@PORT@", PORT.to_string()),
            ("@DOCUMENTS@", documents.to_owned()),
            ("@PREFIX@", prefix.to_string_lossy().into_owned()),
        ];
        let filled = fill.iter().fold(text.to_owned(), |text, (mark, value)| {
            text.replace(mark, value)
        });
        write(&file, filled)?;
        match self {
            Server::Nginx => command.arg("-p").arg(&prefix).arg("-c"),
            Server::H2o => command.args(["-m", "worker", "-c"]),
            _ => command.args(["-D", "-f"]),
        };
        command.arg(file);
        Ok(())
    }
}

impl Setup {
    /// Starts it in namespace a on its core, or cores.
    pub(super) fn start<'s>(self, room: &'s Room, lab: &Lab) -> Result<Serving<'s>> {
        let server = self.server;
        let documents = room.scratch.directory("documents")?;
        let documents = documents.to_string_lossy().into_owned();
        let namespace = || Side::A.namespace(&room.lab_name);
        let daemon = (server == Server::Xokd)
            .then(|| Daemon::start(room, namespace(), &policy(room.uid)))
            .transpose()?;
        let mut command = match &daemon {
            Some(_) => Command::new(room.program()),
            None => lab.command(Side::A, server.program(room.program())?)?,
        };
        if server.is_ours() {
            command.args(["serve", &documents, "--port", &PORT.to_string()]);
            self.choose(&mut command);
        }
        match (server, &daemon) {
            (_, Some(daemon)) => lent(room, daemon, &mut command),
            (Server::Exos | Server::Handlers, _) => {
                command.args(["--via", "none", "--link", &format!("xdp:{INTERFACE}")]);
                command.args(["--address", &format!("{EXOS}/24")]);
            }
            (Server::Sockets, _) => {
                command.args(["--sockets", "--address", &format!("{KERNEL}/24")]);
            }
            _ => server.configure(room, &documents, &mut command)?,
        }
        let cores = &room.cores[..room.cores.len().min(self.cores as usize)];
        Ok(Serving {
            started: room.start_on(&server.to_string(), command, cores)?,
            _daemon: daemon,
        })
    }

    /// Options of ours that say how it does what it does. Statistics are told at its end.
    fn choose(self, command: &mut Command) {
        command.args(self.without.iter().flat_map(|one| ["--without", one]));
        command.args((self.server == Server::Handlers).then_some("--syn-handler"));
        if self.cores > 1 {
            command.args(["--cores", &self.cores.to_string()]);
        }
        command.arg("--json");
    }
}

/// A program of an ordinary user, with what the daemon lends.
fn lent(room: &Room, daemon: &Daemon<'_>, command: &mut Command) {
    command.args(["--via", "xokd", "--mode", "shared"]);
    command.args(["--xokd", &daemon.socket()]).current_dir("/");
    command.uid(room.uid).gid(room.uid);
}

/// The user whose program is measured may claim everything.
fn policy(uid: u32) -> String {
    format!(
        "[[interface]]\nname = \"{INTERFACE}\"\naddresses = [\"{EXOS}/24\"]\n\n\
         [[allow]]\nuser = \"{uid}\"\nports = [\"1-65535\"]\nmemory_max = \"1GiB\"\n"
    )
}

/// Servers that can be measured, with what each calls itself.
pub(crate) type Known = Vec<(Server, String)>;

/// What is to be measured of what was asked for, and why the others are left out.
pub(crate) fn available(servers: &[Server], exos: &Path) -> Result<(Known, Vec<String>)> {
    let (mut there, mut left_out) = (Vec::new(), Vec::new());
    for &server in servers {
        if server == Server::Sockets && !said_by(exos, &["serve", "--help"])?.contains("--sockets")
        {
            left_out.push(format!("{server}: this exos has no `serve --sockets`"));
            continue;
        }
        match server.version(exos) {
            Ok(version) => there.push((server, version)),
            Err(error) => left_out.push(error.to_string()),
        }
    }
    Ok((there, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_has_all_its_places() {
        let common = ["@DOCUMENTS@", "@PREFIX@"];
        for (text, own) in [
            (NGINX_CONF, &["@ADDRESS@"][..]),
            (H2O_CONF, &["@HOST@", "@PORT@"]),
            (LIGHTTPD_CONF, &["@HOST@", "@PORT@"]),
        ] {
            for mark in common.iter().chain(own) {
                let used = |line: &str| !line.starts_with('#') && line.contains(mark);
                assert!(text.lines().any(used), "{mark}");
            }
        }
    }

    #[test]
    fn what_this_exos_cannot_do_is_left_out_with_a_reason() {
        let (there, left_out) =
            available(&[Server::Exos, Server::Sockets], Path::new("/bin/echo")).expect("it runs");
        let there: Vec<Server> = there.into_iter().map(|(server, _)| server).collect();
        assert_eq!(there, [Server::Exos]);
        assert!(left_out[0].contains("--sockets"), "{left_out:?}");
    }
}
