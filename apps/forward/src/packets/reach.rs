//! How packets reach servers, and how answers reach clients.

/// How the packets of a listener reach its servers.
#[derive(
    clap::ValueEnum, strum::IntoStaticStr, Clone, Copy, Debug, Default, PartialEq, Eq, Hash,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum Reach {
    /// Servers see this program's address as their client, and need no settings
    #[default]
    Nat,
    /// Servers see the client's own address, and must route answers to clients through this program
    Transparent,
    /// Packets go unchanged to the server's MAC address; the server has the listener's address too, and answers clients
    /// itself
    Direct,
    /// Packets go to the server's own address wrapped in IP-in-IP, to any network; the server unwraps them, has the
    /// listener's address too, and answers clients itself
    Tunnel,
}

impl Reach {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Nat, Self::Transparent, Self::Direct, Self::Tunnel];

    /// True when what servers say comes back through us.
    #[inline]
    pub const fn hears_servers(self) -> bool {
        matches!(self, Self::Nat | Self::Transparent)
    }

    /// True when a server may have another port than its listener.
    pub const fn may_change_port(self) -> bool {
        self.hears_servers()
    }
}
