//! Flows kept outside of the program, so that a forwarder that is started after this one goes on with them: their layout.
//!
//! A file has a record for each place of the table, which is written when a flow begins, changes how it stands, or ends; not
//! when a packet comes. A program that is killed at any moment leaves whole records, since each is written by one call. The
//! successor finds the flows by the ends that the file names, so it may have other listeners and servers, in another order.
//!
//! ```text
//! 0         "exosflow"
//! 8         version: u32   places: u32
//! 4096      listeners, 20 bytes each:  protocol: u8, 0 for none  reach: u8  port: u16  address: 16
//! 12288     servers, 36 bytes each:    the same, then the address of ours that it sees: 16
//! 602112    records, 32 bytes each:    client: 16  its port: u16  listener: u16  server: u16  port of ours: u16
//!                                      server's initial sequence number: u32  state: u8, 0 for none  0 0 0
//! ```
//!
//! There is room for as many listeners and servers as there may be, so that they change where they are. One that goes has no
//! records any more when another gets its place.
//!
//! Integers are little-endian, addresses in two such words. What is read was written by a forwarder, or by anybody: it is
//! checked as all that comes from outside.

use std::fmt;
use strum::VariantArray as _;

use crate::flow::{Flow, State};
use crate::limits::{FLOWS_MAX, LISTENERS_MAX, SERVERS_MAX};
use crate::packets::endpoint::{Address, Endpoint};
use crate::packets::packet::Transport;
use crate::packets::reach::Reach;
use crate::service::{Services, Standing};

const MAGIC: &[u8; 8] = b"exosflow";
const VERSION: u32 = 2;
const FIXED_LEN: usize = 16;
const LISTENER_LEN: usize = 20;
const SERVER_LEN: usize = 36;

/// Bytes of a record.
pub const RECORD_LEN: usize = 32;

/// A page, at a multiple of which each part begins.
const PAGE: usize = 4096;
const LISTENERS_AT: usize = PAGE;
const SERVERS_AT: usize = (LISTENERS_AT + LISTENERS_MAX * LISTENER_LEN).next_multiple_of(PAGE);

/// Where records begin.
pub const RECORDS_AT: usize = (SERVERS_AT + SERVERS_MAX * SERVER_LEN).next_multiple_of(PAGE);
const _: () = assert!(SERVERS_AT == 12_288 && RECORDS_AT == 602_112);

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
    /// What is done with its packets.
    pub reach: Reach,
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

/// The beginning of a file with records for this many places.
pub fn fixed(places: u32) -> [u8; FIXED_LEN] {
    let mut out = [0; FIXED_LEN];
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..].copy_from_slice(&places.to_le_bytes());
    out
}

/// The names of listeners and servers that there are now, each part with where it is written.
pub fn names(services: &Services) -> [(usize, Vec<u8>); 2] {
    let mut listeners = Vec::new();
    for listener in &services.listeners {
        let there = listener.standing != Standing::Gone;
        let number = number_of(there, listener.transport, listener.reach);
        put_end(&mut listeners, number, listener.at);
    }
    let mut servers = Vec::new();
    for server in &services.servers {
        let there = server.standing != Standing::Gone;
        let number = number_of(there, server.transport, server.reach);
        put_end(&mut servers, number, server.at);
        put_address(&mut servers, server.ours);
    }
    [(LISTENERS_AT, listeners), (SERVERS_AT, servers)]
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
    let (fixed, _) = bytes
        .split_first_chunk::<FIXED_LEN>()
        .ok_or(Unreadable::Strange)?;
    if !fixed.starts_with(MAGIC) {
        return Err(Unreadable::Strange);
    }
    let (version, places) = (word32(fixed, 8), word32(fixed, 12));
    if version != VERSION {
        return Err(Unreadable::Version(version));
    }
    if bytes.len() < RECORDS_AT || places > FLOWS_MAX {
        return Err(Unreadable::Damaged);
    }
    let part = |from: usize, len: usize| &bytes[from..from + len];
    let ends = Ends {
        listeners: part(LISTENERS_AT, LISTENERS_MAX * LISTENER_LEN)
            .chunks_exact(LISTENER_LEN)
            .map(end)
            .collect(),
        servers: part(SERVERS_AT, SERVERS_MAX * SERVER_LEN)
            .chunks_exact(SERVER_LEN)
            .map(|bytes| end(bytes).zip(Some(address(&bytes[LISTENER_LEN..]))))
            .collect(),
    };
    let records = &bytes[RECORDS_AT..];
    let records = records.chunks_exact(RECORD_LEN).take(places as usize);
    Ok(records.filter_map(|record| ends.flow(record)).collect())
}

/// A listener or a server: of which protocol and by which reach, and where.
type End = ((Transport, Reach), Endpoint);

/// What a file names.
struct Ends {
    listeners: Vec<Option<End>>,
    servers: Vec<Option<(End, Address)>>,
}

impl Ends {
    fn flow(&self, record: &[u8]) -> Option<KeptFlow> {
        let state = *State::VARIANTS.get(usize::from(record[28].checked_sub(1)?))?;
        let (what, listener) = (*self.listeners.get(usize::from(word16(record, 18)))?)?;
        let ((of_server, server), ours) = (*self.servers.get(usize::from(word16(record, 20)))?)?;
        let (transport, reach) = what;
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
            reach,
            state,
        };
        let ipv6 = [listener.address, server.address, ours, flow.client.address];
        let one_family = ipv6.iter().all(|a| a.is_ipv6() == ours.is_ipv6());
        let fits = one_family && of_server == what && flow.client.port != 0;
        fits.then_some(flow)
    }
}

/// What a listener or a server begins with: its protocol, 0 where there is none, and its reach.
fn number_of(is_there: bool, transport: Transport, reach: Reach) -> [u8; 2] {
    [if is_there { transport.number() } else { 0 }, reach as u8]
}

fn put_end(out: &mut Vec<u8>, number: [u8; 2], end: Endpoint) {
    out.extend(number);
    out.extend(end.port.to_le_bytes());
    put_address(out, end.address);
}

fn put_address(out: &mut Vec<u8>, address: Address) {
    let words = address.words();
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

fn end(bytes: &[u8]) -> Option<End> {
    let all = [Transport::Tcp, Transport::Udp];
    let transport = all.into_iter().find(|t| t.number() == bytes[0])?;
    let reach = *Reach::ALL.get(usize::from(bytes[1]))?;
    let end = Endpoint {
        address: address(&bytes[4..]),
        port: word16(bytes, 2),
    };
    Some(((transport, reach), end))
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
