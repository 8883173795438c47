//! ICMPv6 (RFC 4443), neighbour discovery (RFC 4861) and listener discovery (RFC 2710) among it.

use exos_wire::icmpv6::{
    ECHO_REPLY, ECHO_REQUEST, LEN, NEIGHBOR_ADVERTISEMENT, NEIGHBOR_SOLICITATION, PACKET_TOO_BIG,
    PARAMETER_PROBLEM, ROUTER_ADVERTISEMENT, ROUTER_SOLICITATION, TIME_EXCEEDED, UNREACHABLE,
    UNREACHABLE_PORT,
};
use exos_wire::ndp::{OPTION_MTU, OPTION_PREFIX, OPTION_SOURCE_MAC, OPTION_TARGET_MAC};
use exos_wire::{Mac, ipv6, protocol};

use super::ip::{Upper, flag_names};
use super::line::Line;
use super::part::{Cut, Part, Printed};

const LISTENER_QUERY: u8 = 130;
const LISTENER_REPORT: u8 = 131;
const LISTENER_DONE: u8 = 132;
const REDIRECT: u8 = 137;
const LISTENER_REPORT_V2: u8 = 143;

fn name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        UNREACHABLE => "destination unreachable",
        PACKET_TOO_BIG => "packet too big",
        TIME_EXCEEDED => "time exceeded in-transit",
        PARAMETER_PROBLEM => "parameter problem",
        ECHO_REQUEST => "echo request",
        ECHO_REPLY => "echo reply",
        LISTENER_QUERY => "multicast listener query",
        LISTENER_REPORT => "multicast listener report",
        LISTENER_DONE => "multicast listener done",
        ROUTER_SOLICITATION => "router solicitation",
        ROUTER_ADVERTISEMENT => "router advertisement",
        NEIGHBOR_SOLICITATION => "neighbor solicitation",
        NEIGHBOR_ADVERTISEMENT => "neighbor advertisement",
        REDIRECT => "redirect",
        LISTENER_REPORT_V2 => "multicast listener report v2",
        _ => return None,
    })
}

const fn is_neighbour_discovery(kind: u8) -> bool {
    matches!(kind, ROUTER_SOLICITATION..=REDIRECT)
}

