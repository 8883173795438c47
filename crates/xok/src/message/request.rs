//! What a program asks of the daemon.

use std::net::IpAddr;

use super::{GrantId, Secret, header};
use crate::bytes::{DecodeError, Reader};
use crate::claim::{Endpoint, Protocol};
use crate::limits::{
    FILTER_BYTES_MAX, INTERFACE_NAME_BYTES_MAX, PROGRAM_NAME_BYTES_MAX, TIME_WAIT_BYTES_MAX,
};

/// How packets are to reach the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// What policy prefers for this user: direct where it says so and a queue is free, else shared.
    Auto,
    /// A virtual interface of the program's own.
    Shared,
    /// A queue of the interface itself, which nobody checks: this one, or any that is free.
    Direct(Option<u32>),
}

/// Which port is claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortWish {
    /// All ports of the address: the shape without a port.
    All,
    /// One that is free and has not been used lately, chosen by the daemon.
    Ephemeral,
    /// This one; 0 is refused as a bad message.
    Number(u16),
}

/// What a program asks. Each is answered by the answer that its documentation names, or by
/// [`Answer::Refused`](super::Answer::Refused).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// First of all. Answered by `Welcome`, with a descriptor of the shared tables.
    Hello {
        /// [`VERSION`](super::VERSION).
        version: u16,
    },
    /// Asks for a slot. Answered by `Attached`, with the ring's socket, its memory and, unless it is direct, a packet
    /// socket.
    Attach {
        /// The interface's name; empty for the only one that there is.
        interface: String,
        /// How packets are to arrive.
        mode: Mode,
        /// How many chunks the memory should have; 0 for the daemon's usual.
        chunks: u32,
        /// The program's name, shown to others.
        program: String,
    },
    /// Takes up a slot after the daemon was away. Answered by `Attached`, without descriptors: those that the
    /// program has are still good.
    Reattach {
        /// From `Attached`.
        token: Secret,
    },
    /// Asks for a claim, which its slot then receives and may send from. Answered by `Granted`.
    Claim {
        /// The protocol.
        protocol: Protocol,
        /// Our address; `None` for the interface's first that policy allows.
        local: Option<IpAddr>,
        /// Our port.
        port: PortWish,
        /// The other end, for one connection only.
        remote: Option<Endpoint>,
    },
    /// Asks for all packets that a filter matches and nobody's exact grant covers. Answered by `GrantedFilter`.
    ClaimFilter {
        /// In the language of `exos_filter`, on packets as they come in.
        filter: String,
    },
    /// Asks for the part of a grant that is one connection, for handing it on. Answered by `Granted`.
    Narrow {
        /// What to take a part of.
        grant: GrantId,
        /// The connection's other end.
        remote: Endpoint,
        /// The connection's local port; 0 where the grant has one.
        port: u16,
    },
    /// Gives a grant back. Answered by `Done`.
    Release {
        /// Which.
        grant: GrantId,
    },
    /// Offers a grant to the one that presents the ticket: it moves. Answered by `Ticket`.
    Export {
        /// Which.
        grant: GrantId,
    },
    /// Offers another reference to a grant: both hold it, packets go on arriving here until this side releases
    /// it. Answered by `Ticket`.
    Share {
        /// Which.
        grant: GrantId,
    },
    /// Takes what a ticket stands for. Answered by `Granted`.
    Import {
        /// From `Ticket`.
        ticket: Secret,
    },
    /// Asks for a neighbour's Ethernet address to be found. Answered by `Done`; the tables tell when it is known.
    Resolve {
        /// Whose.
        ip: IpAddr,
    },
    /// Says that another program of the same user follows: when this one goes, however it goes, nobody gets what is for
    /// the grant until that one claims it, for a while. Of all ports of an address that is no host's; in force until the
    /// grant is given back or handed on, or policy does not allow it any more. Answered by `Done`.
    AwaitSuccessor {
        /// Which.
        grant: GrantId,
        /// For how long, in milliseconds, [`SUCCESSOR_MS_MAX`](crate::limits::SUCCESSOR_MS_MAX) at most; 0 for nobody.
        ms: u32,
    },
    /// Leaves connections in TIME-WAIT with the daemon, which answers for them. Answered by `Done`.
    TimeWait {
        /// The grant that they were made under.
        grant: GrantId,
        /// The connections, as `exos_inet` writes them.
        entries: Vec<u8>,
    },
    /// Asks for copies of packets. Answered by `Tapped`, with a ring buffer's descriptor.
    Tap {
        /// The interface's name; empty for all that there are.
        interface: String,
        /// Which packets; empty for all.
        filter: String,
        /// How many bytes of each at most.
        snap: u32,
        /// Those of other programs too.
        all: bool,
    },
    /// Ends a tap. Answered by `Done`.
    Untap {
        /// From `Tapped`.
        tap: u32,
    },
    /// Asks how everything is. Answered by `Report`, with a descriptor of the text (JSON).
    Status,
    /// Asks the daemon to go without taking anything down, for another to take over. Answered by `Done`.
    StepAside,
}

impl Request {
    /// Reads a datagram from a program: its tag and what it asks.
    pub fn decode(bytes: &[u8]) -> Result<(u32, Self), DecodeError> {
        let mut reader = Reader::new(bytes);
        let (kind, tag) = (reader.u16()?, reader.u32()?);
        let request = Self::read(kind, &mut reader)?;
        reader.finish()?;
        Ok((tag, request))
    }

