//! What has gone through, each way: packets, and their bytes from the IP header on.

use schemars::JsonSchema;
use serde::Serialize;

/// Whose a packet is, and which way it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// The listener's place.
    pub listener: u16,
    /// The server's.
    pub server: u16,
    /// False on the way to the client.
    pub to_server: bool,
}

/// Packets and bytes of a listener or of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Traffic {
    /// Packets sent on to servers.
    pub packets_to_servers: u64,
    /// Their bytes, from the IP header on.
    pub bytes_to_servers: u64,
    /// Packets sent on to clients.
    pub packets_to_clients: u64,
    /// Their bytes, from the IP header on.
    pub bytes_to_clients: u64,
}

impl Traffic {
    /// Notes a packet of this many bytes.
    #[inline]
    pub fn note(&mut self, to_server: bool, bytes: u64) {
        self.note_many(to_server, 1, bytes);
    }

    /// Notes packets of this many bytes together.
    #[inline]
    pub fn note_many(&mut self, to_server: bool, packets: u64, bytes: u64) {
        if to_server {
            self.packets_to_servers += packets;
            self.bytes_to_servers += bytes;
        } else {
            self.packets_to_clients += packets;
            self.bytes_to_clients += bytes;
        }
    }
}
