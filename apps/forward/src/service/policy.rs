//! How a server is chosen for a new flow, as options say it.

/// How a server is chosen.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// By a hash of the client's address and port (Maglev); few clients change servers when servers come and go
    #[default]
    Maglev,
    /// The server with the fewest open connections, relative to its weight
    Least,
    /// Each server in turn, as often as its weight says
    RoundRobin,
}

/// What of a client decides which server it belongs to.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Affinity {
    /// Address and port: each connection by itself, which spreads load evenly
    #[default]
    Connection,
    /// Address only: all connections of a client, to all listeners with the same servers, go to one server, as iperf3
    /// and FTP need it
    Client,
}
