//! A server: its health, and how its flows stand.

use super::end::{Standing, hash};
use crate::flow::{Flow, State};
use crate::health::Failure;
use crate::health::passive::Record;
use crate::packets::endpoint::{Address, Endpoint};
use crate::packets::packet::Transport;
use crate::packets::reach::Reach;
use crate::packets::traffic::Traffic;
use crate::ports::Ports;

/// What is known of a server's health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// It has failed checks.
    pub has_failed: bool,
    /// Checks that it has passed so far.
    pub passed: u64,
    /// And failed.
    pub failed: u64,
    /// Why it failed the last one that it did not pass.
    pub failure: Option<Failure>,
    /// Flows that failed to begin: refused, or a SYN sent again that was not answered.
    pub flows_failed: u64,
    /// How often it was made to rest for that.
    pub rests: u64,
    pub(crate) record: Record,
}

impl Health {
    /// True when it is to have new flows.
    pub fn is_well(&self) -> bool {
        !self.has_failed && !self.is_resting()
    }

    /// True while it rests because it has answered nobody.
    pub fn is_resting(&self) -> bool {
        self.record.rests_until.is_some()
    }
}

/// A server.
pub struct Server {
    /// Of which protocol.
    pub transport: Transport,
    /// Where it is.
    pub at: Endpoint,
    /// The address of ours that it sees, if it does not see its clients', and that checks come from.
    pub ours: Address,
    /// How packets reach it.
    pub reach: Reach,
    /// Whether it is behind a listener.
    pub standing: Standing,
    /// The ports of ours that it sees.
    pub ports: Ports,
    /// Its flows.
    pub flows: u32,
    /// Its flows that are not over.
    pub open: u32,
    /// Flows that it was given so far.
    pub begun: u64,
    /// Flows that it refused: it answered a SYN with a reset.
    pub refused: u64,
    /// Flows that were forgotten without a word from it.
    pub unanswered: u64,
    /// What has gone through.
    pub traffic: Traffic,
    /// What is known of its health.
    pub health: Health,
    /// How many listeners it is behind.
    pub(super) listeners: u16,
}

impl Server {
    pub(super) fn hash(&self) -> u64 {
        hash(self.transport, self.at)
    }

    /// A flow of it stands otherwise now.
    pub(crate) fn changed(&mut self, before: State, after: State, by_server: bool) {
        match (before.is_over(), after.is_over()) {
            (false, true) => self.open -= 1,
            (true, false) => self.open += 1,
            (false, false) | (true, true) => {}
        }
        self.refused += u64::from(after == State::Refused && by_server);
    }
}

/// True for a flow of which nobody but the client was heard, as far as that can be told.
pub(crate) fn is_unanswered(flow: &Flow) -> bool {
    match flow.state {
        State::SynSeen | State::Asked => true,
        State::OneWay => flow.reach.hears_servers(),
        _ => false,
    }
}
