//! The servers: where each answers, and how it is started.

use super::application::{self, Behind, Reached};
use super::stage::WebStage;
use super::tls::Files;
use crate::stage::daemon::Daemon;
use crate::stage::process::{self, Available, find_program, output_of, version};
use crate::stage::scratch::{fill, write};
use crate::stage::session::Started;
use exos_host::{Error, Result};
use exos_lab::{INTERFACE, Lab, Side};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
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
    /// exos serve with short documents answered in the kernel; only for the client packets, as exos-handlers is
    Kernel,
    /// exos serve without privilege, on a virtual interface from the daemon.
    Xokd,
    /// exos serve on kernel sockets.
    Sockets,
    /// nginx, unmodified, by exos run, which shares its sockets.
    Run,
    /// nginx, unmodified, by exos run, which intercepts its calls.
    RunIntercept,
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
            Server::Kernel => "exos-kernel",
            Server::Xokd => "exos-xokd",
            Server::Sockets => "exos-sockets",
            Server::Run => "exos-run",
            Server::RunIntercept => "exos-run-intercept",
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

pub(crate) const NGINX_CONF: &str = include_str!("../../../nginx/nginx.conf");
const NGINX_FASTCGI_CONF: &str = include_str!("../../../nginx/fastcgi.conf");
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
    /// Ours and nginx: what answers in its place.
    pub behind: Option<Behind>,
    /// It serves HTTPS, too.
    pub tls: bool,
    /// It speaks HTTP/2, too.
    pub http2: bool,
}

impl From<Server> for Setup {
    fn from(server: Server) -> Self {
        Self {
            server,
            without: &[],
            cores: 1,
            behind: None,
            tls: false,
            http2: false,
        }
    }
}

/// A server that runs, with the daemon that lends it its link.
pub(crate) struct Serving<'s> {
    pub server: Server,
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
    /// A web server of ours.
    pub fn is_ours(self) -> bool {
        self.has_stack() || self == Self::Sockets
    }

    /// A web server on our stack.
    fn has_stack(self) -> bool {
        matches!(
            self,
            Self::Exos | Self::Handlers | Self::Kernel | Self::Xokd
        )
    }

    /// Whether clients on sockets can load it: what a handler answers arrives only where a program of XDP receives.
    pub(crate) fn is_for_sockets(self) -> bool {
        !matches!(self, Self::Handlers | Self::Kernel)
    }

    /// Whether it looks for packets while it waits, and says for how long it had something to do.
    pub(crate) fn polls(self) -> bool {
        self.is_ours() && self != Self::Kernel
    }

    /// Another's program on our stack.
    fn is_run(self) -> bool {
        matches!(self, Self::Run | Self::RunIntercept)
    }

    /// Where it answers.
    pub(crate) fn address(self) -> SocketAddrV4 {
        let has_stack = self.has_stack() || self.is_run();
        SocketAddrV4::new(if has_stack { EXOS } else { KERNEL }, PORT)
    }

    /// Its program; an error that says how to install it when it is not there.
    fn program(self, exos: &Path) -> Result<PathBuf> {
        match self {
            Server::Nginx | Server::Run | Server::RunIntercept => find_program("nginx", "nginx"),
            Server::H2o => find_program("h2o", "h2o"),
            Server::Lighttpd => find_program("lighttpd", "lighttpd"),
            _ => Ok(exos.to_owned()),
        }
    }

    /// What the program calls itself, for the report.
    pub(super) fn version(self, exos: &Path) -> Result<String> {
        if self == Self::Sockets && !output_of(exos, &["serve", "--help"])?.contains("--sockets") {
            return Err(Error::new(format!(
                "{self}: this exos has no `serve --sockets`"
            )));
        }
        let option = if self.is_ours() { "--version" } else { "-v" };
        let of_program = version(&self.program(exos)?, option)?;
        match self.is_run() {
            true => Ok(format!("{of_program} by {}", version(exos, "--version")?)),
            false => Ok(of_program),
        }
    }
}

