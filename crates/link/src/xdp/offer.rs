//! A link that a daemon makes for a program that may not make one: the daemon's side.
//!
//! The daemon does what takes privilege: memory, socket, sizes of the rings, bind. What it then
//! passes can be used and nothing else: see what each descriptor allows its holder.
//!
//! | descriptor | allows | does not allow |
//! |---|---|---|
//! | `socket`, AF_XDP, bound | mapping the rings, sending and receiving on this queue of this interface | binding it elsewhere, other memory, other rings (EBUSY: it is bound) |
//! | `memory`, a memfd, the socket's UMEM | mapping it | growing (EPERM: sealed); taking pages out of it (EPERM: immutable, where the maker may say so); opening it again by its name under /proc (EACCES) |
//! | `packet`, a packet socket for super-packets | sending and receiving on any interface *of its network namespace* | any other namespace, other interface settings (EPERM), rings of kernel memory of its own (EBUSY, see below) |
//!
//! Hence a link on an interface that others use has no packet socket (`super_packets`), and what it sends is not
//! checked by anybody: the ring sends whatever its holder likes.
//!
//! The packet socket's namespace must hold nothing but this program's end of a veth, and what
//! comes out of the other end is checked like everything from the ring. A packet socket's holder may
//! also ask the kernel for rings, up to gigabytes of memory that nobody accounts for. So this one
//! has a ring already, of one page, which the daemon has mapped ([`Held`]): as long as it is mapped
//! the kernel changes no ring of the socket. Its protocol is 0, so that nothing is put there.
//!
//! Never passed: the map of sockets, which is writable for anyone who holds it, and a socket that is not bound, which its
//! holder may bind to any interface of its namespace: but where the kernel maps no rings of a bound one
//! ([`BOUND_MAPPING_KERNEL`]) and the namespace holds nothing but this program's own interface. There the program binds it.
//!
//! Rules of the interface:
//!
//! - Pass `socket`, `memory` and `packet` in this order and drop them: a queue stays busy as long as
//!   anyone has the socket open.
//! - Keep `held` as long as the link is to work, or pin its attachment, and `held.memory` as long as it matters who has the
//!   memory. Dropped, the link receives
//!   nothing more; what it sends must be stopped at the other end.
//! - The fill ring is empty: the program puts chunks there when it adopts the link.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use exos_filter::rationed::rationed;
use exos_filter::{Action, Filter, Program, ProgramMaps, Rule, SlotCounters, compile};
use exos_host::bpf::{self, Map, MappedArray, Prog, XdpMode};
use exos_host::kernel::{self, Version};
use exos_host::limits::raise_memlock;
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_host::shared::LentMemory;
use exos_wire::Mac;

use super::calls::{self, RingSizes};
use super::facts::{Facts, check_chunks};
use super::interface::Interface;
use super::super_packets::{self, RingLock};
use super::umem::chunk_size_for;
use super::{binding, checks, program};
use crate::Error;
use crate::limits::{BOUND_MAPPING_KERNEL, GSO_FRAME_LEN_MAX};
use crate::mapping::Mapping;
use crate::meta::RxChecksum;

/// What to offer.
#[derive(Debug)]
pub struct OfferConfig<'a> {
    /// Where the interface is. For a link with `super_packets`, one that holds nothing else.
    pub namespace: &'a NetNs,
    /// The interface's name in there.
    pub interface: String,
    /// Its queue.
    pub queue: u32,
    /// Chunks of memory, a power of two.
    pub chunks: u32,
    /// The address that the program's frames carry: of the interface that they leave the machine by.
    pub mac: Mac,
    /// Frames may come from a kernel of this machine, with partial checksums. So it is taken to be anyway where
    /// the interface is virtual.
    pub rx_partial_checksum: bool,
    /// Open a packet socket for super-packets beside the ring.
    pub super_packets: bool,
    /// Have the driver's work done in the program's calls rather than in interrupts.
    pub prefer_busy_poll: bool,
    /// Who gives the socket its packets.
    pub feed: Feed<'a>,
    /// How long to wait for a queue that another socket holds: the kernel gives one back some 30 ms after its last
    /// holder has gone.
    pub queue_wait: Duration,
}

