//! What is measured: the exchanges, and on what wire.

use super::role::Role;
use super::tape::{Plan, Unit};
use crate::stage::args::shown_as_on_the_command_line;
use exos_inet::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Data segments of one turn in the exchanges by turns of several: a quarter of what a ring hands out at most, and a
/// tenth of the window that both stacks have.
const SEGMENTS_A_TURN: usize = 16;

/// An address family.
#[derive(
    Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// What the link says about the checksums of received frames.
#[derive(
    Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// They are correct: a virtual link, or a device that has verified them.
    Verified,
    /// Nothing: the stack verifies them.
    Unknown,
}

/// Whose stack is under test.
#[derive(
    Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum StackKind {
    /// The ExOS stack.
    Exos,
    /// smoltcp.
    Smoltcp,
}

/// An exchange.
#[derive(
    Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// Receive full segments in order, and acknowledge every second one
    Receive,
    /// Receive full segments in order, sixteen per turn, and acknowledge them at its end
    ReceiveBatch,
    /// Receive full segments in order, and acknowledge each
    ReceiveAckEach,
    /// Send full segments, and receive half as many acknowledgements
    Send,
    /// Send full segments, sixteen per turn, in which eight acknowledgements are received
    SendBatch,
    /// Send full segments with pacing: the round trip takes more than a millisecond
    SendPaced,
    /// A connection at the server: open, request, response, close
    Connection,
    /// A request and its response on a connection that stays open
    Request,
}

impl Scenario {
    /// What the program of the side under test does, and the peer's.
    pub(super) const fn roles(self) -> (Role, Role) {
        match self {
            Self::Receive | Self::ReceiveBatch => (Role::Sink, Role::ConnectingSource),
            Self::ReceiveAckEach => (Role::EagerSink, Role::ConnectingSource),
            Self::Send | Self::SendBatch | Self::SendPaced => (Role::Source, Role::ConnectingSink),
            Self::Connection => (Role::ClosingServer, Role::ReconnectingClient),
            Self::Request => (Role::Server, Role::Client),
        }
    }

    /// How it is recorded.
    pub(super) const fn plan(self, operations: u64) -> Plan {
        let (unit, warm_up, step) = match self {
            Self::Receive | Self::ReceiveBatch | Self::ReceiveAckEach => (Unit::DataIn, 4000, 1),
            Self::Send | Self::SendBatch => (Unit::DataOut, 4000, 1),
            Self::SendPaced => (Unit::DataOut, 4000, 25),
            Self::Connection => (Unit::Program, 500, 10),
            Self::Request => (Unit::Program, 500, 10),
        };
        Plan {
            unit,
            warm_up,
            operations,
            step: Duration::from_micros(step),
            frames_a_turn: self.frames_a_turn(),
        }
    }

    /// Frames that are there when the side under test looks: on a link at work, more than one.
    const fn frames_a_turn(self) -> usize {
        match self {
            Self::ReceiveBatch => SEGMENTS_A_TURN,
            // The peer acknowledges every second segment.
            Self::SendBatch => SEGMENTS_A_TURN / 2,
            _ => 1,
        }
    }
}

shown_as_on_the_command_line!(Family, Link, StackKind, Scenario);
