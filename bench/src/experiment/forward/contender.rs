//! Who forwards: where each is reached, and how it is started.

use super::cell::Cell;
use super::forwarding::Forwarding;
use super::network::{FORWARDER, Host, Network, OURS, SERVER};
use crate::stage::args::shown_as_on_the_command_line;
use crate::stage::daemon::Daemon;
use crate::stage::process::{find_program, version};
use crate::stage::scratch;
use crate::stage::{Stage, Started};
use exos_host::{Error, Result, error::Context as _};
use exos_lab::INTERFACE;
use std::io::Write as _;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Who forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Contender {
    /// No forwarder: the client connects to the server.
    Nobody,
    /// exos forward, packet by packet in user space.
    Exos,
    /// exos forward --cores 2, compared with one core.
    ExosCores,
    /// exos forward --in-kernel: established connections in the kernel.
    ExosKernel,
    /// exos forward --link packet: by packet sockets, large packets whole.
    ExosPacket,
    /// exos forward --link packet: --in-kernel: large packets whole, in the kernel.
    ExosPacketKernel,
    /// exos forward --via xokd: on a virtual interface from the daemon.
    ExosXokd,
    /// exos forward --splice: joined kernel sockets.
    ExosSplice,
    /// HAProxy in TCP mode.
    Haproxy,
    /// nginx with its stream module.
    Nginx,
    /// Linux's own NAT, by nftables.
    Nftables,
}

const HAPROXY_CFG: &str = include_str!("../../../haproxy/haproxy.cfg");
const NGINX_CONF: &str = include_str!("../../../nginx/stream.conf");
const NFTABLES: &str = include_str!("../../../nftables/forward.nft");

/// Where distributions put nginx's module.
const NGINX_MODULES: [&str; 3] = [
    "/usr/lib/nginx/modules/ngx_stream_module.so",
    "/usr/lib64/nginx/modules/ngx_stream_module.so",
    "/usr/share/nginx/modules/ngx_stream_module.so",
];

/// Connections that are over are forgotten at once: the kernel's table would be full of them after some seconds.
const FORGET: [&str; 4] = ["time_wait", "close", "last_ack", "fin_wait"];

shown_as_on_the_command_line!(Contender);

impl Contender {
    /// exos forward, packet by packet.
    const fn is_packets(self) -> bool {
        match self {
            Self::Exos | Self::ExosCores | Self::ExosKernel | Self::ExosXokd => true,
            Self::ExosPacket | Self::ExosPacketKernel => true,
            Self::Nobody | Self::ExosSplice => false,
            Self::Haproxy | Self::Nginx | Self::Nftables => false,
        }
    }

    /// How many cores it has.
    pub(super) const fn cores(self) -> usize {
        match self {
            Self::ExosCores => 2,
            _ => 1,
        }
    }

    /// Whether it is measured in a cell.
    pub(super) const fn is_in(self, cell: &Cell) -> bool {
        match self {
            Self::Exos => true,
            Self::ExosCores => cell.is_of_cores,
            _ => !cell.is_of_cores,
        }
    }

    /// Where the client asks.
    pub(super) fn address(self) -> SocketAddrV4 {
        let ip = match self {
            Self::Nobody => return SERVER,
            _ if self.is_packets() => OURS,
            _ => FORWARDER,
        };
        SocketAddrV4::new(ip, SERVER.port())
    }

    /// Whose link address that has.
    pub(super) fn host(self) -> Host {
        match self {
            Self::Nobody => Host::Server,
            _ => Host::Forwarder,
        }
    }

    pub(super) fn program(self, exos: &Path) -> Result<PathBuf> {
        match self {
            Self::Haproxy => find_program("haproxy", "haproxy"),
            Self::Nginx => find_program("nginx", "nginx"),
            Self::Nftables => find_program("nft", "nftables"),
            _ => Ok(exos.to_owned()),
        }
    }

    /// What the program calls itself, or why it is not there.
    pub(super) fn version(self, exos: &Path) -> Result<String> {
        let option = match self {
            Self::Nobody => return Ok("the client speaks to the server".to_owned()),
            Self::Haproxy | Self::Nginx => "-v",
            _ => "--version",
        };
        if self == Self::Nginx {
            nginx_module()?;
        }
        version(&self.program(exos)?, option)
    }

