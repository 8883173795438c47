//! Opening an AF_XDP link: every check, and what a person can do when one fails.
//!
//! The order is that of the least damage: nothing on the machine is changed
//! until everything that can be known beforehand is known. Then the program is
//! attached, with an empty socket map, so that packets go on to the host; then
//! the sockets are bound; then they are put into the map, and the first packet comes.
//! An error at any point drops what was made and leaves the interface as it was.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exos_filter::{Action, Rule};
use exos_host::bpf::{Map, ProgInfo, who_holds_xdp};
use exos_host::caps::{self, CapabilitySet};
use exos_host::error::ErrorKind;
use exos_host::ethtool::{Ethtool, Feature};
use exos_host::kernel::{self, Version};
use exos_host::limits::raise_memlock;
use exos_host::netlink::{LinkInfo, Netlink};
use exos_ring::PeerFault;
use exos_wire::Mac;

use super::calls::{self, RingSizes};
use super::interface::Interface;
use super::live::LiveFrames;
use super::losses::Losses;
use super::program::{Asked, Mode, ModeChoice, Program};
use super::queue::{Batches, Queue};
use super::socket::Socket;
use super::super_packets::SuperPackets;
use super::umem::{Umem, chunk_size_for, single_chunk_mtu_max};
use super::{Merging, XdpLink};
use crate::Error;
use crate::limits::{
    CHUNKS, DETACH_WAIT, FRAME_OVERHEAD_LEN, MULTI_BUFFER_KERNEL, NATIVE_MTU_MAX,
    QUEUE_RELEASE_WAIT, QUEUE_RETRY_INTERVAL, QUEUES_MAX, RX_RING_SIZE, TX_CHUNKS_MAX,
};
use crate::meta::RxChecksum;

/// The kind of a veth in netlink.
const VETH: &str = "veth";
pub(super) const BOND: &str = "bond";

/// Drivers whose other end is the machine that ours runs on: virtio, Xen.
const PARAVIRTUAL_DRIVERS: [&str; 2] = ["virtio_net", "vif"];

/// How frames leave an interface that copies them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransmitChoice {
    /// Few at once by the transmit ring, many by what has cost less lately: the ring, or a system call that sends a batch.
    #[default]
    Cheaper,
    /// By the ring.
    Ring,
    /// In batches, where that is to be had, even a lone frame: by a program that the kernel runs for each of them, ours in
    /// live frame mode ([`exos_filter::transmit`]), or, on a link that is lent, the daemon's
    /// ([`exos_filter::gate::batch`]).
    Batches,
    /// As live frames, where they are to be had, even a lone frame; on a link that is lent by the daemon's program for them
    /// ([`exos_filter::gate::live`]).
    LiveFrames,
}

/// Which queue to open, and what to take from it.
#[derive(Clone, Debug)]
pub struct XdpConfig {
    /// The interface's name.
    pub interface: String,
    /// One of its queues: packets that the interface steers to others are not seen. `None`: all that are in use.
    pub queue: Option<u32>,
    /// Which packets are ours: the first rule that matches decides.
    pub rules: Vec<Rule>,
    /// What becomes of the rest; usually [`Action::Pass`], the host's stack.
    pub otherwise: Action,
    /// Where the program runs.
    pub mode: ModeChoice,
    /// Asks for the driver's work to be done within our calls rather than in
    /// interrupts (`SO_PREFER_BUSY_POLL`).
    pub prefer_busy_poll: bool,
    /// Sends what is to be cut into segments as one super-packet, through a packet socket beside
    /// the ring, where the interface copies anyway.
    pub super_packets: bool,
    /// How frames leave where the interface copies.
    pub transmit: TransmitChoice,
    /// Has the program note when each frame came ([`RxMeta::arrived_ns`](crate::RxMeta::arrived_ns)), however
    /// late we look. Packets of a driver that has no room for metadata before a packet go to the host.
    pub arrival_times: bool,
}

impl XdpConfig {
    /// All queues of an interface that are in use, with these rules, the rest for the host.
    pub fn new(interface: impl Into<String>, rules: Vec<Rule>) -> Self {
        Self {
            interface: interface.into(),
            queue: None,
            rules,
            otherwise: Action::Pass,
            mode: ModeChoice::Auto,
            prefer_busy_poll: false,
            super_packets: true,
            transmit: TransmitChoice::Cheaper,
            arrival_times: false,
        }
    }
}

