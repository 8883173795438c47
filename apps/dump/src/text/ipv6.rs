//! IPv6 (RFC 8200): addresses, each extension header by name, and with `-v` the rest of the header.

use exos_wire::ipv6::{FRAGMENT_LEN, Ipv6View, LEN};
use exos_wire::protocol;

use super::ip::{Addresses, Upper, protocol_name};
use super::line::Line;
use super::part::{Cut, Part, Printed};
use crate::limits::EXTENSION_HEADERS_MAX;

impl Line<'_> {
    /// A packet, from its header on.
    pub(super) fn ipv6(&mut self, part: Part<'_>) -> Printed {
        let part = part.of("ip6");
        let version = part.u8(0)? >> 4;
        if !self.style.link_header {
            write!(self, "IP6 ");
        }
        if version != 6 {
            write!(self, "version error: {version} != 6");
            return Ok(());
        }
        let Ok(view) = Ipv6View::parse_quoted(part.bytes()) else {
            if part.len() >= LEN {
                return Err(Cut("ip6"));
            }
            write!(self, "truncated-ip6 {}", part.len());
            return Ok(());
        };
        if let missing @ 1.. = (LEN + view.payload_len()).saturating_sub(part.len()) {
            write!(self, "truncated-ip6 - {missing} bytes missing!");
        }
        if self.style.verbosity > 0 {
            self.ipv6_header(&view);
        }
        self.ipv6_chain(part, &view)
    }

    fn ipv6_header(&mut self, view: &Ipv6View<'_>) {
        write!(self, "(");
        if view.traffic_class() != 0 {
            write!(self, "class {:#04x}, ", view.traffic_class());
        }
        if view.flow_label() != 0 {
            write!(self, "flowlabel {:#07x}, ", view.flow_label());
        }
        let next = view.next_header();
        write!(
            self,
            "hlim {}, next-header {} ({next}) ",
            view.hop_limit(),
            protocol_name(next)
        );
        write!(self, "payload length: {}) ", view.payload_len());
    }

    /// Extension headers (RFC 8200 §4), then what they carry.
    fn ipv6_chain(&mut self, part: Part<'_>, view: &Ipv6View<'_>) -> Printed {
        let (src, dst) = (view.src(), view.dst());
        let payload = part.from(LEN).bytes();
        let mut rest = Part::new(payload, view.payload_len(), "ip6");
        let mut next = view.next_header();
        let mut upper = Upper {
            addresses: Addresses::V6(src, dst),
            is_first_header: true,
            is_fragment: false,
            source_routed: false,
        };
        if !matches!(next, protocol::TCP | protocol::UDP) {
            write!(self, "{src} > {dst}: ");
        }
        for _ in 0..EXTENSION_HEADERS_MAX {
            let len = match next {
                protocol::HOP_BY_HOP => self.ipv6_options("HBH", rest.of("hbhopt"))?,
                protocol::DESTINATION_OPTIONS => self.ipv6_options("DSTOPT", rest.of("dstopt"))?,
                protocol::ROUTING => {
                    upper.source_routed = true;
                    self.ipv6_routing(rest.of("rt6"))?
                }
                protocol::FRAGMENT => {
                    if !self.ipv6_fragment(rest.of("frag6"))? {
                        return Ok(());
                    }
                    write!(self, " ");
                    upper.is_fragment = true;
                    FRAGMENT_LEN
                }
                protocol::AUTHENTICATION => self.authentication(rest.of("ah"))?,
                protocol::NO_NEXT_HEADER => {
                    write!(self, "no next header");
                    return Ok(());
                }
                _ => return self.upper(next, rest, &upper),
            };
            upper.is_first_header = false;
            next = rest.u8(0)?;
            rest = rest.from(len);
        }
        write!(
            self,
            "[more than {EXTENSION_HEADERS_MAX} extension headers]"
        );
        Ok(())
    }

    /// RFC 8200 §4.2: hop-by-hop or destination options.
    fn ipv6_options(&mut self, name: &str, part: Part<'_>) -> Result<usize, Cut> {
        let len = (usize::from(part.u8(1)?) + 1) * 8;
        let options = part.slice(0, len)?;
        write!(self, "{name} ");
        if self.style.verbosity > 0 {
            self.ipv6_option_list(name == "HBH", &options[2..]);
        }
        Ok(len)
    }

    fn ipv6_option_list(&mut self, is_hop: bool, mut options: &[u8]) {
        while let [kind, rest @ ..] = options {
            if *kind == 0 {
                write!(self, "(pad1)");
                options = rest;
                continue;
            }
            let Some((len, data)) = rest.split_first() else {
                write!(self, "(trunc)");
                return;
            };
            let Some((data, rest)) = data.split_at_checked((*len).into()) else {
                write!(self, "(trunc)");
                return;
            };
            match (kind, data) {
                (1, _) => write!(self, "(padn)"),
                // RFC 2711.
                (5, [a, b]) => write!(self, "(rtalert: 0x{a:02x}{b:02x}) "),
                (5, _) => write!(self, "(rtalert: invalid len {len})"),
                // RFC 2675.
                (0xc2, [a, b, c, d]) => {
                    let where_not = ["", " - not a hop-by-hop option"][usize::from(!is_hop)];
                    let len = u32::from_be_bytes([*a, *b, *c, *d]);
                    write!(self, "(jumbo: {len}{where_not}) ");
                }
                (0xc2, _) => write!(self, "(jumbo: invalid len {len})"),
                _ => write!(self, "(opt_type {kind:#04x}: len={len})"),
            }
            options = rest;
        }
        write!(self, " ");
    }

    /// RFC 8200 §4.4.
    fn ipv6_routing(&mut self, part: Part<'_>) -> Result<usize, Cut> {
        let [_, words, kind, left] = part.array(0)?;
        write!(self, "srcrt (len={words}, type={kind}, segleft={left}");
        let len = (usize::from(words) + 1) * 8;
        // Type 0, and 2 of RFC 6275: addresses of 16 bytes after 4 reserved ones.
        if matches!(kind, 0 | 2) {
            for (i, at) in (8..len.saturating_sub(15)).step_by(16).enumerate() {
                write!(self, ", [{i}]{}", part.ipv6(at)?);
            }
        }
        write!(self, ") ");
        Ok(len)
    }

    /// RFC 8200 §4.5. True for the first, in which the upper layer's header is.
    fn ipv6_fragment(&mut self, part: Part<'_>) -> Result<bool, Cut> {
        let (offset, ident) = (part.be16(2)? & 0xfff8, part.be32(4)?);
        let data = part.len().saturating_sub(FRAGMENT_LEN);
        write!(self, "frag (");
        if self.style.verbosity > 0 {
            write!(self, "{ident:#010x}:");
        }
        write!(self, "{offset}|{data})");
        Ok(offset == 0)
    }

    /// RFC 4302 §2.
    fn authentication(&mut self, part: Part<'_>) -> Result<usize, Cut> {
        let len = (usize::from(part.u8(1)?) + 2) * 4;
        let (index, sequence) = (part.be32(4)?, part.be32(8)?);
        write!(self, "AH(");
        if self.style.verbosity > 0 {
            write!(
                self,
                "length={len}(data-length={}),",
                len.saturating_sub(12)
            );
        }
        write!(self, "spi={index:#010x},");
        if self.style.verbosity > 0 {
            write!(self, "sumlen={},", len.saturating_sub(12));
        }
        write!(self, "seq={sequence:#x},icv=0x");
        for byte in part.slice(12, len.saturating_sub(12))? {
            write!(self, "{byte:02x}");
        }
        write!(self, "): ");
        Ok(len)
    }
}
