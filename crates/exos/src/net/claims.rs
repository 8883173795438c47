//! Ports of addresses that a daemon lends: for listeners, for sockets of datagrams, one for each connection that is opened, and
//! what comes with a connection of another process.
//!
//! A lent port that a connection was opened from serves the next connection to that peer; those to peers that are not asked any
//! more are given back. What came with a connection is given back at its end, behind its last segment.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

use exos_inet::tcp::Flow;
use slab::Slab;

use super::errors;
use crate::limits::LENT_PORTS_IDLE;
use crate::node::Exos;
use crate::via::{GrantId, Lend, Protocol};

/// What is lent for one connection.
#[derive(Debug)]
struct Source {
    to: SocketAddr,
    from: SocketAddr,
    grant: GrantId,
    /// It came with a connection of another process, or is ready to go to one: no other connection is opened by it.
    travels: bool,
}

/// What the daemon lends for connections that are opened.
#[derive(Debug, Default)]
pub(super) struct Claims {
    sources: Slab<Source>,
    /// Those that no connection has, the one used longest ago first.
    idle: VecDeque<usize>,
    /// To be given back once what was sent under them has left.
    ended: Vec<GrantId>,
}

impl Claims {
    /// From where to connect to `to`, and its number here; `None` leaves it to the stack. `taken` says which the stack
    /// will not have yet.
    pub fn source(
        &mut self,
        exos: &mut Exos,
        to: SocketAddr,
        taken: impl Fn(&Exos, SocketAddr) -> bool,
    ) -> io::Result<Option<(usize, SocketAddr)>> {
        // What comes back within the stack concerns no other program.
        if exos.via().is_none() || exos.stack.has_address(to.ip()) {
            return Ok(None);
        }
        // What the daemon has asked back is used no more.
        let kept: Vec<GrantId> = exos.via().map_or_else(Vec::new, |via| {
            via.grants_kept().map(|(grant, _)| *grant).collect()
        });
        let fits = |&key: &usize| {
            let source = &self.sources[key];
            source.to == to && kept.contains(&source.grant) && !taken(exos, source.from)
        };
        if let Some(at) = self.idle.iter().position(fits) {
            let key = self.idle.remove(at).expect("it is there");
            return Ok(Some((key, self.sources[key].from)));
        }
        let via = exos.via().expect("a daemon lends the link");
        let from = via.claim_ephemeral(to).map_err(errors::of)?;
        let grant = via.grants().last().map(|(grant, _)| *grant);
        let grant = grant.expect("what was claimed last is the last grant");
        let travels = false;
        let key = self.sources.insert(Source {
            to,
            from,
            grant,
            travels,
        });
        Ok(Some((key, from)))
    }

    /// The connection is over, or was not opened.
    pub fn is_free(&mut self, source: usize) {
        match self.sources[source].travels {
            true => self.ended.push(self.sources.remove(source).grant),
            false => self.idle.push_back(source),
        }
    }

    /// The connection stays although it was offered to another process, which may know of it: no other is opened by it.
    pub fn was_offered(&mut self, source: usize) {
        self.sources[source].travels = true;
    }

    /// The grant of a connection that has come from another process, or stays although it was offered to one. Gives its
    /// number here.
    pub fn keep(&mut self, flow: &Flow, grant: GrantId) -> usize {
        self.sources.insert(Source {
            to: flow.remote(),
            from: flow.local(),
            grant,
            travels: true,
        })
    }

    /// The connection has gone to another process, where its packets are to go; `source` is what was lent for it here.
    pub fn has_gone(&mut self, exos: &mut Exos, grant: GrantId, source: Option<usize>) {
        if let Some(source) = source {
            self.sources.remove(source);
        }
        if exos.via().is_some_and(|via| !via.says_release(grant)) {
            self.ended.push(grant);
        }
    }

    /// Gives back what is not needed any more: what was sent has left. A daemon that is away is told when it is back.
    pub fn give_back_ended(&mut self, exos: &mut Exos) {
        while let Some(grant) = self.ended.last() {
            if exos.via().is_some_and(|via| !via.says_release(*grant)) {
                return;
            }
            self.ended.pop();
        }
    }

    /// Something is to be given back, of which the packets come here still.
    pub fn owes(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Gives back what has not been used for longest, where too much is idle.
    pub fn trim(&mut self, exos: &mut Exos) {
        while self.idle.len() > LENT_PORTS_IDLE {
            let Some(key) = self.idle.pop_front() else {
                return;
            };
            give_back(exos, &[self.sources.remove(key).grant]);
        }
    }
}

/// Claims a port of `address`, or of all addresses of the family where it is unspecified; 0 asks for one that is free. Gives the port,
/// and what to give back.
pub(super) fn port(
    exos: &mut Exos,
    protocol: Protocol,
    address: IpAddr,
    port: u16,
) -> io::Result<(u16, Vec<GrantId>)> {
    let Some(via) = exos.via() else {
        return Ok((port, Vec::new()));
    };
    via.lend(Lend {
        protocol,
        address,
        port,
    })
    .map_err(errors::of)
}

/// The daemon may lend these to others. Without a daemon they are nobody's anyway.
pub(super) fn give_back(exos: &mut Exos, grants: &[GrantId]) {
    if let Some(via) = exos.via() {
        for grant in grants {
            let _ = via.release(*grant);
        }
    }
}
