//! What is measured: the exchanges, and on what wire.

use super::exos::Role;
use super::tape::{Plan, Unit};
use exos_inet::Duration;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An address family.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// What the link says about the checksums of received frames.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// They are right: a virtual link, or a device that has verified them.
    Verified,
    /// Nothing: the stack verifies them.
    Unknown,
}

/// Whose stack is under test.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum StackKind {
    /// Ours.
    Exos,
    /// smoltcp.
    Smoltcp,
}

/// An exchange.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// A full segment received in order, every second one acknowledged
    Receive,
    /// A full segment received in order, each acknowledged
    ReceiveAckEach,
    /// A full segment sent, and half an acknowledgement received
    Send,
    /// The same at a round trip of more than a millisecond, where data leaves at a pace
    SendPaced,
    /// A connection at the server: open, request, response, close
    Connection,
    /// A request and its response on a connection that stays
    Request,
}

impl Scenario {
    /// All, in the order of the table.
    pub(super) const ALL: [Self; 6] = [
        Self::Receive,
        Self::ReceiveAckEach,
        Self::Send,
        Self::SendPaced,
        Self::Connection,
        Self::Request,
    ];

    /// The most instructions that one operation should take, where a limit was set.
    pub const fn goal(self) -> Option<u32> {
        match self {
            Self::Receive | Self::ReceiveAckEach | Self::Send => Some(350),
            Self::Connection => Some(2500),
            Self::SendPaced | Self::Request => None,
        }
    }

    /// What the program of the side under test does, and the peer's.
    pub(super) const fn roles(self) -> (Role, Role) {
        match self {
            Self::Receive => (Role::Sink, Role::ConnectingSource),
            Self::ReceiveAckEach => (Role::EagerSink, Role::ConnectingSource),
            Self::Send | Self::SendPaced => (Role::Source, Role::ConnectingSink),
            Self::Connection => (Role::ClosingServer, Role::ReconnectingClient),
            Self::Request => (Role::Server, Role::Client),
        }
    }

    /// How it is recorded.
    pub(super) const fn plan(self, operations: u64) -> Plan {
        let (unit, warm_up, step) = match self {
            Self::Receive | Self::ReceiveAckEach => (Unit::DataIn, 4000, 1),
            Self::Send => (Unit::DataOut, 4000, 1),
            Self::SendPaced => (Unit::DataOut, 4000, 25),
            Self::Connection => (Unit::Program, 500, 10),
            Self::Request => (Unit::Program, 500, 10),
        };
        Plan {
            unit,
            warm_up,
            operations,
            step: Duration::from_micros(step),
        }
    }
}

macro_rules! shown_as_on_the_command_line {
    ($($kind:ty),*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let value = clap::ValueEnum::to_possible_value(self).expect("every value has a name");
                f.pad(value.get_name())
            }
        }
    )*};
}

shown_as_on_the_command_line!(Family, Link, StackKind, Scenario);