impl Line<'_> {
    pub(super) fn icmpv6(&mut self, part: Part<'_>, upper: &Upper) -> Printed {
        let part = part.of("icmp6");
        let (kind, code, field) = (part.u8(0)?, part.u8(1)?, part.be16(2)?);
        let verbose = self.style.verbosity > 0;
        if verbose && !upper.is_fragment && !upper.source_routed {
            self.checksum("icmp6", protocol::ICMPV6, (part, field), upper);
        }
        write!(self, "ICMP6, ");
        match name(kind) {
            Some(name) => write!(self, "{name}"),
            None => write!(self, "unknown icmp6 type ({kind})"),
        }
        if verbose && is_neighbour_discovery(kind) {
            write!(self, ", length {}", part.len());
        }
        match kind {
            UNREACHABLE | PACKET_TOO_BIG | TIME_EXCEEDED | PARAMETER_PROBLEM => {
                self.icmpv6_error(part, kind, code)?;
            }
            ECHO_REQUEST | ECHO_REPLY => {
                write!(self, ", id {}, seq {}", part.be16(4)?, part.be16(6)?);
            }
            LISTENER_QUERY | LISTENER_REPORT | LISTENER_DONE => self.listener(part)?,
            LISTENER_REPORT_V2 => self.listener_report(part)?,
            ROUTER_SOLICITATION..=REDIRECT => self.neighbour_discovery(part, kind)?,
            _ => {
                write!(self, ", length {}", part.len());
                self.unread(part.bytes());
                return Ok(());
            }
        }
        if !verbose {
            write!(self, ", length {}", part.len());
        }
        Ok(())
    }

    fn icmpv6_error(&mut self, part: Part<'_>, kind: u8, code: u8) -> Printed {
        let quoted = part.from(LEN);
        if kind == PACKET_TOO_BIG {
            write!(self, ", mtu {}", part.be32(4)?);
            return Ok(());
        }
        let dst = quoted.ipv6(24)?;
        match (kind, code) {
            (UNREACHABLE, _) => self.unreachable_v6(quoted, code)?,
            (TIME_EXCEEDED, 0) => write!(self, " for {dst}"),
            (TIME_EXCEEDED, 1) => write!(self, " (reassembly)"),
            (TIME_EXCEEDED, _) => write!(self, ", unknown code ({code})"),
            (_, 0) => write!(self, ", erroneous - octet {}", part.be32(4)?),
            (_, 1) => write!(self, ", next header - octet {}", part.be32(4)?),
            (_, 2) => write!(self, ", option - octet {}", part.be32(4)?),
            // RFC 7112 §5.
            (_, 3) => write!(self, ", incomplete header chain - octet {}", part.be32(4)?),
            _ => write!(self, ", code-#{code}"),
        }
        Ok(())
    }

    /// RFC 4443 §3.1.
    fn unreachable_v6(&mut self, quoted: Part<'_>, code: u8) -> Printed {
        let (src, dst) = (quoted.ipv6(8)?, quoted.ipv6(24)?);
        match code {
            0 => write!(self, ", unreachable route {dst}"),
            1 => write!(self, ", unreachable prohibited {dst}"),
            2 => write!(self, ", beyond scope {dst}, source address {src}"),
            3 => write!(self, ", unreachable address {dst}"),
            UNREACHABLE_PORT => {
                write!(self, ", unreachable port");
                let (protocol, port) = quoted_port(quoted)?;
                match protocol {
                    protocol::TCP => write!(self, ", {dst} tcp port {port}"),
                    protocol::UDP => write!(self, ", {dst} udp port {port}"),
                    _ => write!(self, ", {dst} protocol {protocol} port {port} unreachable"),
                }
            }
            _ => write!(self, ", unknown unreach code ({code})"),
        }
        Ok(())
    }

    /// RFC 2710 §3; a query of RFC 3810 §5.1 is longer.
    fn listener(&mut self, part: Part<'_>) -> Printed {
        let is_second = part.u8(0)? == LISTENER_QUERY && part.len() >= 28;
        let (delay, group) = (part.be16(4)?, part.ipv6(8)?);
        if is_second {
            write!(self, " v2");
            if self.style.verbosity > 0 {
                write!(self, " [max resp delay={delay}]");
            }
            write!(self, " [gaddr {group}]");
        } else {
            write!(self, "max resp delay: {delay} addr: {group}");
        }
        Ok(())
    }

    /// RFC 3810 §5.2.
    fn listener_report(&mut self, part: Part<'_>) -> Printed {
        let records = part.be16(6)?;
        write!(self, ", {records} group record(s)");
        if self.style.verbosity == 0 {
            return Ok(());
        }
        let mut at = LEN;
        for _ in 0..records {
            let (kind, words, sources) = (part.u8(at)?, part.u8(at + 1)?, part.be16(at + 2)?);
            write!(self, " [gaddr {}", part.ipv6(at + 4)?);
            match listener_record(kind) {
                Some(name) => write!(self, " {name}"),
                None => write!(self, " [v2-report-#{kind}]"),
            }
            write!(self, ", {sources} source(s)]");
            at += 20 + 16 * usize::from(sources) + 4 * usize::from(words);
        }
        Ok(())
    }

    fn neighbour_discovery(&mut self, part: Part<'_>, kind: u8) -> Printed {
        let verbose = self.style.verbosity > 0;
        let options_at = match kind {
            ROUTER_SOLICITATION => 8,
            ROUTER_ADVERTISEMENT => {
                if verbose {
                    self.router_advertisement(part)?;
                }
                16
            }
            NEIGHBOR_SOLICITATION => {
                write!(self, ", who has {}", part.ipv6(8)?);
                24
            }
            NEIGHBOR_ADVERTISEMENT => {
                write!(self, ", tgt is {}", part.ipv6(8)?);
                if verbose {
                    let flags = [(7, "router"), (6, "solicited"), (5, "override")];
                    write!(self, ", Flags [{}]", flag_names(part.u8(4)?, &flags));
                }
                24
            }
            _ => {
                write!(self, ", {} to {}", part.ipv6(24)?, part.ipv6(8)?);
                40
            }
        };
        if verbose {
            self.ndp_options(part.from(options_at))?;
        }
        Ok(())
    }

    /// RFC 4861 §4.2, RFC 4191 §2.2.
    fn router_advertisement(&mut self, part: Part<'_>) -> Printed {
        let flags = part.u8(5)?;
        let preference = ["medium", "high", "rsv", "low"][usize::from(flags >> 3 & 3)];
        let names = [(7, "managed"), (6, "other stateful"), (5, "home agent")];
        let names = flag_names(flags, &names);
        write!(
            self,
            "\n\thop limit {}, Flags [{names}], pref {preference}",
            part.u8(4)?
        );
        let (lifetime, reachable, retransmit) = (part.be16(6)?, part.be32(8)?, part.be32(12)?);
        write!(
            self,
            ", router lifetime {lifetime}s, reachable time {reachable}ms"
        );
        write!(self, ", retrans timer {retransmit}ms");
        Ok(())
    }

    /// RFC 4861 §4.6.
    fn ndp_options(&mut self, mut options: Part<'_>) -> Printed {
        while options.len() > 0 {
            let (kind, words) = (options.u8(0)?, options.u8(1)?);
            let len = usize::from(words) * 8;
            write!(
                self,
                "\n\t  {} option ({kind}), length {len} ({words}): ",
                option_name(kind)
            );
            if len == 0 || len > options.len() {
                write!(self, "(invalid)");
                return Ok(());
            }
            let option = options.first(len);
            self.ndp_option(kind, option)?;
            if self.style.verbosity > 1 {
                self.rows("\n\t    ", option.from(2).bytes(), false);
            }
            options = options.from(len);
        }
        Ok(())
    }

    fn ndp_option(&mut self, kind: u8, option: Part<'_>) -> Printed {
        match kind {
            OPTION_SOURCE_MAC | OPTION_TARGET_MAC => write!(self, "{}", Mac(option.array(2)?)),
            OPTION_MTU => write!(self, " {}", option.be32(4)?),
            OPTION_PREFIX => {
                write!(self, "{}/{}", option.ipv6(16)?, option.u8(2)?);
                let flags = [(7, "onlink"), (6, "auto"), (5, "router")];
                write!(self, ", Flags [{}]", flag_names(option.u8(3)?, &flags));
                let (valid, preferred) = (option.be32(4)?, option.be32(8)?);
                write!(
                    self,
                    ", valid time {}, pref. time {}",
                    lifetime(valid),
                    lifetime(preferred)
                );
            }
            _ => {
                option.slice(0, option.len())?;
            }
        }
        Ok(())
    }
}

