//! How a server is set up: what it is told, by options or by its configuration, and the daemon that lends it its link.

use super::application::{self, Behind, Reached};
use super::server::{EXOS, KERNEL, PORT, Server};
use super::stage::WebStage;
use super::tls::Files;
use super::upstream::{HAPROXY_CFG, NGINX_PROXY_CONF, UPSTREAM, of_haproxy, tls_of_haproxy};
use crate::stage::bound::Bound;
use crate::stage::daemon::Daemon;
use crate::stage::scratch::{fill, write};
use crate::stage::session::Started;
use exos_host::{Error, Result};
use exos_lab::{INTERFACE, Lab, Side};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const NGINX_CONF: &str = include_str!("../../../nginx/nginx.conf");
const NGINX_FASTCGI_CONF: &str = include_str!("../../../nginx/fastcgi.conf");
const H2O_CONF: &str = include_str!("../../../h2o/h2o.conf");
const CADDY_CONF: &str = include_str!("../../../caddy/Caddyfile");
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
    /// It passes all requests on to an upstream.
    pub proxies: bool,
    /// It serves HTTPS, too.
    pub tls: bool,
    /// It speaks HTTP/2, too.
    pub http2: bool,
    /// It speaks HTTP/3, too.
    pub http3: bool,
    /// The folder of the session's files with what it serves.
    pub folder: &'static str,
    /// It may use this many bytes of memory.
    pub memory: Option<u64>,
}

/// The folder of those documents that all servers have.
pub(crate) const DOCUMENTS: &str = "documents";

impl From<Server> for Setup {
    fn from(server: Server) -> Self {
        Self {
            server,
            without: &[],
            cores: 1,
            behind: None,
            proxies: false,
            tls: false,
            http2: false,
            http3: false,
            folder: DOCUMENTS,
            memory: None,
        }
    }
}

/// A server that runs, with the daemon that lends it its link.
pub(crate) struct Serving<'s> {
    pub server: Server,
    pub started: Started,
    /// Dropped after it.
    _daemon: Option<Daemon<'s>>,
    /// What holds its memory within bounds; dropped after it.
    pub bound: Option<Bound>,
}

impl Serving<'_> {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.started.running.pid()
    }

    /// An error where the bound on its memory has killed a process of it.
    pub fn check_bound(&self) -> Result<()> {
        let bound = self.bound.as_ref();
        bound.map_or(Ok(()), |bound| bound.check(self.server))
    }
}