/// Who gives the socket its packets.
#[derive(Clone, Copy, Debug)]
pub enum Feed<'a> {
    /// A program that the offer attaches to the interface: everything that arrives there is for the
    /// socket, but what is dropped early and counted there; without counters nothing is dropped.
    Everything(Option<SlotCounters>),
    /// A program that the offer attaches likewise, and that gives the socket as many frames of each class as a ration
    /// allows ([`exos_filter::rationed`]), counted in this array.
    Rationed(&'a MappedArray, u32),
    /// A program that somebody has attached to the interface in this mode: put the socket into its map.
    Attached(XdpMode),
}

/// A link that was made for somebody else.
#[derive(Debug)]
pub struct Offer {
    /// What the program must be told.
    pub facts: Facts,
    /// The AF_XDP socket.
    pub socket: OwnedFd,
    /// Its memory.
    pub memory: OwnedFd,
    /// The packet socket.
    pub packet: Option<OwnedFd>,
    /// What stays with the daemon.
    pub held: Held,
}

/// What keeps an offered link working.
#[derive(Debug, Default)]
pub struct Held {
    /// The program that gives the socket what arrives, unless that is [`Feed::Attached`]. Pinned, it outlives
    /// the daemon; it keeps its map by itself.
    pub attachment: Option<bpf::Link>,
    /// The map that it finds the socket in.
    pub sockets: Option<Map>,
    /// Keeps the packet socket's holder from asking for memory. Ends with the daemon.
    pub lock: Option<RingLock>,
    /// Tells when nobody has the memory any more. What the socket has of it is the kernel's as long as the socket is
    /// open, no matter who has the memory.
    pub memory: Option<LentMemory>,
}

impl Offer {
    /// Makes a link. Takes CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF.
    ///
    /// # Errors
    ///
    /// Whatever is in the way, with the remedy, as for [`XdpLink::open`](super::XdpLink::open).
    pub fn make(config: &OfferConfig<'_>) -> Result<Self, Error> {
        check_chunks(config.chunks)?;
        config.namespace.run(|| make_here(config))?
    }
}

/// Nothing would come.
fn refuse_bond(interface: &Interface) -> Result<(), Error> {
    match interface.is_bond {
        false => Ok(()),
        true => Err(Error::new(format!(
            "{} is a bond, whose queues receive nothing",
            interface.name
        ))
        .mend("use a shared link (--mode shared), or have the daemon serve a member")),
    }
}

fn make_here(config: &OfferConfig<'_>) -> Result<Offer, Error> {
    let version = kernel::check()?;
    let info = Netlink::new()?.link_by_name(&config.interface)?;
    let interface = checks::check_interface(&info)?;
    checks::check_queue(&interface, config.queue)?;
    refuse_bond(&interface)?;
    let multi_buffer = checks::multi_buffer(&interface, version)?;
    // Without CAP_SYS_RESOURCE it stays; that it is too low shows when the memory is registered.
    let _ = raise_memlock(None);
    let mut held = Held::default();
    let mode = match config.feed {
        Feed::Everything(count) => held.attach(&interface, |sockets| {
            everything(sockets, count, multi_buffer)
        })?,
        Feed::Rationed(rations, most) => held.attach(&interface, |sockets| {
            load(
                &rationed(sockets, rations.raw_fd(), most as i32),
                multi_buffer,
            )
        })?,
        Feed::Attached(mode) => mode,
    };
    let (lent, memory, socket) = make_socket(config, &interface)?;
    held.memory = Some(lent);
    let binds = (version.major, version.minor) >= BOUND_MAPPING_KERNEL;
    if binds {
        let flags = binding::bind_flags(mode, multi_buffer);
        binding::bind(&socket, &interface, config.queue, flags, config.queue_wait)?;
    } else if matches!(config.feed, Feed::Attached(_)) {
        return Err(no_direct_queues(version));
    }
    if let Some(sockets) = &held.sockets {
        sockets.set_fd(config.queue, socket.as_fd())?;
    }
    let mut packet = None;
    if config.super_packets {
        let (socket, lock) = super_packets::open_locked(interface.index)?;
        (packet, held.lock) = (Some(socket), Some(lock));
    }
    let mut facts = facts(config, &interface);
    facts.interface = if binds { 0 } else { interface.index };
    for (flag, set) in [
        (Facts::NATIVE, mode == XdpMode::Native),
        (Facts::MULTI_BUFFER, multi_buffer),
        (
            Facts::ZERO_COPY,
            calls::is_zero_copy(&socket).unwrap_or(false),
        ),
    ] {
        facts.flags |= if set { flag } else { 0 };
    }
    debug_assert!(facts.check().is_ok(), "{:?}", facts.check());
    Ok(Offer {
        facts,
        socket,
        memory,
        packet,
        held,
    })
}

