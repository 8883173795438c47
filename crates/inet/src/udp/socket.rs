//! One bound socket: what fits it, and the datagrams that wait in it, a bounded number of bytes of them.
//!
//! Invariant: `queued` is the sum of the waiting datagrams' lengths and overheads.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use crate::icmp::ErrorKind;
use crate::limits::{UDP_DATAGRAM_OVERHEAD, UDP_QUEUE_BYTES_MAX};
use crate::udp::fields::HeaderFields;

/// A datagram that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub from: SocketAddr,
    /// The address of ours that it was sent to, from which an answer should come.
    pub to: IpAddr,
    /// What its IP header said besides.
    pub fields: HeaderFields,
    /// The payload.
    pub payload: Vec<u8>,
}

/// How sockets that are bound to one address and port share what comes for it. All of them are bound so, or there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The one that was bound last gets it (`SO_REUSEADDR`).
    Last,
    /// Each gets the datagrams of some flows, by a keyed hash (`SO_REUSEPORT`).
    Spread,
}

#[derive(Debug)]
pub(super) struct Socket {
    /// An address, all of its family (unspecified), or all of both.
    pub local: Option<IpAddr>,
    pub port: u16,
    /// With others that are bound as it is.
    pub sharing: Option<Sharing>,
    pub remote: Option<SocketAddr>,
    /// Of what it sends.
    pub fields: HeaderFields,
    waiting: VecDeque<Received>,
    queued: usize,
    /// How many bytes may wait.
    pub queue_max: usize,
    /// Datagrams for which there was no room.
    pub dropped: u64,
    /// The latest ICMP error, and about what was sent to whom.
    pub error: Option<(SocketAddr, ErrorKind)>,
    /// The program is yet to hear of it by `UdpTable::poll_readable`.
    pub is_told: bool,
}

impl Socket {
    pub fn new(local: Option<IpAddr>, port: u16, sharing: Option<Sharing>) -> Self {
        Self {
            local,
            port,
            sharing,
            remote: None,
            fields: HeaderFields::default(),
            waiting: VecDeque::new(),
            queued: 0,
            queue_max: UDP_QUEUE_BYTES_MAX,
            dropped: 0,
            error: None,
            is_told: false,
        }
    }

    /// Bytes that wait.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// How well the socket fits; `None`: not at all. More is better.
    pub fn fit(&self, from: SocketAddr, to: IpAddr) -> Option<u8> {
        let local = match self.local {
            None => 0,
            Some(all) if all.is_unspecified() && all.is_ipv4() == to.is_ipv4() => 1,
            Some(local) if local == to => 2,
            Some(_) => return None,
        };
        match self.remote {
            Some(remote) if remote != from => None,
            remote => Some(local + 3 * u8::from(remote.is_some())),
        }
    }

    /// Hear `remote` alone from now on; what waits from others is dropped.
    pub fn connect(&mut self, remote: Option<SocketAddr>) {
        self.remote = remote;
        // What was said of another is of no interest any more.
        self.error.take_if(|(of, _)| Some(*of) != remote);
        if let Some(remote) = remote {
            self.waiting.retain(|r| r.from == remote);
            self.queued = self.waiting.iter().map(cost_of).sum();
        }
    }

    /// False where there is no room.
    pub fn push(
        &mut self,
        from: SocketAddr,
        to: IpAddr,
        (fields, payload): (HeaderFields, &[u8]),
    ) -> bool {
        if self.queued + payload.len() + UDP_DATAGRAM_OVERHEAD > self.queue_max {
            self.dropped += 1;
            return false;
        }
        let received = Received {
            from,
            to,
            fields,
            payload: payload.to_vec(),
        };
        self.queued += cost_of(&received);
        self.waiting.push_back(received);
        true
    }

    /// The oldest, which stays.
    pub fn oldest(&self) -> Option<&Received> {
        self.waiting.front()
    }

    /// The oldest.
    pub fn take(&mut self) -> Option<Received> {
        let received = self.waiting.pop_front()?;
        self.queued -= cost_of(&received);
        Some(received)
    }
}

fn cost_of(received: &Received) -> usize {
    received.payload.len() + UDP_DATAGRAM_OVERHEAD
}
