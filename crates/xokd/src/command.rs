//! `exos daemon`: what a person starts.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use exos_host::Error;
use exos_host::accounts;
use exos_host::caps;
use exos_host::error::Result;
use exos_host::ethtool::STOP_MERGING;
use exos_host::netns::NetNs;
use exos_host::{info, say, warn};
use exos_wire::Prefix;

mod clean;
mod confinement;
mod replace;
mod signals;

use crate::daemon::{Config, Daemon};
use crate::gate::{self, LiveFrames};
use crate::interface::reservations::check_echoes;
use crate::policy::{self, Policy};
use signals::Signals;

/// Share a network interface among programs that run without privilege (xokd).
///
/// Programs connect to the daemon's socket and ask for addresses and ports; the kernel checks what they send. Runs in
/// the foreground until SIGINT or SIGTERM. SIGHUP reloads the policy, but changes to its interfaces need a restart
/// (--replace).
#[derive(Args, Debug)]
pub struct DaemonArgs {
    /// Policy file: who may use what [default: /etc/exos/xokd.toml if it exists]
    #[arg(long, value_name = "FILE", conflicts_with = "interface")]
    policy: Option<PathBuf>,

    /// Share this interface, without a policy file
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,

    /// Address for programs to use, which no other host on the network may have (repeatable)
    #[arg(long, value_name = "ADDRESS/PREFIX", requires = "interface")]
    address: Vec<Prefix>,

    /// Default gateway (repeatable, one for IPv4 and one for IPv6)
    #[arg(long, value_name = "ADDRESS", requires = "interface")]
    gateway: Vec<IpAddr>,

    /// Let programs use the interface's own addresses, together with the host
    #[arg(long, requires = "interface")]
    share_address: bool,

    /// Bandwidth of the interface, to divide it fairly, such as 1gbit or 100mbit
    #[arg(long, value_name = "RATE", requires = "interface", value_parser = rate)]
    rate: Option<u64>,

    /// User who may attach, besides root [default: the user who called sudo]
    #[arg(long, value_name = "USER", requires = "interface", value_parser = user)]
    user: Option<u32>,

    /// Socket to listen at
    #[arg(
        long,
        value_name = "PATH",
        env = "EXOS_XOKD",
        default_value = "/run/exos/xokd.sock"
    )]
    socket: PathBuf,

    /// Who may send many frames by one cheaper system call (live frames), checked like all others
    #[arg(long, value_enum, default_value = "guarded")]
    live_frames: LiveFrames,

    /// Take over from the running daemon; programs keep their links
    #[arg(long)]
    replace: bool,

    /// Remove everything that earlier daemons left in this network namespace, and exit
    #[arg(long, conflicts_with_all = ["policy", "interface", "replace"])]
    clean: bool,

    /// Network namespace of the interface [default: this one]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
}

/// What is wrong with a daemon in a mount namespace with a /sys of its own.
const PRIVATE: &str = "warning: /sys/fs/bpf is of this mount namespace alone, as `ip netns exec` makes it: when the daemon ends its programs lose their links. Start it outside, with --namespace NAME";

/// What is wrong with a gate that a daemon which is gone has left, on an interface that this one does not serve.
const UNSERVED: &str = "(namespace, interface) has programs of an earlier daemon, and no daemon now: they go on as it allowed. Serve that interface, too, or run exos daemon --clean with a --socket that no daemon has";

/// How what a daemon does not do when it reads its policy again is done.
const RESTART: &str = "start another daemon with --replace, programs keep their links";

/// What is wrong with a card on which no program sees what the peer's kernel has not cut.
const MERGES: &str = "merges packets, and cannot be told to stop: what is longer than its MTU is lost, uploads to programs crawl";

/// Programs' super-packets come with checksums unfinished, which nobody could check.
const SINGLE_SEGMENTS: &str = "programs send segments one by one, which takes more of the processor: this kernel does not say where in a packet it is still to write a checksum (Linux 6.2 and later do)";

const POLICY: &str = "/etc/exos/xokd.toml";

/// Runs the daemon until it is told to stop.
pub fn run(args: &DaemonArgs) -> Result<ExitCode> {
    caps::require(confinement::NEEDED, "share an interface")?;
    if let Some(name) = &args.namespace {
        NetNs::open(name)?.enter()?;
    }
    if args.clean {
        return clean::run(&args.socket);
    }
    exos_host::limits::raise_descriptors()?;
    if args.replace {
        replace::ask(&args.socket)?;
    }
    let signals = Signals::catch()?;
    let config = Config {
        socket: args.socket.clone(),
        policy: args.policy()?,
        live_frames: args.live_frames,
    };
    let daemon = Daemon::start(config)?;
    warn_of_host();
    if let Err(error) = confinement::confine() {
        daemon.stop()?;
        return Err(error);
    }
    say_what_it_does(&daemon, args);
    serve(daemon, &signals, args)?;
    Ok(ExitCode::SUCCESS)
}