    fn read(kind: u16, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match kind {
            1 => Self::Hello { version: r.u16()? },
            2 => Self::Attach {
                interface: r.text(INTERFACE_NAME_BYTES_MAX, "interface")?,
                mode: mode(r)?,
                chunks: r.u32()?,
                program: r.text(PROGRAM_NAME_BYTES_MAX, "program")?,
            },
            3 => Self::Reattach {
                token: Secret(r.array()?),
            },
            4 => Self::Claim {
                protocol: r.protocol()?,
                local: r.option("local", Reader::ip)?,
                port: port_wish(r)?,
                remote: r.option("remote", Reader::endpoint)?,
            },
            5 => Self::Narrow {
                grant: r.u32()?,
                remote: r.endpoint()?,
                port: r.u16()?,
            },
            6 => Self::Release { grant: r.u32()? },
            7 => Self::Export { grant: r.u32()? },
            8 => Self::Share { grant: r.u32()? },
            9 => Self::Import {
                ticket: Secret(r.array()?),
            },
            10 => Self::Resolve { ip: r.ip()? },
            11 => Self::TimeWait {
                grant: r.u32()?,
                entries: r.blob(TIME_WAIT_BYTES_MAX, "entries")?.to_vec(),
            },
            12 => Self::Tap {
                interface: r.text(INTERFACE_NAME_BYTES_MAX, "interface")?,
                filter: r.text(FILTER_BYTES_MAX, "filter")?,
                snap: r.u32()?,
                all: r.bool("all")?,
            },
            13 => Self::Untap { tap: r.u32()? },
            14 => Self::Status,
            15 => Self::StepAside,
            16 => Self::ClaimFilter {
                filter: r.text(FILTER_BYTES_MAX, "filter")?,
            },
            17 => Self::AwaitSuccessor {
                grant: r.u32()?,
                ms: r.u32()?,
            },
            other => return Err(DecodeError::UnknownKind(other)),
        })
    }

    /// The datagram.
    ///
    /// # Panics
    ///
    /// When the entries of [`Request::TimeWait`] are more than fit; texts are cut.
    pub fn encode(&self, tag: u32) -> Vec<u8> {
        let mut w = header(self.kind(), tag);
        match self {
            Self::Hello { version } => w.u16(*version),
            Self::Attach {
                interface,
                mode,
                chunks,
                program,
            } => {
                w.text(interface, INTERFACE_NAME_BYTES_MAX);
                let (number, queue) = match mode {
                    Mode::Auto => (0, 0),
                    Mode::Shared => (1, 0),
                    Mode::Direct(Some(queue)) => (2, *queue),
                    Mode::Direct(None) => (3, 0),
                };
                w.u8(number);
                w.u32(queue);
                w.u32(*chunks);
                w.text(program, PROGRAM_NAME_BYTES_MAX);
            }
            Self::Reattach { token } => w.raw(&token.0),
            Self::Claim {
                protocol,
                local,
                port,
                remote,
            } => {
                w.u8(protocol.number());
                w.option(*local, |w, ip| w.ip(ip));
                let (number, port) = match port {
                    PortWish::All => (0, 0),
                    PortWish::Ephemeral => (1, 0),
                    PortWish::Number(port) => (2, *port),
                };
                w.u8(number);
                w.u16(port);
                w.option(*remote, |w, remote| w.endpoint(remote));
            }
            Self::Narrow {
                grant,
                remote,
                port,
            } => {
                w.u32(*grant);
                w.endpoint(*remote);
                w.u16(*port);
            }
            Self::Release { grant } | Self::Export { grant } | Self::Share { grant } => {
                w.u32(*grant)
            }
            Self::Import { ticket } => w.raw(&ticket.0),
            Self::Resolve { ip } => w.ip(*ip),
            Self::TimeWait { grant, entries } => {
                w.u32(*grant);
                w.blob(entries, TIME_WAIT_BYTES_MAX);
            }
            Self::Tap {
                interface,
                filter,
                snap,
                all,
            } => {
                w.text(interface, INTERFACE_NAME_BYTES_MAX);
                w.text(filter, FILTER_BYTES_MAX);
                w.u32(*snap);
                w.bool(*all);
            }
            Self::Untap { tap } => w.u32(*tap),
            Self::Status | Self::StepAside => {}
            Self::ClaimFilter { filter } => w.text(filter, FILTER_BYTES_MAX),
            Self::AwaitSuccessor { grant, ms } => {
                w.u32(*grant);
                w.u32(*ms);
            }
        }
        w.bytes
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Hello { .. } => 1,
            Self::Attach { .. } => 2,
            Self::Reattach { .. } => 3,
            Self::Claim { .. } => 4,
            Self::Narrow { .. } => 5,
            Self::Release { .. } => 6,
            Self::Export { .. } => 7,
            Self::Share { .. } => 8,
            Self::Import { .. } => 9,
            Self::Resolve { .. } => 10,
            Self::TimeWait { .. } => 11,
            Self::Tap { .. } => 12,
            Self::Untap { .. } => 13,
            Self::Status => 14,
            Self::StepAside => 15,
            Self::ClaimFilter { .. } => 16,
            Self::AwaitSuccessor { .. } => 17,
        }
    }
}

fn mode(r: &mut Reader<'_>) -> Result<Mode, DecodeError> {
    match (r.u8()?, r.u32()?) {
        (0, 0) => Ok(Mode::Auto),
        (1, 0) => Ok(Mode::Shared),
        (2, queue) => Ok(Mode::Direct(Some(queue))),
        (3, 0) => Ok(Mode::Direct(None)),
        _ => Err(DecodeError::BadField("mode")),
    }
}

fn port_wish(r: &mut Reader<'_>) -> Result<PortWish, DecodeError> {
    match (r.u8()?, r.u16()?) {
        (0, 0) => Ok(PortWish::All),
        (1, 0) => Ok(PortWish::Ephemeral),
        (2, port) if port != 0 => Ok(PortWish::Number(port)),
        _ => Err(DecodeError::BadField("port")),
    }
}
