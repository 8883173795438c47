//! A part of an interface that a daemon lends.

use std::path::PathBuf;

use super::addresses::Prefixed;
use super::role::Role;
use crate::via;

/// A part of an interface that a daemon lends, which knows routes and neighbours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Daemon {
    /// The interface; the only one that the daemon serves when left out.
    pub interface: Option<String>,
    /// Where the daemon listens.
    pub socket: PathBuf,
    /// Which kind of part.
    pub mode: via::Mode,
    /// Which of the daemon's addresses; all that policy allows when none is named.
    pub addresses: Vec<Prefixed>,
    /// What is claimed at the start.
    pub role: Role,
    /// Claim the UDP port of the number that is served too.
    pub datagrams: bool,
    /// Share the port with other programs of this user that do so too: each flow is one program's.
    pub reuse_port: bool,
    /// On how many cores, 64 at most: each has a part of its own, and a stack ([`Exos::take_cores`](crate::Exos::take_cores)). They share the
    /// port as with `reuse_port`.
    pub cores: u32,
}

impl Daemon {
    /// Of the daemon that listens where it is custom.
    pub fn new(role: Role) -> Self {
        Self {
            interface: None,
            socket: via::socket_path(),
            mode: via::Mode::Auto,
            addresses: Vec::new(),
            role,
            datagrams: false,
            reuse_port: false,
            cores: 1,
        }
    }
}
