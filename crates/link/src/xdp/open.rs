//! Opening an AF_XDP link.
//!
//! The order is that of the least damage: nothing on the machine is changed
//! until everything that can be known beforehand is known. Then the program is
//! attached, with an empty socket map, so that packets go on to the host; then
//! the sockets are bound; then they are put into the map, and the first packet comes.
//! An error at any point drops what was made and leaves the interface as it was.

use std::sync::Arc;

use exos_filter::{Action, Rule};
use exos_host::bpf::Map;
use exos_host::caps::{self, CapabilitySet};
use exos_host::kernel;
use exos_host::limits::raise_memlock;
use exos_host::netlink::Netlink;

use super::binding::{bind, bind_flags, explain_socket, prepare, ring_fault};
use super::calls::{self, RingSizes};
use super::checks::{self, check_interface};
use super::interface::Interface;
use super::live::LiveFrames;
use super::losses::Losses;
use super::program::{Mode, ModeChoice, Program, ProgramConfig};
use super::queue::{Batches, Queue};
use super::send_path::TransmitChoice;
use super::socket::Socket;
use super::super_packets::SuperPackets;
use super::umem::{Umem, chunk_size_for};
use super::{Merging, XdpLink};
use crate::Error;
use crate::limits::{CHUNKS, FRAME_OVERHEAD_LEN, QUEUE_RELEASE_WAIT, RX_RING_SIZE};

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
        let in_pieces = multi_buffer || checks::takes_large_frames(program.mode())?;
        if program.mode() == Mode::Generic && checks::merges_for_good(&interface.name)? {
            link.merging = if in_pieces {
                Merging::Taken
            } else {
                Merging::Lost
            };
        }
        let flags = bind_flags(program.mode(), in_pieces);
        for number in link.numbers.clone() {
            let queue = link.open_queue(number, flags, config)?;
            link.queues.push(queue);
        }
        if config.super_packets && !link.zero_copy {
            link.large = Some(SuperPackets::open(interface.index)?);
        }
        Ok(link)
    }

    /// One of its queues; what is found on the way of it is noted of the link.
    fn open_queue(&mut self, number: u32, flags: u16, config: &XdpConfig) -> Result<Queue, Error> {
        let interface = &self.interface;
        let (mut umem, frames, mut socket) = make_socket(interface, config)?;
        // Before the binding: drivers with zero copy take what they need there.
        let filled = socket.refill(&mut umem, RX_RING_SIZE).map_err(ring_fault)?;
        bind(&socket, interface, number, flags, QUEUE_RELEASE_WAIT)?;
        self.zero_copy &= calls::is_zero_copy(&socket).unwrap_or(false);
        let frame_len_max = interface.mtu + FRAME_OVERHEAD_LEN;
        let mut queue = Queue::new(socket, umem, filled, frame_len_max, interface.rx_checksum);
        if config.arrival_times {
            queue.expect_stamps();
        }
        if let Some(frames) = frames
            && !self.zero_copy
        {
            let live = LiveFrames::open(interface, number, &frames, chunk_size_for(interface.mtu));
            match live.map(|live| live.watch(self.losses.clone())) {
                Ok(live) => queue.send_batches(Batches::Live(live), config.transmit),
                Err(error) => self.live_refusal = Some(error),
            }
        }
        Ok(queue)
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
        Some(queue) => checks::check_queue(&interface, queue)?,
        None => checks::check_cores(&info, interface.queues, cores)?,
    }
    let multi_buffer = checks::multi_buffer(&interface, version)?;
    checks::wait_until_unheld(&interface)?;
    // Without CAP_SYS_RESOURCE it stays; that it is too low shows at `Umem`.
    let _ = raise_memlock(None);
    let program = ProgramConfig {
        rules: &config.rules,
        otherwise: config.otherwise,
        mode: config.mode,
        arrival_times: config.arrival_times,
        multi_buffer,
    };
    let program = Program::attach(&interface, &program)?;
    Ok((interface, Arc::new(program), multi_buffer))
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Instant;

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
