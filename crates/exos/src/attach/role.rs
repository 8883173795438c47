//! What a program has of addresses that others use too, and the rules that take packets for it.

use std::net::SocketAddr;

use exos_filter::Filter;
use exos_filter::program::{Action, Rule};
use exos_host::Error;

/// What a program does on addresses that others use too.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Role {
    /// It has these TCP ports, to listen at or to connect from.
    Serve(Vec<u16>),
    /// It connects, from ports that it gets for each connection. Beside the host it must be said to whom.
    Connect(Vec<SocketAddr>),
}

/// What the text says, of frames of no VLAN: other VLANs of the interface are the host's.
pub(crate) fn rule(text: &str) -> Result<Rule, Error> {
    let filter = Filter::parse(&format!("({text}) and (not vlan or vlan 0)"))
        .map_err(|e| Error::new(format!("a filter of our own is wrong: {e}")))?;
    Ok(Rule {
        filter,
        action: Action::RedirectToSocket,
    })
}
