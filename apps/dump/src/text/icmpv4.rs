//! ICMP (RFC 792): what happened to which packet.

use std::net::Ipv4Addr;

use exos_wire::icmpv4::{
    ECHO_REPLY, ECHO_REQUEST, LEN, PARAMETER_PROBLEM, REDIRECT, TIME_EXCEEDED,
    TIME_EXCEEDED_REASSEMBLY, TIME_EXCEEDED_TTL, UNREACHABLE, UNREACHABLE_FRAGMENTATION_NEEDED,
    UNREACHABLE_PORT, UNREACHABLE_PROTOCOL,
};
use exos_wire::{Sum, protocol};

use super::ip::right_checksum;
use super::line::Line;
use super::part::{Part, Printed};

const SOURCE_QUENCH: u8 = 4;
const TIMESTAMP: u8 = 13;
const TIMESTAMP_REPLY: u8 = 14;

/// What an error quotes of the packet that caused it.
struct Cause {
    dst: Ipv4Addr,
    protocol: u8,
    /// Destination port, if there is one in what is quoted.
    port: u16,
}

impl Line<'_> {
    pub(super) fn icmpv4(&mut self, part: Part<'_>, is_fragment: bool) -> Printed {
        let part = part.of("icmp");
        write!(self, "ICMP ");
        let (kind, code) = (part.u8(0)?, part.u8(1)?);
        match kind {
            ECHO_REQUEST | ECHO_REPLY => self.echo(part, kind)?,
            UNREACHABLE => self.unreachable_v4(part, code)?,
            REDIRECT => self.redirect_v4(part, code)?,
            TIME_EXCEEDED => match code {
                TIME_EXCEEDED_TTL => write!(self, "time exceeded in-transit"),
                TIME_EXCEEDED_REASSEMBLY => write!(self, "ip reassembly time exceeded"),
                _ => write!(self, "time exceeded-#{code}"),
            },
            PARAMETER_PROBLEM => match code {
                0 => write!(self, "parameter problem - octet {}", part.u8(4)?),
                _ => write!(self, "parameter problem - code {code}"),
            },
            SOURCE_QUENCH => write!(self, "source quench"),
            TIMESTAMP | TIMESTAMP_REPLY => self.timestamp(part, kind)?,
            _ => write!(self, "type-#{kind}"),
        }
        write!(self, ", length {}", part.len());
        if self.style.verbosity > 0 && !is_fragment {
            self.icmpv4_checksum(part);
        }
        let is_error = matches!(
            kind,
            UNREACHABLE | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM | SOURCE_QUENCH
        );
        if self.style.verbosity > 0 && is_error {
            write!(self, "\n\t");
            // Only its beginning is quoted, which is no fault of the packet.
            let quoted = part.from(LEN);
            let len = quoted.be16(2).map_or(0, usize::from).max(quoted.len());
            let quoted = Part::new(quoted.bytes(), len, "ip");
            return self.nested(|line| line.ipv4(quoted));
        }
        Ok(())
    }

    fn icmpv4_checksum(&mut self, part: Part<'_>) {
        let sum = Sum::of(part.bytes());
        if let (true, false, Ok(field)) = (part.is_whole(), sum.is_intact(), part.be16(2)) {
            let right = right_checksum(sum, field);
            write!(self, " (wrong icmp cksum {field:x} (->{right:x})!)");
        }
    }

    fn echo(&mut self, part: Part<'_>, kind: u8) -> Printed {
        let name = if kind == ECHO_REQUEST {
            "request"
        } else {
            "reply"
        };
        write!(
            self,
            "echo {name}, id {}, seq {}",
            part.be16(4)?,
            part.be16(6)?
        );
        Ok(())
    }

    fn timestamp(&mut self, part: Part<'_>, kind: u8) -> Printed {
        let (ident, seq) = (part.be16(4)?, part.be16(6)?);
        if kind == TIMESTAMP {
            write!(self, "time stamp query id {ident} seq {seq}");
            return Ok(());
        }
        write!(self, "time stamp reply id {ident} seq {seq}: ");
        let names = ["org", "recv", "xmit"].into_iter().zip([8, 12, 16]);
        for (i, (name, at)) in names.enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(self, "{separator}{name} {}", time_of_day(part.be32(at)?));
        }
        Ok(())
    }

    /// RFC 792, RFC 1122 §3.2.2.1, RFC 1812 §5.2.7.1: the codes.
    fn unreachable_v4(&mut self, part: Part<'_>, code: u8) -> Printed {
        let cause = cause(part)?;
        let dst = cause.dst;
        match code {
            0 => write!(self, "net {dst} unreachable"),
            1 => write!(self, "host {dst} unreachable"),
            UNREACHABLE_PROTOCOL => write!(self, "{dst} protocol {} unreachable", cause.protocol),
            UNREACHABLE_PORT => match cause.protocol {
                protocol::TCP => write!(self, "{dst} tcp port {} unreachable", cause.port),
                protocol::UDP => write!(self, "{dst} udp port {} unreachable", cause.port),
                protocol => write!(
                    self,
                    "{dst} protocol {protocol} port {} unreachable",
                    cause.port
                ),
            },
            UNREACHABLE_FRAGMENTATION_NEEDED => {
                write!(self, "{dst} unreachable - need to frag");
                // RFC 1191 §4.
                if let mtu @ 1.. = part.be16(6)? {
                    write!(self, " (mtu {mtu})");
                }
            }
            5 => write!(self, "{dst} unreachable - source route failed"),
            6 => write!(self, "net {dst} unreachable - unknown"),
            7 => write!(self, "host {dst} unreachable - unknown"),
            8 => write!(self, "{dst} unreachable - source host isolated"),
            9 => write!(self, "net {dst} unreachable - admin prohibited"),
            10 => write!(self, "host {dst} unreachable - admin prohibited"),
            11 => write!(self, "net {dst} unreachable - tos prohibited"),
            12 => write!(self, "host {dst} unreachable - tos prohibited"),
            13 => write!(self, "host {dst} unreachable - admin prohibited filter"),
            14 => write!(self, "host {dst} unreachable - host precedence violation"),
            15 => write!(self, "host {dst} unreachable - precedence cutoff"),
            _ => write!(self, "{dst} unreachable - #{code}"),
        }
        Ok(())
    }

    fn redirect_v4(&mut self, part: Part<'_>, code: u8) -> Printed {
        let (dst, gateway) = (part.ipv4(LEN + 16)?, part.ipv4(4)?);
        match code {
            0 => write!(self, "redirect {dst} to net {gateway}"),
            1 => write!(self, "redirect {dst} to host {gateway}"),
            2 => write!(self, "redirect-tos {dst} to net {gateway}"),
            3 => write!(self, "redirect-tos {dst} to host {gateway}"),
            _ => write!(self, "redirect-#{code} {dst} to {gateway}"),
        }
        Ok(())
    }
}

fn cause(part: Part<'_>) -> Result<Cause, super::part::Cut> {
    let packet = part.from(LEN);
    let header_len = usize::from(packet.u8(0)? & 0xf) * 4;
    Ok(Cause {
        dst: packet.ipv4(16)?,
        protocol: packet.u8(9)?,
        port: packet.be16(header_len + 2).unwrap_or(0),
    })
}

/// Milliseconds since midnight.
fn time_of_day(ms: u32) -> String {
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{ms:03}")
}