/// Turn after turn, until it is told to stop, or another takes its place.
fn serve(mut daemon: Daemon, signals: &Signals, args: &DaemonArgs) -> Result<()> {
    while !signals.stop() {
        daemon.turn(signals.fd())?;
        if signals.take_reload() {
            reload(&mut daemon, args);
        }
        if daemon.is_replaced() {
            info!("stepping aside: programs keep their links");
            daemon.leave();
            return Ok(());
        }
    }
    info!("stopping: programs lose their links");
    daemon.stop()
}

/// What is not as it should be around it, though all else works.
fn warn_of_host() {
    match clean::unserved() {
        Ok(gates) => gates
            .iter()
            .for_each(|gate| warn!("warning: {gate} {UNSERVED}")),
        Err(error) => {
            warn!("warning: {error}; programs of an earlier daemon may go on without one")
        }
    }
    if gate::are_private() {
        warn!("{PRIVATE}");
    }
    if let Err(error) = check_echoes() {
        warn!("warning: {error}");
    }
}

/// Reads the policy again. One that cannot be used changes nothing.
fn reload(daemon: &mut Daemon, args: &DaemonArgs) {
    match args.policy() {
        Ok(policy) => {
            for what in daemon.needing_restart(&policy) {
                warn!("warning: {what} takes a restart: {RESTART}");
            }
            let revoked = daemon.set_policy(policy);
            info!("the policy was read again; {revoked} revoked");
        }
        Err(error) => warn!("the policy stays as it is: {error}"),
    }
}

impl DaemonArgs {
    fn policy(&self) -> Result<Policy> {
        if let Some(name) = &self.interface {
            let interface = policy::Interface {
                name: name.clone(),
                rate: self.rate,
                addresses: self.address.clone(),
                gateways: self.gateway.clone(),
                share_address: self.share_address,
            };
            if interface.addresses.is_empty() && !interface.share_address {
                return Err(Error::new("no address to give to programs").mend(
                    "give --address ADDRESS/PREFIX (one that nobody has), or --share-address for the interface's own",
                ));
            }
            let caller = || std::env::var("SUDO_UID").ok()?.parse().ok();
            let user = self.user.or_else(caller).unwrap_or(0);
            return Ok(policy::without_file(interface, user));
        }
        let file = self.policy.clone().unwrap_or_else(|| PathBuf::from(POLICY));
        if self.policy.is_none() && !file.exists() {
            return Err(Error::new("nothing says what to serve").mend(format!(
                "give --interface NAME --address ADDRESS/PREFIX, or write {POLICY}"
            )));
        }
        policy::file::read(&file).map_err(|e| Error::new(e.to_string()))
    }
}

fn say_what_it_does(daemon: &Daemon, args: &DaemonArgs) {
    for interface in daemon.interfaces() {
        let addresses = interface.addresses.iter();
        let addresses: Vec<String> = addresses
            .map(|a| format!("{}/{}", a.ip, a.prefix))
            .collect();
        say!(
            "{}: {}, MTU {}, {:?} XDP, addresses {}",
            interface.link.name,
            interface.mac,
            interface.link.mtu,
            interface.gate.mode(),
            addresses.join(" ")
        );
    }
    for interface in daemon.interfaces().iter().filter(|i| i.merges_for_good()) {
        let name = &interface.link.name;
        warn!("{name} {MERGES}; {STOP_MERGING}");
    }
    if daemon
        .interfaces()
        .iter()
        .any(|i| !i.gate.checks_checksums())
    {
        warn!("{SINGLE_SEGMENTS}");
    }
    for interface in daemon.interfaces() {
        if let Some(why) = interface.gate.lends_no_live_frames() {
            say!(
                "{}: no live frames for programs: {why}",
                interface.link.name
            );
        }
    }
    for rule in daemon.rules() {
        say!("{rule}");
    }
    say!("listening at {}", args.socket.display());
}

fn rate(text: &str) -> std::result::Result<u64, String> {
    let wrong = || format!("{text:?} is not understood; write for example 1gbit");
    policy::file::parse_rate(text).ok_or_else(wrong)
}

fn user(text: &str) -> std::result::Result<u32, String> {
    accounts::user(text).ok_or_else(|| format!("there is no user {text:?}"))
}
