//! What the daemon answers.

use std::net::IpAddr;

use exos_wire::Mac;
use strum::VariantArray as _;

use super::facts::Facts;
use super::head::{GrantId, Secret, encode};
use crate::bytes::{DecodeError, InBytes, Reader, in_bytes, numbered, read_place, write_place};
use crate::claim::Claim;
use crate::limits::{
    ADDRESSES_MAX, ASKER_BYTES_MAX, ATTACHED_GRANTS_MAX, GATEWAYS_MAX, INTERFACE_NAME_BYTES_MAX,
    INTERFACES_MAX, LIVE_BYTES_MAX, TEXT_BYTES_MAX,
};

/// An address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalAddress {
    /// The address.
    pub ip: IpAddr,
    /// How many leading bits it shares with its neighbours on the link.
    pub prefix: u8,
    /// True when the host does not have it: stray packets to it are answered by the daemon, not by the host.
    pub ours_alone: bool,
}

/// An interface that the daemon serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceInfo {
    /// Its name.
    pub name: String,
    /// Its index: that of claims and tables.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: Mac,
    /// The longest IP packet.
    pub mtu: u32,
    /// What may be claimed on it, as far as policy allows.
    pub addresses: Vec<LocalAddress>,
    /// Where packets go that are for no neighbour.
    pub gateways: Vec<IpAddr>,
}

/// Why a request is refused. The text says it to a person; this to a program: in bytes by its place, in counters and JSON by its name.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Debug,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum Refusal {
    /// The message could not be read, or makes no sense now.
    BadRequest,
    /// The two sides speak different versions.
    Version,
    /// Policy does not allow it; the text names the line that would.
    NotAllowed,
    /// It is held by another, whom the text names.
    Held,
    /// There is no such interface, grant, ticket, token or tap, or it is not the asker's.
    NotFound,
    /// A limit of the asker's is reached.
    Limit,
    /// The kernel refused; the text has its reason.
    System,
    /// This daemon cannot do it.
    Unsupported,
    /// Not now: the same may be granted in a moment. The text says in how many milliseconds.
    Busy,
}

impl InBytes for Refusal {
    fn write(&self, bytes: &mut Vec<u8>) {
        write_place(Self::VARIANTS, self, bytes);
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        read_place(Self::VARIANTS, r, field)
    }
}

/// What the daemon answers to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// To `Hello`, with a descriptor of the shared tables, to be mapped for reading.
    Welcome {
        /// The daemon's version of the protocol.
        version: u16,
        /// The daemon's process.
        pid: u32,
        /// What it serves.
        interfaces: Vec<InterfaceInfo>,
    },
    /// To `Attach`, with descriptors: the ring's socket (bound), its memory and, unless it is direct, a packet socket
    /// (bound); and to `Reattach`, with none.
    Attached {
        /// The slot's number.
        slot: u32,
        /// What takes the slot up again after the daemon was away.
        token: Secret,
        /// The ring.
        facts: Facts,
        /// The grants that the slot holds, [`ATTACHED_GRANTS_MAX`] of them at most: none after `Attach`.
        grants: Vec<(GrantId, Claim)>,
    },
    /// To `Claim`, `Narrow` and `Import`.
    Granted {
        /// Its number.
        grant: GrantId,
        /// What was granted: addresses and ports filled in.
        claim: Claim,
    },
    /// It is done.
    Done,
    /// To `Share`.
    Ticket(Secret),
    /// To `Tap`, with a ring buffer's descriptor.
    Tapped {
        /// Its number.
        tap: u32,
    },
    /// To `Status`, with a descriptor of the text, which is the same for all who ask: an object of JSON.
    Report {
        /// Length of the text.
        bytes: u32,
        /// What is about anyone who asks: the object's member `asker`.
        asker: String,
    },
    /// No.
    Refused {
        /// Why, for a program.
        code: Refusal,
        /// Why, and what to do, for a person.
        text: String,
    },
    /// To `ClaimFilter`.
    GrantedFilter {
        /// Its number.
        grant: GrantId,
    },
    /// To `Bypass`, with four descriptors to seven.
    Bypass {
        /// Frames that the array has places for, of as many bytes each as a chunk of the slot's memory.
        places: u32,
        /// The index of the slot's interface on the daemon's side, which frames are said to have come from.
        interface: u32,
        /// What stands before each live frame; empty where none can be sent.
        live: Vec<u8>,
    },
    /// To `Download` and `AnswerRequests`, with a descriptor of the handler's memory.
    Downloaded,
}

impl Answer {
    /// The datagram. Texts are cut.
    ///
    /// # Panics
    ///
    /// When a list is longer than its limit.
    pub fn encode(&self, tag: u32) -> Vec<u8> {
        encode(self, tag)
    }
}

numbered!(Answer {
    64 => Welcome { version, pid, interfaces <= INTERFACES_MAX },
    65 => Attached { slot, token, facts, grants <= ATTACHED_GRANTS_MAX },
    66 => Granted { grant, claim },
    67 => Done,
    68 => Ticket(ticket),
    69 => Tapped { tap },
    70 => Report { bytes, asker <= ASKER_BYTES_MAX },
    71 => Refused { code, text <= TEXT_BYTES_MAX },
    72 => GrantedFilter { grant },
    73 => Bypass { places, interface, live <= LIVE_BYTES_MAX },
    74 => Downloaded,
});

in_bytes!(InterfaceInfo {
    name <= INTERFACE_NAME_BYTES_MAX,
    index,
    mac,
    mtu,
    addresses <= ADDRESSES_MAX,
    gateways <= GATEWAYS_MAX,
});

in_bytes!(LocalAddress {
    ip,
    prefix,
    ours_alone,
});