    /// Starts it on its host and its cores, and waits until it listens.
    pub(super) fn start<'n>(
        self,
        stage: &'n Stage,
        network: &'n Network,
        cell: Cell,
    ) -> Result<Forwarding<'n>> {
        let mut forwarding = Forwarding::new(network, stage.cores[0]);
        if self == Self::Nobody {
            return Ok(forwarding);
        }
        let mut command = network.command(Host::Forwarder, self.program(&stage.program)?)?;
        if self == Self::Nftables {
            forwarding.has_rules = true;
            load_rules(command, network)?;
            return Ok(forwarding);
        }
        if self == Self::ExosKernel {
            forwarding.receiving = Some(network.receive_from_forwarder()?);
        }
        if self == Self::ExosXokd {
            forwarding.daemon = Some(self.start_daemon(stage, network)?);
        }
        self.configure(stage, forwarding.daemon.as_ref(), &mut command)?;
        if self.is_packets() {
            // On a core of its own it would take that for the only one that there is, and sleep.
            let idle = if cell.is_of_cores { "sleep" } else { "poll" };
            command.args(["--idle", idle]);
            let control = stage.scratch.file("control");
            command.arg("--control").arg(&control);
            forwarding.control = Some(control);
        }
        let cores = &stage.cores[..self.cores()];
        let mut started = stage.start_on(&self.to_string(), command, cores)?;
        self.await_start(stage, network, &mut started)?;
        forwarding.started = Some(started);
        Ok(forwarding)
    }

    /// Until it listens.
    fn await_start(self, stage: &Stage, network: &Network, started: &mut Started) -> Result<()> {
        let listens = || network.listens(Host::Forwarder, SERVER.port());
        match self {
            Self::Haproxy | Self::Nginx => stage.await_true(started, listens),
            _ => stage.await_address(started),
        }
    }

    /// The daemon on the forwarder's host, which lends to its own user. It does nothing while packets go by; where it does, it
    /// is on the forwarder's core.
    fn start_daemon<'n>(self, stage: &'n Stage, network: &Network) -> Result<Daemon<'n>> {
        let policy = format!(
            "[[interface]]\nname = \"{INTERFACE}\"\naddresses = [\"{OURS}/24\"]\n\
             [[allow]]\nuser = \"root\"\nports = [\"1-65535\"]\n"
        );
        let namespace = network.name(Host::Forwarder).to_owned();
        Daemon::start_on(stage, namespace, &policy, &stage.cores[..1])
    }

    /// One of ours: where its packets come from, and whether the kernel sends them on.
    fn configure_link(self, daemon: Option<&Daemon<'_>>, command: &mut Command) {
        let is_packet_socket = matches!(self, Self::ExosPacket | Self::ExosPacketKernel);
        let kind = if is_packet_socket { "packet" } else { "xdp" };
        match daemon {
            Some(daemon) => command.args(["--via", "xokd", "--xokd", &daemon.socket()]),
            None => command
                .args(["--via", "none", "--link", &format!("{kind}:{INTERFACE}")])
                .args(["--address", &format!("{OURS}/24")]),
        };
        let in_kernel = matches!(self, Self::ExosKernel | Self::ExosPacketKernel);
        command.args(in_kernel.then_some("--in-kernel"));
    }

    fn configure(
        self,
        stage: &Stage,
        daemon: Option<&Daemon<'_>>,
        command: &mut Command,
    ) -> Result<()> {
        let (at, server) = (self.address().to_string(), SERVER.to_string());
        match self {
            _ if self.is_packets() => {
                command.args(["forward", "--cores", &self.cores().to_string()]);
                command.args(["--listen", &at, "--to", &server]);
                self.configure_link(daemon, command);
            }
            Self::ExosSplice => {
                command.args(["forward", "--splice", "--listen", &at, "--to", &server]);
            }
            Self::Haproxy => {
                command.arg("-db").arg("-f");
                command.arg(stage.scratch.write("haproxy.cfg", fill(HAPROXY_CFG, &[]))?);
            }
            _ => {
                let prefix = stage.scratch.directory("stream")?;
                let own = [
                    ("@MODULE@", nginx_module()?.to_owned()),
                    ("@PREFIX@", prefix.to_string_lossy().into_owned()),
                ];
                let file = stage.scratch.write("stream.conf", fill(NGINX_CONF, &own))?;
                command.arg("-p").arg(&prefix).arg("-c").arg(file);
            }
        }
        Ok(())
    }
}

/// Has rules loaded, and the kernel forget connections soon.
fn load_rules(mut command: Command, network: &Network) -> Result<()> {
    let what = || "cannot load the rules of nftables";
    command.args(["-f", "-"]).stdin(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().context(what)?;
    let mut input = child.stdin.take().expect("it is piped");
    input
        .write_all(fill(NFTABLES, &[]).as_bytes())
        .context(what)?;
    drop(input);
    let output = child.wait_with_output().context(what)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::new(format!("{}: {}", what(), said.trim())).mend(
            "leave nftables out of --contenders, or use a kernel with nf_tables and nf_nat",
        ));
    }
    for state in FORGET {
        let setting = format!("net/netfilter/nf_conntrack_tcp_timeout_{state}");
        network.netns(Host::Forwarder).set_sysctl(&setting, "1")?;
    }
    Ok(())
}

fn nginx_module() -> Result<&'static str> {
    let found = NGINX_MODULES.iter().find(|path| Path::new(path).exists());
    found.copied().ok_or_else(|| {
        Error::new("nginx has no stream module").mend("install it: apt install libnginx-mod-stream")
    })
}

/// A configuration with its places filled in.
fn fill(text: &str, own: &[(&str, String)]) -> String {
    let listen = SocketAddrV4::new(FORWARDER, SERVER.port());
    let common = [
        ("@LISTEN@", listen.to_string()),
        ("@ADDRESS@", FORWARDER.to_string()),
        ("@PORT@", SERVER.port().to_string()),
        ("@SERVER@", SERVER.to_string()),
        ("@SERVER_HOST@", SERVER.ip().to_string()),
    ];
    let uncommented = text.lines().filter(|line| !line.starts_with('#'));
    let text = uncommented.fold(String::new(), |text, line| text + line + "\n");
    scratch::fill(&scratch::fill(&text, &common), own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_filled_in() {
        let own = [("@MODULE@", "/m".to_owned()), ("@PREFIX@", "/p".to_owned())];
        for (text, wanted) in [
            (HAPROXY_CFG, "bind 10.10.0.3:80"),
            (HAPROXY_CFG, "server one 10.10.0.11:80"),
            (NGINX_CONF, "listen 10.10.0.3:80"),
            (NGINX_CONF, "load_module /m;"),
            (
                NFTABLES,
                "ip daddr 10.10.0.3 tcp dport 80 dnat to 10.10.0.11:80",
            ),
            (NFTABLES, "ip daddr 10.10.0.11 masquerade"),
        ] {
            let filled = fill(text, &own);
            assert!(filled.contains(wanted) && !filled.contains('@'), "{filled}");
        }
    }
}
