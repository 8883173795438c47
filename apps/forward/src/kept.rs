//! Flows kept outside of the program, so that a forwarder that is started after this one goes on with them: their layout.
//!
//! A file has a record for each place of the table, which is written when a flow begins, changes how it stands, or ends; not
//! when a packet comes. A program that is killed at any moment leaves whole records, since each is written by one call. The
//! successor finds the flows by the ends that the header names, so it may have other listeners and servers, in another order.
//!
//! ```text
//! 0         "exosflow"
//! 8         version: u32   places: u32   listeners: u16   servers: u16
//! 20        listeners, 20 bytes each:  protocol: u8  0  port: u16  address: 16
//!           servers, 36 bytes each:    the same, then the address of ours that it sees: 16
//! at a multiple of 4096
//!           records, 32 bytes each:    client: 16  its port: u16  listener: u16  server: u16  port of ours: u16
//!                                      server's initial sequence number: u32  state: u8, 0 for none  0 0 0
//! ```
//!
//! Integers are little-endian, addresses in two such words. What is read was written by a forwarder, or by anybody: it is
//! checked as all that comes from outside.

use std::fmt;

use crate::endpoint::{Address, Endpoint};
use crate::flow::{Flow, State};
use crate::limits::FLOWS_MAX;
use crate::packet::Transport;
use crate::service::Services;

const MAGIC: &[u8; 8] = b"exosflow";
const VERSION: u32 = 1;
const FIXED_LEN: usize = 20;
const LISTENER_LEN: usize = 20;
const SERVER_LEN: usize = 36;

/// Bytes of a record.
pub const RECORD_LEN: usize = 32;

/// Records begin at a multiple of this.
const ALIGNMENT: usize = 4096;

/// A flow as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptFlow {
    /// Of which protocol.
    pub transport: Transport,
    /// The client's end.
    pub client: Endpoint,
    /// Where it came to.
    pub listener: Endpoint,
    /// The server's end.
    pub server: Endpoint,
    /// The address of ours that the server sees.
    pub ours: Address,
    /// And the port.
    pub our_port: u16,
    /// The sequence number of the server's SYN.
    pub server_isn: u32,
    /// How it stands.
    pub state: State,
}

/// Why bytes are no kept flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// They are something else.
    Strange,
    /// They are of another version.
    Version(u32),
    /// They end too early, or contradict themselves.
    Damaged,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strange => write!(out, "it holds no flows"),
            Self::Version(version) => {
                write!(out, "its flows are of version {version}, not {VERSION}")
            }
            Self::Damaged => write!(out, "its flows are damaged"),
        }
    }
}

/// The header for these listeners and servers, up to where records begin.
pub fn header(services: &Services, places: u32) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend(places.to_le_bytes());
    out.extend((services.listeners.len() as u16).to_le_bytes());
    out.extend((services.servers.len() as u16).to_le_bytes());
    for listener in &services.listeners {
        put_end(&mut out, listener.transport, listener.at);
    }
    for server in &services.servers {
        put_end(&mut out, server.transport, server.at);
        put_address(&mut out, server.ours);
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    out
}

/// The record of a place.
pub fn record(flow: &Flow) -> [u8; RECORD_LEN] {
    let mut out = [0; RECORD_LEN];
    if !flow.is_there {
        return out;
    }
    let [high, low] = flow.key.client.address.words();
    out[..8].copy_from_slice(&high.to_le_bytes());
    out[8..16].copy_from_slice(&low.to_le_bytes());
    let words = [
        flow.key.client.port,
        flow.key.listener,
        flow.server,
        flow.our_port,
    ];
    for (at, word) in out[16..24].chunks_exact_mut(2).zip(words) {
        at.copy_from_slice(&word.to_le_bytes());
    }
    out[24..28].copy_from_slice(&flow.server_isn.to_le_bytes());
    out[28] = flow.state as u8 + 1;
    out
}

/// The flows that a file has.
///
/// # Errors
///
/// It is none of ours. Records that make no sense are left out.
pub fn read(bytes: &[u8]) -> Result<Vec<KeptFlow>, Unreadable> {
    let (fixed, rest) = bytes
        .split_first_chunk::<FIXED_LEN>()
        .ok_or(Unreadable::Strange)?;
    if !fixed.starts_with(MAGIC) {
        return Err(Unreadable::Strange);
    }
    let (version, places) = (word32(fixed, 8), word32(fixed, 12));
    if version != VERSION {
        return Err(Unreadable::Version(version));
    }
    let (listeners, servers) = (word16(fixed, 16).into(), word16(fixed, 18).into());
    let named = |at: usize, len: usize, count: usize| rest.get(at..at + len * count);
    let listeners_len = LISTENER_LEN * listeners;
    let parts = named(0, LISTENER_LEN, listeners).zip(named(listeners_len, SERVER_LEN, servers));
    let (listeners, servers) = parts.ok_or(Unreadable::Damaged)?;
    let ends = Ends {
        listeners: listeners.chunks_exact(LISTENER_LEN).map(end).collect(),
        servers: servers
            .chunks_exact(SERVER_LEN)
            .map(|bytes| end(bytes).zip(Some(address(&bytes[LISTENER_LEN..]))))
            .collect(),
    };
    let at = (FIXED_LEN + listeners_len + servers.len()).next_multiple_of(ALIGNMENT);
    let records = bytes.get(at..).ok_or(Unreadable::Damaged)?;
    if places > FLOWS_MAX {
        return Err(Unreadable::Damaged);
    }
    let records = records.chunks_exact(RECORD_LEN).take(places as usize);
    Ok(records.filter_map(|record| ends.flow(record)).collect())
}

/// What a header names.
struct Ends {
    listeners: Vec<Option<(Transport, Endpoint)>>,
    servers: Vec<Option<((Transport, Endpoint), Address)>>,
}

impl Ends {
    fn flow(&self, record: &[u8]) -> Option<KeptFlow> {
        let state = *State::ALL.get(usize::from(record[28].checked_sub(1)?))?;
        let (transport, listener) = (*self.listeners.get(usize::from(word16(record, 18)))?)?;
        let ((of_server, server), ours) = (*self.servers.get(usize::from(word16(record, 20)))?)?;
        let flow = KeptFlow {
            transport,
            client: Endpoint {
                address: address(record),
                port: word16(record, 16),
            },
            listener,
            server,
            ours,
            our_port: word16(record, 22),
            server_isn: word32(record, 24),
            state,
        };
        let ipv6 = [listener.address, server.address, ours, flow.client.address];
        let one_family = ipv6.iter().all(|a| a.is_ipv6() == ours.is_ipv6());
        let fits = one_family && of_server == transport && flow.client.port != 0;
        fits.then_some(flow)
    }
}

fn put_end(out: &mut Vec<u8>, transport: Transport, end: Endpoint) {
    out.extend([transport.number(), 0]);
    out.extend(end.port.to_le_bytes());
    put_address(out, end.address);
}

fn put_address(out: &mut Vec<u8>, address: Address) {
    let words = address.words();
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

fn end(bytes: &[u8]) -> Option<(Transport, Endpoint)> {
    let all = [Transport::Tcp, Transport::Udp];
    let transport = all.into_iter().find(|t| t.number() == bytes[0])?;
    let end = Endpoint {
        address: address(&bytes[4..]),
        port: word16(bytes, 2),
    };
    Some((transport, end))
}

fn address(bytes: &[u8]) -> Address {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Address::from_words([word(0), word(8)])
}

fn word16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