impl XdpLink {
    /// Opens the queue, or all, and starts to take what the rules claim.
    ///
    /// Waits up to two seconds when the queue or the interface is just being
    /// given back by a link that was closed.
    ///
    /// # Errors
    ///
    /// Whatever is in the way, with the remedy: an old kernel, a missing
    /// privilege, the interface, its queue, its MTU, another XDP program.
    pub fn open(config: &XdpConfig) -> Result<Self, Error> {
        let mut links = Self::open_for_cores(config, 1)?;
        Ok(links.remove(0))
    }

    /// Opens the queues for this many cores (at least one): a link for each core, with its share of the queues and the same
    /// program, which stays until the last of them is dropped.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open); and there are fewer queues than cores.
    pub fn open_for_cores(config: &XdpConfig, cores: u32) -> Result<Vec<Self>, Error> {
        let (interface, program, multi_buffer) = attach(config, cores)?;
        let queues = config
            .queue
            .map_or(0..interface.queues, |queue| queue..queue + 1);
        let share = |core| {
            let queues = queues.clone().skip(core as usize).step_by(cores as usize);
            let mut link = Self::open_queues(&interface, queues, &program, config, multi_buffer)?;
            // Of several links on one interface one tells of the program's verdicts.
            link.tells_verdicts = core == 0;
            Ok::<_, Error>(link)
        };
        let links: Vec<Self> = (0..cores).map(share).collect::<Result<_, _>>()?;
        for link in &links {
            for (number, queue) in link.numbers.iter().zip(&link.queues) {
                program.set_socket(*number, queue.fd())?;
            }
        }
        Ok(links)
    }

    fn open_queues(
        interface: &Interface,
        queues: impl Iterator<Item = u32>,
        program: &Arc<Program>,
        config: &XdpConfig,
        multi_buffer: bool,
    ) -> Result<Self, Error> {
        let mut link = XdpLink {
            mode: program.mode(),
            program: Some(program.clone()),
            tells_verdicts: false,
            losses: Losses::of(&interface.name).ok(),
            queues: Vec::new(),
            numbers: queues.collect(),
            large: None,
            interface: interface.clone(),
            zero_copy: true,
            merging: Merging::No,
            live_refusal: None,
        };
        let in_pieces = multi_buffer || takes_large_frames(program.mode())?;
        if program.mode() == Mode::Generic && merges_for_good(&interface.name)? {
            link.merging = if in_pieces {
                Merging::Taken
            } else {
                Merging::Lost
            };
        }
        let flags = bind_flags(program.mode(), in_pieces);
        for &number in &link.numbers {
            let (mut umem, frames, mut socket) = make_socket(interface, config)?;
            // Before the binding: drivers with zero copy take what they need there.
            let filled = socket.refill(&mut umem, RX_RING_SIZE).map_err(ring_fault)?;
            bind(&socket, interface, number, flags, QUEUE_RELEASE_WAIT)?;
            link.zero_copy &= calls::is_zero_copy(&socket).unwrap_or(false);
            let frame_len_max = interface.mtu + FRAME_OVERHEAD_LEN;
            let mut queue = Queue::new(socket, umem, filled, frame_len_max, interface.rx_checksum);
            if config.arrival_times {
                queue.expect_stamps();
            }
            if let Some(frames) = frames
                && !link.zero_copy
            {
                let live =
                    LiveFrames::open(interface, number, &frames, chunk_size_for(interface.mtu));
                match live.map(|live| live.watch(link.losses.clone())) {
                    Ok(live) => queue.send_batches(Batches::Live(live), config.transmit),
                    Err(error) => link.live_refusal = Some(error),
                }
            }
            link.queues.push(queue);
        }
        if config.super_packets && !link.zero_copy {
            link.large = Some(SuperPackets::open(interface.index)?);
        }
        Ok(link)
    }
}

/// Sees that nothing is in the way of opening queues for this many cores, and attaches the program, with an empty map.
fn attach(config: &XdpConfig, cores: u32) -> Result<(Interface, Arc<Program>, bool), Error> {
    let version = kernel::check()?;
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW | CapabilitySet::BPF;
    caps::require(
        needed,
        &format!("open an AF_XDP link on {}", config.interface),
    )?;
    let info = Netlink::new()?.link_by_name(&config.interface)?;
    let interface = check_interface(&info)?;
    match config.queue {
        Some(queue) => check_queue(&interface, queue)?,
        None => check_cores(&info, interface.queues, cores)?,
    }
    let multi_buffer = multi_buffer(&interface, version)?;
    wait_until_unheld(&interface)?;
    // Without CAP_SYS_RESOURCE it stays; that it is too low shows at `Umem`.
    let _ = raise_memlock(None);
    let asked = Asked {
        rules: &config.rules,
        otherwise: config.otherwise,
        mode: config.mode,
        arrival_times: config.arrival_times,
        multi_buffer,
    };
    let program = Program::attach(&interface, &asked)?;
    Ok((interface, Arc::new(program), multi_buffer))
}