impl Setup {
    /// Starts it in namespace a on its core, or cores; one that needs a daemon with a daemon of its own.
    pub(super) fn start<'s>(self, stage: &'s WebStage, lab: &Lab) -> Result<Serving<'s>> {
        let uid = stage.args.uid;
        let namespace = || Side::A.namespace(&stage.args.lab);
        let daemon = (self.server == Server::Xokd)
            .then(|| Daemon::start(stage, namespace(), &policy(uid)))
            .transpose()?;
        let lent = daemon.as_ref().map(|daemon| Lent {
            daemon,
            mode: "shared",
            uid,
        });
        Ok(Serving {
            server: self.server,
            started: self.launch(stage, lab, lent)?,
            _daemon: daemon,
        })
    }

    fn launch(self, stage: &WebStage, lab: &Lab, lent: Option<Lent<'_>>) -> Result<Started> {
        let server = self.server;
        let mut command = match lent {
            Some(lent) => lent.command(lab, &stage.program)?,
            None if server.is_run() => lab.command(Side::A, &stage.program)?,
            None => lab.command(Side::A, server.program(&stage.program)?)?,
        };
        if server.is_ours() {
            self.tell_ours(stage, &mut command)?;
        }
        match (server, lent) {
            (_, Some(lent)) => lent.give(&mut command),
            (Server::Exos | Server::Handlers | Server::Kernel, _) => on_interface(&mut command),
            (Server::Run | Server::RunIntercept, _) => {
                command.arg("run");
                on_interface(&mut command);
                command.args((server == Server::RunIntercept).then_some("--intercept"));
                command.arg("--").arg(server.program(&stage.program)?);
                self.configure(stage, &mut command)?;
            }
            (Server::Sockets, _) => {
                command.args(["--sockets", "--address", &format!("{KERNEL}/24")]);
            }
            _ => self.configure(stage, &mut command)?,
        }
        let cores = &stage.cores[..stage.cores.len().min(self.cores as usize)];
        stage.start_on(&server.to_string(), command, cores)
    }

    /// Where the documents are, or what an application makes of them.
    fn documents(self, stage: &WebStage) -> Result<String> {
        match self.behind {
            Some(behind) => behind.application.documents(stage),
            None => Ok(stage
                .scratch
                .directory("documents")?
                .to_string_lossy()
                .into_owned()),
        }
    }

    /// Tells a server of ours what it serves.
    fn tell_ours(self, stage: &WebStage, command: &mut Command) -> Result<()> {
        command.arg("serve");
        let documents = self.documents(stage)?;
        match self.behind {
            Some(behind) => {
                let most = stage.connections;
                let keep = if behind.reached == Reached::Kept {
                    most
                } else {
                    0
                };
                // One client may have a quarter; the most that may be configured.
                let connections = (4 * most).min(4096);
                let socket = application::socket(stage);
                let shared = application::shared_socket(stage);
                let text = match behind.reached.is_shared() {
                    true => format!(
                        "[[site]]\nroot = {documents:?}\n[[site.application]]\nextension = \".html\"\nto = {shared:?}\n\
                         requests = {connections}\n"
                    ),
                    false => format!(
                        "[[site]]\nroot = {documents:?}\n[[site.fastcgi]]\nextension = \".html\"\nto = {socket:?}\n\
                     connections = {connections}\nkeep = {keep}\n"
                    ),
                };
                let file = stage.scratch.write("serve.toml", text)?;
                command.arg("--config").arg(file);
            }
            None => {
                command.args([&documents, "--port", &PORT.to_string()]);
            }
        }
        if self.tls {
            Files::of(stage)?.tell_ours(command);
        }
        command.arg("--json");
        command.args(self.without.iter().flat_map(|one| ["--without", one]));
        command.args((self.server == Server::Handlers).then_some("--syn-handler"));
        command.args((self.server == Server::Kernel).then_some("--in-kernel"));
        if self.cores > 1 {
            command.args(["--cores", &self.cores.to_string()]);
        }
        Ok(())
    }

    /// Writes the configuration of a peer, and says where it is.
    fn configure(self, stage: &WebStage, command: &mut Command) -> Result<()> {
        let server = self.server;
        let prefix = stage.scratch.directory(&server.to_string())?;
        let file = prefix.join("configuration");
        let text = match (server, self.behind) {
            (Server::Nginx | Server::Run | Server::RunIntercept, None) => NGINX_CONF,
            (Server::Nginx | Server::Run | Server::RunIntercept, Some(_)) => NGINX_FASTCGI_CONF,
            (Server::H2o, _) => H2O_CONF,
            _ => LIGHTTPD_CONF,
        };
        // As nginx's documentation of `keepalive` has it for FastCGI.
        let (keepalive, keep_conn) = match self.behind {
            Some(Behind {
                reached: Reached::Kept,
                ..
            }) => {
                let most = stage.connections;
                (
                    format!("keepalive {most}; keepalive_requests 1000000000;"),
                    "on",
                )
            }
            _ => (String::new(), "off"),
        };
        let tls = match self.tls {
            true if server == Server::H2o => Files::of(stage)?.of_h2o(server.tls_address()),
            true => Files::of(stage)?.of_nginx(server, self.http2),
            false => String::new(),
        };
        let values = [
            ("@ADDRESS@", server.address().to_string()),
            ("@HOST@", KERNEL.to_string()),
            ("@PORT@", PORT.to_string()),
            ("@DOCUMENTS@", self.documents(stage)?),
            ("@PREFIX@", prefix.to_string_lossy().into_owned()),
            (
                "@SOCKET@",
                application::socket(stage).to_string_lossy().into_owned(),
            ),
            ("@KEEPALIVE@", keepalive),
            ("@KEEP_CONN@", keep_conn.to_owned()),
            ("@TLS@", tls),
            (
                "@UPGRADE@",
                if self.http2 { "ON" } else { "OFF" }.to_owned(),
            ),
        ];
        write(&file, fill(text, &values))?;
        match server {
            Server::Nginx | Server::Run | Server::RunIntercept => {
                command.arg("-p").arg(&prefix).arg("-c")
            }
            Server::H2o => command.args(["-m", "worker", "-c"]),
            _ => command.args(["-D", "-f"]),
        };
        command.arg(file);
        Ok(())
    }
}