impl Setup {
    /// Starts it in namespace a on its core, or cores; one that needs a daemon with a daemon of its own.
    pub(super) fn start<'s>(self, stage: &'s WebStage, lab: &Lab) -> Result<Serving<'s>> {
        self.check()?;
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
        let bound = self.memory.map(Bound::new).transpose()?;
        Ok(Serving {
            server: self.server,
            started: self.launch(stage, lab, lent, bound.as_ref())?,
            _daemon: daemon,
            bound,
        })
    }

    /// What a daemon lends is started by a command that goes into no control group.
    fn check(self) -> Result<()> {
        match self.memory {
            Some(_) if self.server == Server::Xokd => Err(Error::new(
                "the memory of a server that a daemon lends its link cannot be bounded",
            )),
            _ => Ok(()),
        }
    }

    fn launch(
        self,
        stage: &WebStage,
        lab: &Lab,
        lent: Option<Lent<'_>>,
        bound: Option<&Bound>,
    ) -> Result<Started> {
        let server = self.server;
        let program = match server.is_run() {
            true => stage.program.clone(),
            false => server.program(&stage.program)?,
        };
        let mut command = match (lent, bound) {
            (Some(lent), _) => lent.command(lab, &program)?,
            (None, Some(bound)) => bound.command(lab, Side::A, &program)?,
            (None, None) => lab.command(Side::A, program)?,
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
                .directory(self.folder)?
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
            None if self.proxies => {
                command.arg("--config").arg(self.passing_on(stage)?);
            }
            None => {
                command.args([&documents, "--port", &PORT.to_string()]);
            }
        }
        if self.tls && !self.proxies {
            Files::of(stage)?.tell_ours(command);
        }
        command.args(self.http3.then_some("--http3"));
        if let Some(bytes) = self.memory {
            // As by itself, but also where a container hides its control group from it.
            command.args(["--cache", &(bytes / 2).to_string()]);
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

    /// A configuration of a server of ours that passes all on: as many connections as its client has, of which one client may have a quarter.
    fn passing_on(self, stage: &WebStage) -> Result<PathBuf> {
        let certificate = match self.tls {
            true => Files::of(stage)?.of_ours(),
            false => String::new(),
        };
        let (most, connections) = (stage.connections, (4 * stage.connections).min(4096));
        let text = format!(
            "[[site]]\n{certificate}[[site.proxy]]\npath = \"/\"\nto = \"http://{UPSTREAM}\"\n\
             connections = {connections}\nkeep = {most}\n"
        );
        stage.scratch.write("serve.toml", text)
    }

    /// Writes the configuration of a peer, and says where it is.
    fn configure(self, stage: &WebStage, command: &mut Command) -> Result<()> {
        let server = self.server;
        let prefix = stage.scratch.directory(&server.to_string())?;
        let file = prefix.join("configuration");
        let text = match (server, self.behind) {
            (Server::Haproxy, _) => HAPROXY_CFG,
            (Server::Nginx, None) if self.proxies => NGINX_PROXY_CONF,
            (Server::Nginx | Server::Run | Server::RunIntercept, None) => NGINX_CONF,
            (Server::Nginx | Server::Run | Server::RunIntercept, Some(_)) => NGINX_FASTCGI_CONF,
            (Server::H2o, _) => H2O_CONF,
            (Server::Caddy, _) => CADDY_CONF,
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
            true if server == Server::H2o => {
                Files::of(stage)?.of_h2o(server.tls_address(), self.http3)
            }
            true if server == Server::Caddy => {
                let documents = self.documents(stage)?;
                Files::of(stage)?.of_caddy(server.tls_address(), &documents)
            }
            true if server == Server::Haproxy => {
                tls_of_haproxy(stage, server.tls_address(), self.http2)?
            }
            true => Files::of(stage)?.of_nginx(server, self.http2),
            false => String::new(),
        };
        let (documents, upstream) = match (server, self.proxies) {
            (Server::Haproxy, false) => (of_haproxy(stage)?, String::new()),
            (Server::Haproxy, true) => {
                let behind =
                    format!("default_backend behind\n\nbackend behind\n    server one {UPSTREAM}");
                (String::new(), behind)
            }
            _ => (self.documents(stage)?, UPSTREAM.to_string()),
        };
        let values = [
            ("@ADDRESS@", server.address().to_string()),
            ("@HOST@", KERNEL.to_string()),
            ("@PORT@", PORT.to_string()),
            ("@DOCUMENTS@", documents),
            ("@UPSTREAM@", upstream),
            ("@CONNECTIONS@", stage.connections.to_string()),
            ("@PREFIX@", prefix.to_string_lossy().into_owned()),
            (
                "@SOCKET@",
                application::socket(stage).to_string_lossy().into_owned(),
            ),
            ("@KEEPALIVE@", keepalive),
            ("@KEEP_CONN@", keep_conn.to_owned()),
            ("@TLS@", tls),
            // What all servers have is in memory.
            (
                "@AIO@",
                if self.folder == DOCUMENTS {
                    "off"
                } else {
                    "threads"
                }
                .to_owned(),
            ),
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
            Server::Haproxy => command.args(["-db", "-f"]),
            Server::Caddy => {
                // It keeps the last configuration there.
                command.env("XDG_CONFIG_HOME", &prefix);
                command.args(["run", "--adapter", "caddyfile", "--config"])
            }
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
            started: Setup::from(server).launch(stage, lab, Some(self), None)?,
            _daemon: None,
            bound: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_does_not_bound_memory() {
        let bounded = |server: Server| Setup {
            memory: Some(64 << 20),
            ..server.into()
        };
        assert!(bounded(Server::Xokd).check().is_err());
        assert!(bounded(Server::Nginx).check().is_ok());
        assert!(Setup::from(Server::Xokd).check().is_ok());
    }

    #[test]
    fn every_configuration_has_all_its_places() {
        let common = ["@DOCUMENTS@", "@PREFIX@"];
        for (text, own) in [
            (NGINX_CONF, &["@ADDRESS@", "@TLS@", "@AIO@"][..]),
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
}
