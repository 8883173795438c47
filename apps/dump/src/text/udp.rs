//! UDP (RFC 768), and which port says what is inside.

use exos_wire::protocol;
use exos_wire::udp::LEN;

use super::ip::Upper;
use super::line::Line;
use super::part::{Part, Printed};

/// DNS.
const PORT_DOMAIN: u16 = 53;
/// DNS by multicast (RFC 6762).
const PORT_MDNS: u16 = 5353;

impl Line<'_> {
    pub(super) fn udp(&mut self, part: Part<'_>, upper: &Upper) -> Printed {
        let part = part.of("udp");
        let ports = (part.be16(0), part.be16(2));
        let (Ok(src), Ok(dst)) = ports else {
            self.endpoints(None, upper);
            return part.be16(2).map(|_| ());
        };
        self.endpoints(Some((src, dst)), upper);
        write!(self, ": ");
        if part.len() < LEN {
            write!(self, "truncated-udp {}", part.len());
            return Ok(());
        }
        let length = usize::from(part.be16(4)?);
        if length < LEN {
            write!(self, "truncated-udplength {length}");
            return Ok(());
        }
        if length > part.len() && !upper.is_fragment {
            write!(self, "bad length {} > {}", length - LEN, part.len() - LEN);
            return Ok(());
        }
        let datagram = part.first(length);
        let field = part.be16(6)?;
        // As tcpdump: over IPv4, where it is not obligatory, only with -vv.
        let wanted = self.style.verbosity > u8::from(upper.addresses.is_v4());
        if wanted && !upper.is_fragment && !upper.source_routed {
            // RFC 768 leaves it to the sender, RFC 8200 §8.1 does not.
            if field == 0 && upper.addresses.is_v4() {
                write!(self, "[no cksum] ");
            } else {
                self.checksum("udp", protocol::UDP, (datagram, field), upper);
            }
        }
        self.udp_payload(datagram.from(LEN), (src, dst), upper)
    }

    fn udp_payload(&mut self, payload: Part<'_>, ports: (u16, u16), upper: &Upper) -> Printed {
        let is = |port| ports.0 == port || ports.1 == port;
        if is(PORT_DOMAIN) || is(PORT_MDNS) {
            return self.dns(payload, is(PORT_MDNS) && !is(PORT_DOMAIN));
        }
        write!(self, "UDP, length {}", payload.len());
        if !upper.is_fragment {
            self.quic(payload, ports, upper);
        }
        Ok(())
    }
}