/// Gives a program of ours the interface itself.
fn on_interface(command: &mut Command) {
    command.args(["--via", "none", "--link", &format!("xdp:{INTERFACE}")]);
    command.args(["--address", &format!("{EXOS}/24")]);
}

/// A part of the interface that a daemon lends to a user: a virtual interface (`shared`) or the device's queue (`direct`).
#[derive(Clone, Copy)]
pub(crate) struct Lent<'d> {
    pub daemon: &'d Daemon<'d>,
    pub mode: &'static str,
    pub uid: u32,
}

impl Lent<'_> {
    /// Starts a server on it.
    pub fn serve<'s>(self, stage: &WebStage, lab: &Lab) -> Result<Serving<'s>> {
        let server = Server::Xokd;
        Ok(Serving {
            server,
            started: Setup::from(server).launch(stage, lab, Some(self))?,
            _daemon: None,
        })
    }

    /// A command that starts a program as that user in the daemon's namespace: frames in batches, which the daemon's program
    /// sends there, would go by the ring elsewhere.
    fn command(self, lab: &Lab, program: &Path) -> Result<Command> {
        let mut command = lab.command(Side::A, "setpriv")?;
        let uid = self.uid.to_string();
        command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]);
        // Who becomes another user is not told of its parent's end any more.
        command.args(["--pdeathsig", "TERM"]).arg(program);
        command.current_dir("/");
        Ok(command)
    }

    /// Has it use that part.
    fn give(self, command: &mut Command) {
        command.args(["--via", "xokd", "--mode", self.mode, "--xokd"]);
        command.arg(self.daemon.socket());
    }
}

/// The user whose program is measured may claim everything.
fn policy(uid: u32) -> String {
    format!(
        "[[interface]]\nname = \"{INTERFACE}\"\naddresses = [\"{EXOS}/24\"]\n\n\
         [[allow]]\nuser = \"{uid}\"\nports = [\"1-65535\"]\nmemory_max = \"1GiB\"\n"
    )
}

/// What is to be measured of what was asked for, with what each calls itself, and why the others are left out.
pub(crate) fn available(servers: &[Server], exos: &Path) -> Result<Available<Server>> {
    process::available(servers, |server| server.version(exos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_has_all_its_places() {
        let common = ["@DOCUMENTS@", "@PREFIX@"];
        for (text, own) in [
            (NGINX_CONF, &["@ADDRESS@", "@TLS@"][..]),
            (
                NGINX_FASTCGI_CONF,
                &["@ADDRESS@", "@SOCKET@", "@KEEPALIVE@", "@KEEP_CONN@"],
            ),
            (H2O_CONF, &["@HOST@", "@PORT@", "@TLS@", "@UPGRADE@"]),
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
        let (there, left_out) = available(&[Server::Exos, Server::Sockets], Path::new("/bin/echo"))
            .expect("it says something");
        let there: Vec<Server> = there.into_iter().map(|(server, _)| server).collect();
        assert_eq!(there, [Server::Exos]);
        assert!(left_out[0].contains("--sockets"), "{left_out:?}");
    }
}
