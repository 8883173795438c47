//! What a program asks of the daemon.

use std::net::IpAddr;

use exos_wire::tcp::cookie::Recipe;

use super::head::{GrantId, Secret, encode, read_head};
use crate::bytes::{DecodeError, InBytes, Numbered as _, Reader, in_bytes, numbered};
use crate::claim::{Endpoint, Protocol};
use crate::limits::{
    FILTER_BYTES_MAX, HANDLER_BYTES_MAX, INTERFACE_NAME_BYTES_MAX, PROGRAM_NAME_BYTES_MAX,
    TIME_WAIT_BYTES_MAX,
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

/// How the kernel is to answer requests to a TCP port: numbers alone. What it answers with the program writes into the memory that it is
/// lent, which lies as `exos_filter::handler::web::layout` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answering {
    /// What SYNs are answered with; and the port.
    pub recipe: Recipe,
    /// Of the hashes by which requests and connections are found.
    pub key: u64,
    /// How many requests there is room for: a power of two, 4 to 65,536.
    pub requests: u32,
    /// Bytes of a response at most: a multiple of 8.
    pub response_max: u16,
    /// Connections that a peer may have, in the kernel's part and the server together.
    pub peer_connections: Option<u32>,
    /// Each answer is reported, and none given where there is no room for its report.
    pub reports: bool,
    /// Requests are HTTP's: lines that no answer depends on are left out where a request has no answer as it is.
    pub http: bool,
    /// Cores of the program, which share the memory and have a slot each: 1 to 64.
    pub cores: u16,
    /// Which of them this slot is, counted from 0.
    pub core: u16,
    /// The slot, by its token, that the memory was lent to; `None` asks for memory.
    pub memory_of: Option<Secret>,
}

