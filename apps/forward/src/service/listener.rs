//! A listener, and the servers as it knows them.

use super::end::{Standing, hash};
use super::table::{NextTable, Table};
use crate::packets::endpoint::Endpoint;
use crate::packets::packet::Transport;
use crate::packets::reach::Reach;
use crate::packets::traffic::Traffic;

/// A server, as a listener knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place among all servers.
    pub server: u16,
    /// How much it is to get compared with others.
    pub weight: u16,
    /// It is to have no new flows, whatever its weight.
    pub is_draining: bool,
    /// It is well; if not, it is to have none either.
    pub is_well: bool,
    /// How much it is due for a turn.
    pub(super) credit: i64,
}

impl Member {
    /// What it gets now.
    pub fn effective_weight(&self) -> u16 {
        if self.is_draining || !self.is_well {
            0
        } else {
            self.weight
        }
    }
}

/// A listener.
pub struct Listener {
    /// Of which protocol.
    pub transport: Transport,
    /// Where.
    pub at: Endpoint,
    /// What is done with packets that come there.
    pub reach: Reach,
    /// Whether it takes new flows.
    pub standing: Standing,
    /// Flows that came to it and are there.
    pub flows: u32,
    /// Flows that began here so far.
    pub begun: u64,
    /// First packets for which there was no server, no port or no room.
    pub refused: u64,
    /// What has gone through.
    pub traffic: Traffic,
    pub(super) members: Vec<Member>,
    pub(super) table: Option<Table>,
    pub(super) next: NextTable,
    /// Entries of its tables; as many as long as it is there, since in another size nearly everything moves.
    pub(super) table_len: usize,
    /// No two of its servers have one address.
    pub(super) has_an_address_each: bool,
}

impl Listener {
    pub(super) fn hash(&self) -> u64 {
        hash(self.transport, self.at)
    }

    /// Its servers.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// What it says of this server.
    pub fn member(&self, server: u16) -> Option<&Member> {
        self.members.iter().find(|member| member.server == server)
    }
}