pub(super) fn check_interface(info: &LinkInfo) -> Result<Interface, Error> {
    let name = &info.name;
    let Some(mac) = info.mac else {
        return Err(Error::new(format!("{name} has no Ethernet address"))
            .mend("choose an Ethernet interface, or a TAP device (tap:NAME)"));
    };
    if !info.up {
        return Err(Error::new(format!("{name} is down")).mend(format!("ip link set {name} up")));
    }
    let queues = Ethtool::new()?.receive_queues(info).min(QUEUES_MAX);
    let rx_checksum = if leads_to_a_local_kernel(info) {
        RxChecksum::MaybePartial
    } else {
        RxChecksum::Unknown
    };
    Ok(Interface {
        queues,
        name: name.clone(),
        index: info.index,
        mac: Mac(mac),
        mtu: info.mtu as usize,
        rx_checksum,
        is_bond: info.kind.as_deref() == Some(BOND),
    })
}

/// The interface brings nothing by a queue that is not in use, though a socket may be bound to it.
pub(super) fn check_queue(interface: &Interface, queue: u32) -> Result<(), Error> {
    let Interface { name, queues, .. } = interface;
    if queue < *queues {
        return Ok(());
    }
    Err(Error::new(format!("{name} uses no queue {queue}")).mend(format!(
        "name one below {queues}, or none to have all that are in use (ethtool -l {name} shows them)"
    )))
}

/// A core without a queue would see nothing.
fn check_cores(info: &LinkInfo, queues: u32, cores: u32) -> Result<(), Error> {
    if cores <= queues {
        return Ok(());
    }
    let name = &info.name;
    let made = format!("ip link add ... numrxqueues {cores} numtxqueues {cores}");
    let command = Ethtool::new()?.command_for_queues(name, cores);
    let command = command.or_else(|| (info.kind.as_deref() == Some(VETH)).then_some(made));
    let instead = format!("run on {queues} core(s)");
    Err(Error::new(format!(
        "{name} uses {queues} receive queue(s), fewer than the {cores} cores that are to run on them"
    ))
    .mend(match command {
        Some(command) => format!("have it use more ({command}), or {instead}"),
        None => instead,
    })
    .of_kind(ErrorKind::TooFewQueues { queues }))
}

/// Whether frames may come from a kernel of this machine, which leaves their
/// checksums to a device that is not there: from another namespace over a
/// virtual interface, from a guest's host over a paravirtual one.
pub(super) fn leads_to_a_local_kernel(info: &LinkInfo) -> bool {
    let paravirtual = || {
        let driver = Ethtool::new().and_then(|ethtool| ethtool.driver(&info.name));
        driver.is_ok_and(|driver| PARAVIRTUAL_DRIVERS.contains(&driver.as_str()))
    };
    info.loopback || info.kind.is_some() || paravirtual()
}

/// Whether packets may span buffers, which is so above what native XDP puts into
/// one.
pub(super) fn multi_buffer(interface: &Interface, version: Version) -> Result<bool, Error> {
    let (name, mtu) = (&interface.name, interface.mtu);
    let single = NATIVE_MTU_MAX.min(single_chunk_mtu_max());
    if mtu <= single {
        return Ok(false);
    }
    let remedy = format!("ip link set {name} mtu {single}");
    if (version.major, version.minor) < MULTI_BUFFER_KERNEL {
        let (major, minor) = MULTI_BUFFER_KERNEL;
        return Err(Error::new(format!(
            "{name} has an MTU of {mtu}: before Linux {major}.{minor}, AF_XDP takes {single} at most"
        ))
        .mend(remedy));
    }
    let most = TX_CHUNKS_MAX * chunk_size_for(mtu) as usize - FRAME_OVERHEAD_LEN;
    if mtu > most {
        let what = format!("{name} has an MTU of {mtu}: AF_XDP sends {most} at most");
        return Err(Error::new(what).mend(remedy));
    }
    Ok(true)
}

/// An interface takes one XDP program. One that is about to go, because its link
/// was closed, is waited for.
pub(super) fn wait_until_unheld(interface: &Interface) -> Result<(), Error> {
    let deadline = Instant::now() + DETACH_WAIT;
    loop {
        let Some(holder) = holder(interface)? else {
            return Ok(());
        };
        if Instant::now() >= deadline {
            return Err(holder);
        }
        std::thread::sleep(QUEUE_RETRY_INTERVAL);
    }
}

