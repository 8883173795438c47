//! 0-RTT packets that were captured before the Initial packet with which their connection begins: the two go to the same identifier
//! (RFC 9000 §17.2.3), and nothing else says whose they are.

use std::collections::VecDeque;

use super::Endpoint;
use super::half::Packet;
use super::names::Id;
use crate::limits::{QUIC_EARLY_HELD_MAX, WAITING_COST};

/// The packets, the oldest first.
#[derive(Debug, Default)]
pub(super) struct EarlyPackets {
    packets: VecDeque<(Client, Packet<Vec<u8>>)>,
    held: usize,
}

/// From where it sends, and to which identifier.
type Client = (Endpoint, Id);

impl EarlyPackets {
    /// Keeps a packet, for which the oldest go; true when it is the first one of this client.
    pub(super) fn keep(&mut self, client: Client, packet: Packet<Vec<u8>>) -> bool {
        let is_first = self.packets.iter().all(|(of, _)| *of != client);
        self.held += cost(&packet);
        self.packets.push_back((client, packet));
        while self.held > QUIC_EARLY_HELD_MAX
            && let Some((_, oldest)) = self.packets.pop_front()
        {
            self.held -= cost(&oldest);
        }
        is_first
    }

    /// Gives those of this client, whose connection has begun.
    pub(super) fn take(&mut self, client: Client) -> Vec<Packet<Vec<u8>>> {
        let mut taken = Vec::new();
        for (of, packet) in std::mem::take(&mut self.packets) {
            if of == client {
                self.held -= cost(&packet);
                taken.push(packet);
            } else {
                self.packets.push_back((of, packet));
            }
        }
        taken
    }
}

fn cost(packet: &Packet<Vec<u8>>) -> usize {
    WAITING_COST + packet.bytes.len()
}
