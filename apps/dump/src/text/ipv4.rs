//! IPv4 (RFC 791): addresses, and with `-v` the rest of the header.

use exos_wire::ipv4::{Ipv4View, LEN};
use exos_wire::{Sum, WireError, protocol};

use super::ip::{Addresses, Upper, flag_names, protocol_name, right_checksum};
use super::line::Line;
use super::part::{Cut, Part, Printed};

/// The addresses are written with the ports.
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP | protocol::UDP)
}

impl Line<'_> {
    /// A packet, from its header on.
    pub(super) fn ipv4(&mut self, part: Part<'_>) -> Printed {
        let part = part.of("ip");
        let version = part.u8(0)? >> 4;
        if version != 4 {
            match version {
                6 => write!(self, "IP6, wrong link-layer encapsulation (invalid)"),
                _ => write!(self, "IP{version} (invalid)"),
            }
            return Ok(());
        }
        if !self.style.link_header {
            write!(self, "IP ");
        }
        match Ipv4View::parse_quoted(part.bytes()) {
            Ok(view) => self.ipv4_packet(part, &view),
            Err(WireError::BadLength { length, .. }) => self.ipv4_bad(part, length),
            Err(_) => self.ipv4_cut(part),
        }
    }

    /// A length field contradicts itself.
    fn ipv4_bad(&mut self, part: Part<'_>, length: usize) -> Printed {
        let header_len = usize::from(part.u8(0)? & 0xf) * 4;
        if header_len < LEN {
            write!(self, "bad-hlen {length}");
        } else {
            self.ipv4_missing(length, part.len());
            write!(self, "bad-len {length}");
        }
        Ok(())
    }

    /// The header is not there as a whole: cut by the capture, or too short on the wire.
    fn ipv4_cut(&mut self, part: Part<'_>) -> Printed {
        if part.bytes().len() < LEN && part.len() >= LEN {
            return Err(Cut("ip"));
        }
        if part.len() < LEN {
            write!(self, "truncated-ip {}", part.len());
            return Ok(());
        }
        // The options are not all there. With -v the addresses stand behind them, with ports behind the header.
        let (total_len, src, dst) = (part.be16(2)?, part.ipv4(12)?, part.ipv4(16)?);
        self.ipv4_missing(total_len.into(), part.len());
        if self.style.verbosity == 0 {
            let protocol = part.u8(9)?;
            if part.be16(6)? & 0x1fff != 0 {
                write!(self, "{src} > {dst}: ip-proto-{protocol}");
                return Ok(());
            }
            if !has_ports(protocol) {
                write!(self, "{src} > {dst}: ");
            }
            let (there, header) = (part.bytes().len(), usize::from(part.u8(0)? & 0xf) * 4);
            write!(
                self,
                " [remaining caplen({there}) < header length({header})]"
            );
        }
        Err(Cut("ip"))
    }

    fn ipv4_missing(&mut self, total_len: usize, there: usize) {
        if let missing @ 1.. = total_len.saturating_sub(there) {
            write!(self, "truncated-ip - {missing} bytes missing! ");
        }
    }

    fn ipv4_packet(&mut self, part: Part<'_>, view: &Ipv4View<'_>) -> Printed {
        self.ipv4_missing(view.total_len(), part.len());
        if self.style.verbosity > 0 {
            self.ipv4_header(view);
        }
        let (src, dst) = (view.src(), view.dst());
        if view.fragment_offset() != 0 {
            write!(self, "{src} > {dst}: ip-proto-{}", view.protocol());
            return Ok(());
        }
        if !has_ports(view.protocol()) {
            write!(self, "{src} > {dst}: ");
        }
        // What is on the wire may be shorter than the header says, and is never longer.
        let packet = part.first(view.total_len());
        let upper = Upper {
            addresses: Addresses::V4(src, dst),
            is_first_header: true,
            is_fragment: view.more_fragments(),
            source_routed: has_source_route(view),
        };
        let len = view.total_len() - view.header_len();
        let payload = Part::new(packet.from(view.header_len()).bytes(), len, "ip");
        self.upper(view.protocol(), payload, &upper)
    }

    fn ipv4_header(&mut self, view: &Ipv4View<'_>) {
        let ecn = ["", ",ECT(1)", ",ECT(0)", ",CE"][usize::from(view.tos() & 3)];
        write!(self, "(tos {:#x}{ecn}", view.tos());
        if view.ttl() > 0 {
            write!(self, ", ttl {}", view.ttl());
        }
        let offset = view.fragment_offset();
        write!(self, ", id {}, offset {offset}, flags [", view.ident());
        let names = [(5, "+"), (6, "DF"), (7, "rsvd")];
        write!(self, "{}", flag_names(view.header()[6], &names));
        let protocol = view.protocol();
        write!(
            self,
            "], proto {} ({protocol}), length {}",
            protocol_name(protocol),
            view.total_len()
        );
        if !view.options().is_empty() {
            write!(self, ", options (");
            self.ipv4_options(view.options());
            write!(self, ")");
        }
        let sum = Sum::of(view.header());
        if !sum.is_intact() {
            let field = view.header_checksum();
            let right = right_checksum(sum, field);
            write!(self, ", bad cksum {field:x} (->{right:x})!");
        }
        write!(self, ")\n    ");
    }

    /// The options' names, and the addresses of routes.
    fn ipv4_options(&mut self, mut options: &[u8]) {
        let mut separator = "";
        while let Some(&kind) = options.first() {
            write!(self, "{separator}");
            separator = ",";
            match option_name(kind) {
                Some(name) => write!(self, "{name}"),
                None => write!(self, "unknown {kind}"),
            }
            if kind == OPTION_END {
                return;
            }
            if kind == OPTION_NOP {
                options = &options[1..];
                continue;
            }
            let len = usize::from(options.get(1).copied().unwrap_or(0));
            let Some((option, rest)) = options.split_at_checked(len).filter(|_| len >= 2) else {
                write!(self, " [bad length {len}]");
                return;
            };
            self.ipv4_option(kind, option);
            options = rest;
        }
    }

    fn ipv4_option(&mut self, kind: u8, option: &[u8]) {
        match kind {
            OPTION_RECORD_ROUTE | OPTION_LOOSE_ROUTE | OPTION_STRICT_ROUTE => {
                self.ipv4_route(option)
            }
            OPTION_ROUTER_ALERT => match option {
                [_, _, high, low, ..] if (*high, *low) != (0, 0) => {
                    write!(self, " value {}", u16::from_be_bytes([*high, *low]));
                }
                [_, _, _, _, ..] => {}
                _ => write!(self, " [bad length {}]", option.len()),
            },
            _ => {}
        }
    }

    /// RFC 791 §3.1: a pointer, which counts from 1, and addresses; those before it are done.
    fn ipv4_route(&mut self, option: &[u8]) {
        let [_, _, pointer, addresses @ ..] = option else {
            write!(self, " [bad length {}]", option.len());
            return;
        };
        if addresses.len() % 4 != 0 {
            write!(self, " [bad length {}]", option.len());
        }
        let at = usize::from(*pointer).wrapping_sub(1);
        if at < 3 || !at.wrapping_add(1).is_multiple_of(4) || at > option.len() + 1 {
            write!(self, " [bad ptr {pointer}]");
        }
        for (i, address) in addresses.as_chunks::<4>().0.iter().enumerate() {
            write!(self, " {}", std::net::Ipv4Addr::from(*address));
            if at > 3 + 4 * i && at != usize::MAX {
                write!(self, ",");
            }
        }
    }
}

const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_RECORD_ROUTE: u8 = 7;
const OPTION_TIMESTAMP: u8 = 68;
const OPTION_LOOSE_ROUTE: u8 = 131;
const OPTION_STRICT_ROUTE: u8 = 137;
const OPTION_ROUTER_ALERT: u8 = 148;

fn option_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        OPTION_END => "EOL",
        OPTION_NOP => "NOP",
        OPTION_RECORD_ROUTE => "RR",
        OPTION_TIMESTAMP => "timestamp",
        82 => "traceroute",
        130 => "security",
        OPTION_LOOSE_ROUTE => "LSRR",
        OPTION_STRICT_ROUTE => "SSRR",
        OPTION_ROUTER_ALERT => "RA",
        _ => return None,
    })
}

/// The pseudo header then holds the last address of the route, and the checksum is not judged.
fn has_source_route(view: &Ipv4View<'_>) -> bool {
    view.options_iter().any(|option| {
        option.is_ok_and(|o| matches!(o.kind, OPTION_LOOSE_ROUTE | OPTION_STRICT_ROUTE))
    })
}
