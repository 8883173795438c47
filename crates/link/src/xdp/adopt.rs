//! A link that a daemon made: the program's side, without privilege.
//!
//! What was passed is looked at before it is used: that the descriptors are what they should be, that
//! the numbers fit each other. The kernel says where in a ring's
//! mapping its parts are and refuses mappings longer than the ring. A daemon that wanted to harm its
//! programs could: it decides what they receive. This is against a mixed-up one.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use super::arrivals::Arrivals;
use super::binding::{bind_flags, ring_fault};
use super::calls::{self, get_option};
use super::checked::{Checked, CheckedParts};
use super::facts::Facts;
use super::interface::Interface;
use super::program::Mode;
use super::queue::{Batches, Queue};
use super::send_path::TransmitChoice;
use super::socket::Socket;
use super::super_packets::SuperPackets;
use super::umem::Umem;
use super::{Merging, XdpLink};
use crate::Error;
use crate::limits::FRAME_OVERHEAD_LEN;
use crate::mapping::Mapping;
use crate::meta::RxChecksum;

impl XdpLink {
    /// Takes over a link that a daemon has made on `interface`: its numbers, and the descriptors in
    /// their order, AF_XDP socket, memory and, where the facts tell of one, packet socket.
    ///
    /// # Errors
    ///
    /// What was passed does not fit together.
    pub fn adopt(interface: &str, facts: &Facts, descriptors: Vec<OwnedFd>) -> Result<Self, Error> {
        facts.check()?;
        let count = descriptors.len();
        let mut descriptors = descriptors.into_iter();
        let (Some(socket), Some(memory)) = (descriptors.next(), descriptors.next()) else {
            return Err(mixed_up(format!("{count} descriptors came")));
        };
        let packet = descriptors.next();
        if packet.is_some() != (facts.super_packet_len > 0) || descriptors.next().is_some() {
            return Err(mixed_up(format!("{count} descriptors came")));
        }
        check_family(&socket, libc::AF_XDP, "an AF_XDP socket")?;
        if let Some(packet) = &packet {
            check_family(packet, libc::AF_PACKET, "a packet socket")?;
        }
        let memory = map_memory(&memory, facts)?;
        let mut umem = Umem::over(memory, facts.chunk_size);
        let mut socket = Socket::over(socket, facts.ring_sizes()).map_err(|source| {
            Error::io("the rings of the daemon's socket cannot be mapped", source)
        })?;
        let filled = socket
            .refill(&mut umem, facts.rx_ring)
            .map_err(ring_fault)?;
        if facts.interface != 0 {
            // It is not zero copy: the interface is a veth's end.
            let flags = bind_flags(Mode::Native, facts.has(Facts::MULTI_BUFFER));
            calls::bind(&socket, facts.interface, facts.queue, flags)
                .map_err(|source| Error::io("the daemon's socket cannot be bound", source))?;
        }
        let interface = interface_of(interface, facts);
        let frame_len_max = interface.mtu + FRAME_OVERHEAD_LEN;
        Ok(Self {
            program: None,
            tells_verdicts: false,
            losses: None,
            mode: if facts.has(Facts::NATIVE) {
                Mode::Native
            } else {
                Mode::Generic
            },
            queues: vec![Queue::new(
                socket,
                umem,
                filled,
                frame_len_max,
                interface.rx_checksum,
            )],
            numbers: vec![facts.queue],
            large: packet.map(SuperPackets::over),
            interface,
            zero_copy: facts.has(Facts::ZERO_COPY),
            merging: Merging::No,
            live_refusal: None,
        })
    }

    /// From now on frames may leave through the daemon's program.
    ///
    /// # Errors
    ///
    /// What was lent does not fit together.
    pub fn send_checked(
        &mut self,
        parts: CheckedParts,
        choice: TransmitChoice,
    ) -> Result<(), Error> {
        let queue = &mut self.queues[0];
        let checked = Checked::over(parts, queue.chunk_size())?;
        queue.send_batches(Batches::Checked(checked), choice);
        Ok(())
    }

    /// From now on frames may come by this memory, which a daemon lends, past the interface: the array of
    /// [`exos_filter::arrivals`].
    ///
    /// # Errors
    ///
    /// It cannot be mapped: frames go on to come by the interface.
    pub fn receive_past_interface(&mut self, memory: &OwnedFd) -> Result<(), Error> {
        self.queues[0].receive_past_ring(Arrivals::over(memory)?);
        Ok(())
    }
}

fn interface_of(name: &str, facts: &Facts) -> Interface {
    Interface {
        name: name.to_owned(),
        // Of a namespace that we are not in.
        index: 0,
        mac: facts.mac,
        mtu: facts.mtu as usize,
        queues: facts.queues,
        rx_checksum: if facts.has(Facts::RX_PARTIAL_CHECKSUM) {
            RxChecksum::MaybePartial
        } else {
            RxChecksum::Unknown
        },
        is_bond: false,
    }
}

fn check_family(socket: impl AsFd, family: i32, name: &str) -> Result<(), Error> {
    match get_option::<i32>(socket, libc::SOL_SOCKET, libc::SO_DOMAIN) {
        Ok(found) if found == family => Ok(()),
        _ => Err(mixed_up(format!("what should be {name} is none"))),
    }
}

/// Maps the memory when it is some that is lent, of the length that was told. Anyone who else has it could cut it short under
/// this process: those are whom it was passed on to, and anyone who passed it to this one.
fn map_memory(memory: &OwnedFd, facts: &Facts) -> Result<Mapping, Error> {
    // SAFETY: a call without pointers.
    let seals = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_GROW == 0 {
        return Err(mixed_up("the memory is not sealed against growing"));
    }
    let len = length(memory).map_err(|e| Error::io("the memory cannot be examined", e))?;
    if len != facts.memory_len() {
        let told = facts.memory_len();
        return Err(mixed_up(format!("{told} bytes of memory are {len}")));
    }
    Mapping::shared(memory.as_fd(), len as usize, 0)
        .map_err(|source| Error::io("the memory for packets cannot be mapped", source))
}

fn length(file: &OwnedFd) -> io::Result<u64> {
    Ok(std::fs::File::from(file.try_clone()?).metadata()?.len())
}

fn mixed_up(what: impl std::fmt::Display) -> Error {
    Error::new(format!("the daemon offers a link that cannot be: {what}"))
        .mend("use a daemon and a program of the same version of exos")
}