/// The error that names the program on the interface, when there is one.
fn holder(interface: &Interface) -> Result<Option<Error>, Error> {
    let name = &interface.name;
    let Some(xdp) = Netlink::new()?.link_by_name(name)?.xdp else {
        return Ok(None);
    };
    let id = xdp.prog_id;
    let program = ProgInfo::by_id(id).map_or_else(|_| String::from("unnamed"), |info| info.name);
    let error = Error::new(format!(
        "{name} has an XDP program already: {program} (program id {id})"
    ));
    let link = who_holds_xdp(interface.index)?;
    Ok(Some(match link {
        Some(held) => error.mend(format!(
            "end the process that holds BPF link {}",
            held.link_id
        )),
        None => error.mend(format!(
            "end the process that holds it, or, if it was attached for good, take it away with \
             `ip link set dev {name} xdp off`"
        )),
    }))
}

/// A socket and its memory, which programs can read too where many frames at once are to leave.
fn make_socket(
    interface: &Interface,
    config: &XdpConfig,
) -> Result<(Umem, Option<Map>, Socket), Error> {
    let chunk_size = chunk_size_for(interface.mtu);
    let bytes = u64::from(CHUNKS) * u64::from(chunk_size);
    let (umem, frames) = if config.transmit != TransmitChoice::Ring {
        let (umem, frames) = Umem::shown_to_programs(CHUNKS, chunk_size)?;
        (umem, Some(frames))
    } else {
        let umem = Umem::new(CHUNKS, chunk_size)
            .map_err(|source| Error::io(format!("{bytes} bytes of memory for packets"), source))?;
        (umem, None)
    };
    let sizes = RingSizes::for_chunks(CHUNKS);
    let socket = calls::new_socket(umem.memory(), chunk_size, sizes)
        .and_then(|fd| Socket::over(fd, sizes))
        .map_err(|source| explain_socket(source, bytes))?;
    prepare(&socket, &interface.name, config.prefer_busy_poll)?;
    Ok((umem, frames, socket))
}

/// What must be set before the socket is bound, and before it is passed to anyone.
pub(super) fn prepare(
    socket: impl AsFd,
    interface: &str,
    prefer_busy_poll: bool,
) -> Result<(), Error> {
    calls::widen_sending(&socket);
    if prefer_busy_poll {
        calls::prefer_busy_poll(&socket).map_err(|source| {
            Error::io(
                format!("busy polling cannot be set for {interface}"),
                source,
            )
        })?;
    }
    Ok(())
}

pub(super) fn ring_fault(fault: PeerFault) -> Error {
    Error::new(fault.to_string()).mend("report this: the kernel should never do it")
}

pub(super) fn explain_socket(source: io::Error, bytes: u64) -> Error {
    let code = source.raw_os_error();
    let error = Error::io("the AF_XDP socket cannot be made", source);
    match code {
        Some(libc::EAFNOSUPPORT) => {
            error.mend("use a kernel that was built with AF_XDP (CONFIG_XDP_SOCKETS)")
        }
        Some(libc::ENOBUFS) => error.mend(format!(
            "allow {} KiB of locked memory: ulimit -l unlimited",
            bytes.div_ceil(1024)
        )),
        _ => error,
    }
}

/// Whether frames longer than the MTU can be taken, in pieces: in generic mode, which sees what a device or a kernel at the
/// other end of a virtual interface has merged, or not cut yet.
fn takes_large_frames(mode: Mode) -> Result<bool, Error> {
    let version = kernel::version()?;
    Ok(mode == Mode::Generic && (version.major, version.minor) >= MULTI_BUFFER_KERNEL)
}

/// Whether a device merges what it receives, and cannot be told not to.
fn merges_for_good(interface: &str) -> Result<bool, Error> {
    let features = Ethtool::new()?.features(interface).unwrap_or_default();
    Ok(features.iter().any(Feature::merges_for_good))
}

/// Without a word on copying the kernel tries zero copy and falls back. Generic
/// mode has only copies.
pub(super) fn bind_flags(mode: Mode, multi_buffer: bool) -> u16 {
    let copy = if mode == Mode::Generic {
        libc::XDP_COPY
    } else {
        0
    };
    let pieces = if multi_buffer { libc::XDP_USE_SG } else { 0 };
    libc::XDP_USE_NEED_WAKEUP | copy | pieces
}

