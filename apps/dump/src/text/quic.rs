//! QUIC's packets with long headers (RFC 9000 §17.2): what each of a datagram is for, and its version.
//!
//! They are recognised by their version on any port. One that negotiates versions has none, and is looked for on HTTP's port.

use exos_wire::quic::{LongHeaderView, PacketType, VERSION_1};

use super::line::Line;
use super::part::Part;

/// HTTP/3 (RFC 9114 §3.1.2).
const PORT_HTTPS: u16 = 443;

impl Line<'_> {
    pub(super) fn quic(&mut self, payload: Part<'_>, (src, dst): (u16, u16)) {
        let is_https = src == PORT_HTTPS || dst == PORT_HTTPS;
        let (mut rest, mut separator) = (payload, ": QUIC ");
        while let Ok(packet) = LongHeaderView::parse(rest.bytes(), rest.len()) {
            let kind = packet.packet_type();
            if kind == PacketType::VersionNegotiation && !is_https {
                return;
            }
            write!(self, "{separator}");
            self.quic_packet(kind, &packet);
            separator = ", ";
            if packet.next().is_empty() {
                return;
            }
            rest = rest.from(rest.bytes().len() - packet.next().len());
        }
    }

    fn quic_packet(&mut self, kind: PacketType, packet: &LongHeaderView<'_>) {
        let name = match kind {
            PacketType::Initial => "Initial",
            PacketType::ZeroRtt => "0-RTT",
            PacketType::Handshake => "Handshake",
            PacketType::Retry => "Retry",
            PacketType::VersionNegotiation => "Version Negotiation",
        };
        write!(self, "{name}");
        match packet.version() {
            0 => {}
            VERSION_1 => write!(self, " v1"),
            _ => write!(self, " v2"),
        }
        if self.style.verbosity > 0 {
            self.hexadecimal(" to ", packet.destination_id());
            self.hexadecimal(" from ", packet.source_id());
        }
    }
}
