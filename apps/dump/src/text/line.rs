//! The text of one packet under way, to which each protocol's file adds its part.

use std::fmt;

use exos_wire::protocol;

use super::Style;
use super::conversations::Conversations;
use super::ip::{IP_IN_IP, IPV6_IN_IP, Upper};
use super::part::{Part, Printed};
use crate::decrypt::Decrypter;
use crate::limits::NESTED_MAX;

/// The text of one packet under way. Each protocol's file adds its methods.
pub(super) struct Line<'p> {
    pub(super) out: &'p mut String,
    pub(super) style: Style,
    pub(super) conversations: &'p mut Conversations,
    /// `None` while what it has said is printed.
    pub(super) decrypter: Option<&'p mut Decrypter>,
    /// Bytes of the Ethernet header and its tags.
    pub(super) link_len: usize,
    /// Packets around this one.
    pub(super) depth: u8,
}

impl Line<'_> {
    /// What `write!` calls; text in memory takes everything.
    pub(super) fn write_fmt(&mut self, text: fmt::Arguments<'_>) {
        let _ = fmt::Write::write_fmt(self.out, text);
    }

    /// A packet inside this one.
    pub(super) fn nested(&mut self, print: impl FnOnce(&mut Self) -> Printed) -> Printed {
        if self.depth == NESTED_MAX {
            write!(self, "[more than {NESTED_MAX} packets inside each other]");
            return Ok(());
        }
        self.depth += 1;
        let printed = print(self);
        self.depth -= 1;
        printed
    }

    /// What IP carries.
    pub(super) fn upper(&mut self, protocol: u8, payload: Part<'_>, upper: &Upper) -> Printed {
        match protocol {
            protocol::TCP => self.tcp(payload, upper),
            protocol::UDP => self.udp(payload, upper),
            protocol::ICMP if upper.addresses.is_v4() => self.icmpv4(payload, upper.is_fragment),
            protocol::ICMPV6 => self.icmpv6(payload, upper),
            IP_IN_IP => self.nested(|line| line.ipv4(payload)),
            IPV6_IN_IP => self.nested(|line| line.ipv6(payload)),
            _ => {
                write!(self, " ip-proto-{protocol} {}", payload.len());
                Ok(())
            }
        }
    }

    /// `src.port > dst.port`, without addresses behind an extension header, where they stand already.
    pub(super) fn endpoints(&mut self, ports: Option<(u16, u16)>, upper: &Upper) {
        let (src, dst) = upper.addresses.both();
        match (ports, upper.is_first_header) {
            (Some((from, to)), true) => write!(self, "{src}.{from} > {dst}.{to}"),
            (Some((from, to)), false) => write!(self, "{from} > {to}"),
            (None, _) => write!(self, "{src} > {dst}"),
        }
    }
}
