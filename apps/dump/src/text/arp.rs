//! ARP (RFC 826), for IPv4 over Ethernet; of others only what they are about.

use exos_wire::Mac;
use exos_wire::WireError;
use exos_wire::arp::{self, ArpPacket, ArpView};

use super::line::Line;
use super::part::{Cut, Part, Printed};

impl Line<'_> {
    pub(super) fn arp(&mut self, part: Part<'_>) -> Printed {
        let part = part.of("arp");
        if !self.style.link_header {
            write!(self, "ARP, ");
        }
        match ArpView::parse(part.bytes()) {
            Ok(view) => self.arp_packet(&view.packet(), part),
            Err(WireError::Truncated { .. }) => return Err(Cut("arp")),
            Err(_) => {
                let (hardware, protocol) = (part.be16(0)?, part.be16(2)?);
                let lengths = (part.u8(4)?, part.u8(5)?);
                write!(self, "Unknown Hardware ({hardware}) (len {}), ", lengths.0);
                write!(
                    self,
                    "Unknown Protocol ({protocol:#06x}) (len {})",
                    lengths.1
                );
                write!(self, ", length {}", part.len());
            }
        }
        Ok(())
    }

    fn arp_packet(&mut self, packet: &ArpPacket, part: Part<'_>) {
        if self.style.verbosity > 0 {
            write!(self, "Ethernet (len 6), IPv4 (len 4), ");
        }
        let ArpPacket {
            sender_mac,
            sender_ip,
            target_mac,
            target_ip,
            ..
        } = packet;
        match packet.operation {
            arp::REQUEST => {
                write!(self, "Request who-has {target_ip}");
                // Meaningless in a request, so that it is worth a look when it is there.
                if *target_mac != Mac::ZERO {
                    write!(self, " ({target_mac})");
                }
                write!(self, " tell {sender_ip}");
            }
            arp::REPLY => write!(self, "Reply {sender_ip} is-at {sender_mac}"),
            operation => {
                write!(self, "Unknown ({operation}) ");
                self.unread(part.bytes());
                return;
            }
        }
        write!(self, ", length {}", part.len());
    }
}
