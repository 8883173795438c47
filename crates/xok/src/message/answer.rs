//! What the daemon answers.

use std::fmt;
use std::net::IpAddr;

use exos_wire::Mac;

use super::facts::Facts;
use super::{ANSWERS, GrantId, Secret, header};
use crate::bytes::{DecodeError, Reader, Writer};
use crate::claim::Claim;
use crate::limits::{
    ADDRESSES_MAX, ASKER_BYTES_MAX, GATEWAYS_MAX, INTERFACE_NAME_BYTES_MAX, INTERFACES_MAX,
    TEXT_BYTES_MAX,
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

/// Why a request is refused. The text says it to a person; this to a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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

impl Refusal {
    /// All of them; the position is the number in bytes.
    pub const ALL: [Self; 9] = [
        Self::BadRequest,
        Self::Version,
        Self::NotAllowed,
        Self::Held,
        Self::NotFound,
        Self::Limit,
        Self::System,
        Self::Unsupported,
        Self::Busy,
    ];

    fn number(self) -> u8 {
        let at = Self::ALL.iter().position(|r| *r == self);
        u8::try_from(at.expect("all are listed")).expect("there are 9")
    }

    /// Its name in counters and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Version => "version",
            Self::NotAllowed => "not_allowed",
            Self::Held => "held",
            Self::NotFound => "not_found",
            Self::Limit => "limit",
            Self::System => "system",
            Self::Unsupported => "unsupported",
            Self::Busy => "busy",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
        /// The grants that the slot holds: none after `Attach`.
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
    /// To `Export` and `Share`.
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
}

/// Grants in one `Attached`: as many as fit, at some 50 bytes each.
const ATTACHED_GRANTS_MAX: usize = 1000;

impl Answer {
    pub(super) fn read(kind: u16, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = kind.checked_sub(ANSWERS);
        Ok(match kind {
            Some(0) => Self::Welcome {
                version: r.u16()?,
                pid: r.u32()?,
                interfaces: r.list(INTERFACES_MAX, "interfaces", interface)?,
            },
            Some(1) => Self::Attached {
                slot: r.u32()?,
                token: Secret(r.array()?),
                facts: Facts::read(r)?,
                grants: r.list(ATTACHED_GRANTS_MAX, "grants", |r| Ok((r.u32()?, claim(r)?)))?,
            },
            Some(2) => Self::Granted {
                grant: r.u32()?,
                claim: claim(r)?,
            },
            Some(3) => Self::Done,
            Some(4) => Self::Ticket(Secret(r.array()?)),
            Some(5) => Self::Tapped { tap: r.u32()? },
            Some(6) => Self::Report {
                bytes: r.u32()?,
                asker: r.text(ASKER_BYTES_MAX, "asker")?,
            },
            Some(7) => Self::Refused {
                code: refusal(r)?,
                text: r.text(TEXT_BYTES_MAX, "text")?,
            },
            Some(8) => Self::GrantedFilter { grant: r.u32()? },
            _ => return Err(DecodeError::UnknownKind(kind.map_or(0, |k| k + ANSWERS))),
        })
    }

    /// The datagram. Texts are cut; of a slot's grants the first thousand are told.
    pub fn encode(&self, tag: u32) -> Vec<u8> {
        let mut w = header(ANSWERS + self.kind(), tag);
        match self {
            Self::Welcome {
                version,
                pid,
                interfaces,
            } => {
                w.u16(*version);
                w.u32(*pid);
                w.list(interfaces, INTERFACES_MAX, write_interface);
            }
            Self::Attached {
                slot,
                token,
                facts,
                grants,
            } => {
                w.u32(*slot);
                w.raw(&token.0);
                facts.write(&mut w);
                let told = &grants[..grants.len().min(ATTACHED_GRANTS_MAX)];
                w.list(told, ATTACHED_GRANTS_MAX, |w, (grant, claim)| {
                    w.u32(*grant);
                    write_claim(w, claim);
                });
            }
            Self::Granted { grant, claim } => {
                w.u32(*grant);
                write_claim(&mut w, claim);
            }
            Self::Done => {}
            Self::Ticket(ticket) => w.raw(&ticket.0),
            Self::Tapped { tap } => w.u32(*tap),
            Self::GrantedFilter { grant } => w.u32(*grant),
            Self::Report { bytes, asker } => {
                w.u32(*bytes);
                w.text(asker, ASKER_BYTES_MAX);
            }
            Self::Refused { code, text } => {
                w.u8(code.number());
                w.text(text, TEXT_BYTES_MAX);
            }
        }
        w.bytes
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Welcome { .. } => 0,
            Self::Attached { .. } => 1,
            Self::Granted { .. } => 2,
            Self::Done => 3,
            Self::Ticket(_) => 4,
            Self::Tapped { .. } => 5,
            Self::Report { .. } => 6,
            Self::Refused { .. } => 7,
            Self::GrantedFilter { .. } => 8,
        }
    }
}

fn refusal(r: &mut Reader<'_>) -> Result<Refusal, DecodeError> {
    let number = usize::from(r.u8()?);
    let known = Refusal::ALL.get(number).copied();
    known.ok_or(DecodeError::BadField("code"))
}

fn claim(r: &mut Reader<'_>) -> Result<Claim, DecodeError> {
    let claim = Claim {
        interface: r.u32()?,
        protocol: r.protocol()?,
        local: r.ip()?,
        port: r.u16()?,
        remote: r.option("remote", Reader::endpoint)?,
    };
    claim.check().map_err(|_| DecodeError::BadField("claim"))?;
    Ok(claim)
}

fn write_claim(w: &mut Writer, claim: &Claim) {
    w.u32(claim.interface);
    w.u8(claim.protocol.number());
    w.ip(claim.local);
    w.u16(claim.port);
    w.option(claim.remote, |w, remote| w.endpoint(remote));
}

fn interface(r: &mut Reader<'_>) -> Result<InterfaceInfo, DecodeError> {
    Ok(InterfaceInfo {
        name: r.text(INTERFACE_NAME_BYTES_MAX, "interface")?,
        index: r.u32()?,
        mac: Mac(r.array()?),
        mtu: r.u32()?,
        addresses: r.list(ADDRESSES_MAX, "addresses", |r| {
            Ok(LocalAddress {
                ip: r.ip()?,
                prefix: r.u8()?,
                ours_alone: r.bool("ours alone")?,
            })
        })?,
        gateways: r.list(GATEWAYS_MAX, "gateways", Reader::ip)?,
    })
}

fn write_interface(w: &mut Writer, interface: &InterfaceInfo) {
    w.text(&interface.name, INTERFACE_NAME_BYTES_MAX);
    w.u32(interface.index);
    w.raw(&interface.mac.0);
    w.u32(interface.mtu);
    w.list(&interface.addresses, ADDRESSES_MAX, |w, address| {
        w.ip(address.ip);
        w.u8(address.prefix);
        w.bool(address.ours_alone);
    });
    w.list(&interface.gateways, GATEWAYS_MAX, |w, ip| w.ip(*ip));
}
