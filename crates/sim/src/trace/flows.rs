//! Sequence numbers as distances from their SYN.

use std::collections::HashMap;
use std::net::SocketAddr;

use exos_wire::SeqNumber;

/// Initial sequence numbers, by direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    initial: HashMap<(SocketAddr, SocketAddr), SeqNumber>,
}

impl Flows {
    pub fn began(&mut self, from: SocketAddr, to: SocketAddr, seq: SeqNumber) {
        self.initial.insert((from, to), seq);
    }

    pub fn relative(&self, from: SocketAddr, to: SocketAddr, seq: SeqNumber) -> i64 {
        match self.initial.get(&(from, to)) {
            Some(&initial) => i64::from(seq - initial),
            None => i64::from(seq.0),
        }
    }
}