in_bytes!(Answering {
    recipe,
    key,
    requests,
    response_max,
    peer_connections,
    reports,
    http,
    cores,
    core,
    memory_of,
});

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
    /// Asks for a port that programs of one user hold together: the first that claims it so has it, and others join it. Each
    /// flow is one program's, by a hash of its other end. Answered by `Granted`.
    ClaimDivided {
        /// The protocol: TCP or UDP.
        protocol: Protocol,
        /// Our address; `None` for the interface's first that policy allows.
        local: Option<IpAddr>,
        /// Our port.
        port: u16,
    },
    /// Says that this program takes no new flows of a port that it holds together with others, and goes on with those that it
    /// has. Answered by `Done`.
    Retire {
        /// Which.
        grant: GrantId,
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
    /// Offers a grant to the one that presents the ticket: both hold it then, and packets go on arriving here until this
    /// side releases it; those of a divided grant arrive at both, each flow at one. A connection is offered to one at a time:
    /// what was offered of it earlier is withdrawn. Answered by `Ticket`.
    Share {
        /// Which.
        grant: GrantId,
    },
    /// Takes back what was offered of a grant that is not divided: its tickets are good for nothing, and those that have
    /// presented one hold it no more. For the one that its packets go to. Answered by `Done`.
    Withdraw {
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
    /// Asks for the ways past the slot's virtual interface, to send many frames at once through the daemon's checks, and to
    /// receive into memory. A slot gets them once, and a queue of the interface itself has none. Answered by `Bypass`, with
    /// descriptors: the program to be run, the array of frames, the array of the queue, and the array of programs, which is only to
    /// be kept; where live frames can be sent from that memory, the program for it, and a file that tells how many frames the
    /// interface has dropped; and the array that frames arrive in, where they all fit it and the user may have the memory.
    Bypass,
    /// Has a handler deal with the datagrams that come to a UDP port of the slot's, in the kernel, in place of the port's handler
    /// before. Answered by `Downloaded`, with a descriptor of the handler's memory, to be mapped.
    Download {
        /// The port.
        port: u16,
        /// Bytes of its memory, as `exos_ash::Layout` has them.
        memory: u32,
        /// In the language of `exos_ash`.
        handler: String,
    },
    /// Has the program get the datagrams of a UDP port itself again. Answered by `Done`.
    RemoveHandler {
        /// The port; `None` for all that its handlers deal with, requests too.
        port: Option<u16>,
    },
    /// Has requests to a TCP port of the slot's answered in the kernel, and SYNs with them, in place of all of the slot's handlers: at
    /// the addresses at which the slot has the port now. A program on several cores asks for each of its slots, first for the one that
    /// is lent the memory. Answered by `Downloaded`.
    AnswerRequests(Answering),
    /// Asks how everything is. Answered by `Report`, with a descriptor of the text (JSON).
    Status,
    /// Asks the daemon to go without taking anything down, for another to take over. Answered by `Done`.
    StepAside,
}

impl Request {
    /// Reads a datagram from a program: its tag and what it asks.
    pub fn decode(bytes: &[u8]) -> Result<(u32, Self), DecodeError> {
        let mut reader = Reader::new(bytes);
        let (kind, tag) = read_head(&mut reader)?;
        let request = Self::read_fields(kind, &mut reader)?;
        let request = request.ok_or(DecodeError::UnknownKind(kind))?;
        reader.finish()?;
        Ok((tag, request))
    }

    /// The datagram.
    ///
    /// # Panics
    ///
    /// When the entries of [`Request::TimeWait`] are more than fit; texts are cut.
    pub fn encode(&self, tag: u32) -> Vec<u8> {
        encode(self, tag)
    }
}

numbered!(Request {
    1 => Hello { version },
    2 => Attach {
        interface <= INTERFACE_NAME_BYTES_MAX,
        mode,
        chunks,
        program <= PROGRAM_NAME_BYTES_MAX
    },
    3 => Reattach { token },
    4 => Claim { protocol, local, port, remote },
    5 => Narrow { grant, remote, port },
    6 => Release { grant },
    // 7 was that of a request that moved a grant.
    8 => Share { grant },
    9 => Import { ticket },
    10 => Resolve { ip },
    11 => TimeWait { grant, entries <= TIME_WAIT_BYTES_MAX },
    12 => Tap {
        interface <= INTERFACE_NAME_BYTES_MAX,
        filter <= FILTER_BYTES_MAX,
        snap,
        all
    },
    13 => Untap { tap },
    14 => Status,
    15 => StepAside,
    16 => ClaimFilter { filter <= FILTER_BYTES_MAX },
    17 => AwaitSuccessor { grant, ms },
    18 => Bypass,
    19 => ClaimDivided { protocol, local, port },
    20 => Retire { grant },
    21 => Withdraw { grant },
    22 => Download { port, memory, handler <= HANDLER_BYTES_MAX },
    23 => RemoveHandler { port },
    24 => AnswerRequests(answering),
});

/// A number, and the queue's; the latter 0 where none is named.
impl InBytes for Mode {
    fn write(&self, bytes: &mut Vec<u8>) {
        let mode: (u8, u32) = match self {
            Self::Auto => (0, 0),
            Self::Shared => (1, 0),
            Self::Direct(Some(queue)) => (2, *queue),
            Self::Direct(None) => (3, 0),
        };
        mode.write(bytes);
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        match <(u8, u32)>::read(r, field)? {
            (0, 0) => Ok(Self::Auto),
            (1, 0) => Ok(Self::Shared),
            (2, queue) => Ok(Self::Direct(Some(queue))),
            (3, 0) => Ok(Self::Direct(None)),
            _ => Err(DecodeError::BadField(field)),
        }
    }
}

/// A number, and the port's; the latter 0 where none is named.
impl InBytes for PortWish {
    fn write(&self, bytes: &mut Vec<u8>) {
        let wish: (u8, u16) = match self {
            Self::All => (0, 0),
            Self::Ephemeral => (1, 0),
            Self::Number(port) => (2, *port),
        };
        wish.write(bytes);
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        match <(u8, u16)>::read(r, field)? {
            (0, 0) => Ok(Self::All),
            (1, 0) => Ok(Self::Ephemeral),
            (2, port) if port != 0 => Ok(Self::Number(port)),
            _ => Err(DecodeError::BadField(field)),
        }
    }
}