impl Held {
    /// Attaches a program that gives the socket of a queue what arrives there. In the driver: where
    /// packets are redirected to a veth, its other end has to have a program there to get them.
    fn attach(
        &mut self,
        interface: &Interface,
        program: impl FnOnce(i32) -> Result<Prog, Error>,
    ) -> Result<XdpMode, Error> {
        let sockets = Map::xskmap(interface.queues)?;
        let program = program(sockets.raw_fd())?;
        let mode = XdpMode::Native;
        let attachment = bpf::Link::attach_xdp(interface.index, &program, mode)?;
        (self.attachment, self.sockets) = (Some(attachment), Some(sockets));
        Ok(mode)
    }
}

/// A program that gives everything to the sockets of this map, but what is dropped early where that is counted.
fn everything(
    sockets: i32,
    count: Option<SlotCounters>,
    multi_buffer: bool,
) -> Result<Prog, Error> {
    let all = Rule {
        filter: Filter::everything(),
        action: Action::RedirectToSocket,
    };
    let loaded = |early_drop| {
        let maps = ProgramMaps {
            xskmap_fd: sockets,
            counters_fd: None,
            early_drop,
        };
        let code = compile(std::slice::from_ref(&all), Action::Drop, &maps);
        load(&code.expect("a program of one rule is short"), multi_buffer)
    };
    let early_drop = count.and_then(|_| program::early_drop(count));
    match early_drop.map(|how| loaded(Some(how))) {
        Some(Ok(program)) => Ok(program),
        _ => loaded(None),
    }
}

fn load(code: &Program, multi_buffer: bool) -> Result<Prog, Error> {
    Prog::load(&code.words(), "exos_slot", multi_buffer).map_err(Error::from)
}

/// The memory and a socket over it, ready to be bound.
fn make_socket(
    config: &OfferConfig<'_>,
    interface: &Interface,
) -> Result<(LentMemory, OwnedFd, OwnedFd), Error> {
    let chunk_size = chunk_size_for(interface.mtu);
    let len = u64::from(config.chunks) * u64::from(chunk_size);
    let (lent, memory) = LentMemory::new("exos-packets", len)?;
    // Mapped here only to be registered: the kernel keeps the pages, not the mapping.
    let mapping = Mapping::shared(memory.as_fd(), len as usize, 0)
        .map_err(|source| Error::io(format!("{len} bytes of memory for packets"), source))?;
    let sizes = RingSizes::for_chunks(config.chunks);
    let socket = calls::new_socket(&mapping, chunk_size, sizes)
        .map_err(|source| binding::explain_socket(source, len))?;
    binding::prepare(&socket, &interface.name, config.prefer_busy_poll)?;
    Ok((lent, memory, socket))
}

fn facts(config: &OfferConfig<'_>, interface: &Interface) -> Facts {
    let sizes = RingSizes::for_chunks(config.chunks);
    Facts {
        mac: config.mac,
        flags: match interface.rx_checksum {
            RxChecksum::MaybePartial => Facts::RX_PARTIAL_CHECKSUM,
            _ if config.rx_partial_checksum => Facts::RX_PARTIAL_CHECKSUM,
            _ => 0,
        },
        mtu: interface.mtu as u32,
        queue: config.queue,
        queues: interface.queues,
        chunk_size: chunk_size_for(interface.mtu),
        chunks: config.chunks,
        rx_ring: sizes.rx,
        tx_ring: sizes.tx,
        fill_ring: sizes.fill,
        completion_ring: sizes.completion,
        super_packet_len: if config.super_packets {
            GSO_FRAME_LEN_MAX as u32
        } else {
            0
        },
        interface: 0,
    }
}

fn no_direct_queues(version: Version) -> Error {
    let (major, minor) = BOUND_MAPPING_KERNEL;
    Error::new(format!(
        "this kernel ({version}) lends no queues of an interface: it lets nobody but who binds a socket use it"
    ))
    .mend(format!(
        "use Linux {major}.{minor} or newer, or take an interface of your own (shared)"
    ))
}