fn option_name(kind: u8) -> &'static str {
    match kind {
        OPTION_SOURCE_MAC => "source link-address",
        OPTION_TARGET_MAC => "destination link-address",
        OPTION_PREFIX => "prefix info",
        4 => "redirected header",
        OPTION_MTU => "mtu",
        7 => "advertisement interval",
        8 => "homeagent information",
        14 => "nonce",
        24 => "route info",
        25 => "rdnss",
        31 => "dnssl",
        _ => "unknown",
    }
}

fn listener_record(kind: u8) -> Option<&'static str> {
    let names = ["is_in", "is_ex", "to_in", "to_ex", "allow", "block"];
    names.get(usize::from(kind.checked_sub(1)?)).copied()
}

fn lifetime(secs: u32) -> String {
    match secs {
        u32::MAX => "infinity".to_owned(),
        _ => format!("{secs}s"),
    }
}

/// Protocol and destination port of a packet that an error quotes.
fn quoted_port(quoted: Part<'_>) -> Result<(u8, u16), Cut> {
    let protocol = quoted.u8(ipv6::NEXT_HEADER_FIELD)?;
    let payload = quoted.bytes().get(ipv6::LEN..).unwrap_or_default();
    let upper = ipv6::walk(protocol, payload, ipv6::LEN, ipv6::NEXT_HEADER_FIELD, true);
    let upper = upper.map_err(|_| Cut("icmp6"))?;
    let payload = Part::new(upper.payload, upper.payload.len(), "icmp6");
    Ok((upper.protocol, payload.be16(2)?))
}