/// Binds, and waits for a queue that is just being given back.
pub(super) fn bind(
    socket: impl AsFd,
    interface: &Interface,
    queue: u32,
    flags: u16,
    wait: Duration,
) -> Result<(), Error> {
    let deadline = Instant::now() + wait;
    loop {
        match calls::bind(&socket, interface.index, queue, flags) {
            Ok(()) => return Ok(()),
            Err(source)
                if source.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline =>
            {
                std::thread::sleep(QUEUE_RETRY_INTERVAL);
            }
            Err(source) => return Err(explain_bind(source, interface, queue)),
        }
    }
}

fn explain_bind(source: io::Error, interface: &Interface, queue: u32) -> Error {
    let name = &interface.name;
    let mend = match source.raw_os_error() {
        Some(libc::EBUSY) => Some(
            "another AF_XDP socket holds the queue: end its process (`ss --xdp -p` lists them), or \
             use another queue"
                .to_owned(),
        ),
        Some(libc::ENETDOWN) => Some(format!("ip link set {name} up")),
        Some(libc::EINVAL | libc::ENODEV) => {
            Some(format!("see that {name} still is there and uses the queue: ethtool -l {name}"))
        }
        _ => None,
    };
    let error = Error::io(format!("queue {queue} of {name} cannot be opened"), source);
    match mend {
        Some(mend) => error.mend(mend),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_filter::Filter;
    use exos_host::netlink::VethEnd;

    /// Runs in a network namespace of its own with a veth `va`, on this thread.
    /// False when that needs a privilege that we do not have.
    fn with_veth() -> bool {
        // SAFETY: a call without pointers; it concerns this thread only.
        let entered = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        if !entered {
            let _ = io::Write::write_all(&mut io::stderr(), b"SKIPPED: open needs root\n");
            return false;
        }
        let netlink = Netlink::new().unwrap();
        let [a, b] = ["va", "vb"].map(VethEnd::named);
        netlink.create_veth_pair(&a, &b).unwrap();
        for name in ["va", "vb"] {
            netlink
                .set_up(netlink.link_by_name(name).unwrap().index, true)
                .unwrap();
        }
        true
    }

    fn config() -> XdpConfig {
        let filter = Filter::everything();
        XdpConfig::new(
            "va",
            vec![Rule {
                filter,
                action: Action::RedirectToSocket,
            }],
        )
    }

    /// A socket on the queue, without a program on the interface.
    fn hold_queue() -> (Socket, Umem) {
        let info = Netlink::new().unwrap().link_by_name("va").unwrap();
        let interface = check_interface(&info).unwrap();
        let (umem, _, socket) = make_socket(&interface, &config()).unwrap();
        let flags = bind_flags(Mode::Native, false);
        bind(&socket, &interface, 0, flags, QUEUE_RELEASE_WAIT).unwrap();
        (socket, umem)
    }

    /// A queue that stays busy is given up after a while, and nothing is left.
    #[test]
    fn a_busy_queue_is_explained() {
        if !with_veth() {
            return;
        }
        let _held = hold_queue();
        let begin = Instant::now();
        let error = XdpLink::open(&config()).unwrap_err().to_string();
        assert!(
            error.contains("queue 0 of va") && error.contains("ss --xdp -p"),
            "{error}"
        );
        assert!(begin.elapsed() >= QUEUE_RELEASE_WAIT);
        assert_eq!(
            Netlink::new().unwrap().link_by_name("va").unwrap().xdp,
            None
        );
    }

    /// One that is given back meanwhile is waited for.
    #[test]
    fn a_queue_that_is_being_given_back_is_waited_for() {
        if !with_veth() {
            return;
        }
        let held = hold_queue();
        let releaser = std::thread::spawn(move || {
            std::thread::sleep(QUEUE_RELEASE_WAIT / 20);
            drop(held);
        });
        let link = XdpLink::open(&config()).unwrap();
        assert_eq!(link.queues(), [0]);
        releaser.join().unwrap();
    }

    /// Without privilege it is said which one is missing.
    #[test]
    fn a_missing_privilege_is_named() {
        if !with_veth() {
            return;
        }
        const NOBODY: i64 = 65_534;
        // SAFETY: numbers only. The bare call, unlike libc's function, concerns
        // this thread only; it takes its effective capabilities.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, -1_i64, NOBODY, -1_i64) };
        assert_eq!(result, 0);
        let error = XdpLink::open(&config()).unwrap_err().to_string();
        for words in ["CAP_NET_ADMIN", "CAP_BPF", "AF_XDP link on va", "root"] {
            assert!(error.contains(words), "{error}");
        }
    }

    /// A link may be opened on one thread and used on another.
    #[test]
    fn links_can_be_sent() {
        fn is_send<T: Send>() {}
        is_send::<XdpLink>();
        is_send::<crate::TapLink>();
    }
}
