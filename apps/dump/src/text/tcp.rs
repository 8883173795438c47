//! TCP segments (RFC 9293 §3.1), with sequence numbers relative to the connection's first.

use exos_wire::tcp::{
    self, LEN, TcpFlags,
    options::{
        END, FAST_OPEN, MSS, NOP, SACK, SACK_PERMITTED, TIMESTAMPS, USER_TIMEOUT, WINDOW_SCALE,
    },
};
use exos_wire::{SeqNumber, protocol};

use super::conversations::Bases;
use super::http;
use super::ip::{Upper, right_checksum};
use super::line::Line;
use super::part::{Cut, Part, Printed};
use crate::decrypt::Segment;
use crate::limits::RESET_REASON_SHOWN;

impl Line<'_> {
    pub(super) fn tcp(&mut self, part: Part<'_>, upper: &Upper) -> Printed {
        let part = part.of("tcp");
        let (Ok(src_port), Ok(dst_port)) = (part.be16(0), part.be16(2)) else {
            self.endpoints(None, upper);
            write!(self, ":");
            return Err(Cut("tcp"));
        };
        self.endpoints(Some((src_port, dst_port)), upper);
        write!(self, ": ");
        part.slice(0, LEN)?;
        let header_len = usize::from(part.u8(12)? >> 4) * 4;
        let len = part.len();
        if header_len < LEN {
            let data = len.wrapping_sub(header_len);
            write!(
                self,
                " tcp {data} [bad hdr length {header_len}, too short, < {LEN}]"
            );
            return Ok(());
        }
        let payload = part.from(header_len);
        let (src, dst) = upper.addresses.both();
        let segment = Segment {
            from: (src, src_port),
            to: (dst, dst_port),
            seq: SeqNumber(part.be32(4)?),
            ack: SeqNumber(part.be32(8)?),
            flags: TcpFlags(part.u8(13)?),
            data: payload.bytes(),
            is_whole: payload.is_whole(),
        };
        write!(self, "Flags [{}]", flag_letters(segment.flags));
        if header_len > len {
            write!(self, " [bad hdr length {header_len}, too long, > {len}]");
            return Ok(());
        }
        self.tcp_segment(part, header_len, &segment, upper)
    }

    fn tcp_segment(
        &mut self,
        part: Part<'_>,
        header_len: usize,
        segment: &Segment<'_>,
        upper: &Upper,
    ) -> Printed {
        let bases = self.tcp_bases(segment);
        if self.style.verbosity > 0 && !upper.is_fragment && !upper.source_routed {
            self.tcp_checksum(part, upper)?;
        }
        let payload = part.from(header_len);
        let flags = segment.flags;
        let moving = TcpFlags::SYN.union(TcpFlags::FIN).union(TcpFlags::RST);
        if self.style.verbosity > 1 || payload.len() > 0 || flags.intersects(moving) {
            let seq = segment.seq.0.wrapping_sub(bases.seq);
            write!(self, ", seq {seq}");
            if payload.len() > 0 {
                write!(self, ":{}", seq.wrapping_add(payload.len() as u32));
            }
        }
        if flags.contains(TcpFlags::ACK) {
            write!(self, ", ack {}", segment.ack.0.wrapping_sub(bases.ack));
        }
        write!(self, ", win {}", part.be16(14)?);
        if flags.contains(TcpFlags::URG) {
            write!(self, ", urg {}", part.be16(18)?);
        }
        if header_len > LEN {
            write!(self, ", options [");
            let options = part.first(header_len).from(LEN);
            self.tcp_options(options, bases)?;
            write!(self, "]");
        }
        write!(self, ", length {}", payload.len());
        self.tcp_payload(payload, segment);
        if !upper.is_fragment {
            self.decrypted(segment);
        }
        Ok(())
    }

    /// What sequence and acknowledgement number are shown relative to.
    fn tcp_bases(&mut self, segment: &Segment<'_>) -> Bases {
        if self.style.absolute_seq || !segment.flags.contains(TcpFlags::ACK) {
            return Bases::ABSOLUTE;
        }
        let is_new = segment.flags.contains(TcpFlags::SYN);
        let (from, to) = (segment.from, segment.to);
        self.conversations
            .bases(from, to, is_new, segment.seq, segment.ack)
    }

    fn tcp_checksum(&mut self, part: Part<'_>, upper: &Upper) -> Printed {
        let Some(sum) = upper.addresses.sum(protocol::TCP, part) else {
            return Ok(());
        };
        let field = part.be16(tcp::CHECKSUM_FIELD)?;
        write!(self, ", cksum {field:#06x}");
        if sum.is_intact() {
            write!(self, " (correct)");
        } else {
            write!(self, " (incorrect -> {:#06x})", right_checksum(sum, field));
        }
        Ok(())
    }

    /// RFC 9293 §3.2: kind, length, data; two kinds have no length.
    fn tcp_options(&mut self, options: Part<'_>, bases: Bases) -> Printed {
        let (mut at, mut separator) = (0, "");
        while at < options.len() {
            write!(self, "{separator}");
            separator = ",";
            let kind = options.u8(at)?;
            if matches!(kind, END | NOP) {
                write!(self, "{}", if kind == END { "eol" } else { "nop" });
                if kind == END {
                    return Ok(());
                }
                at += 1;
                continue;
            }
            let Some(len) = self.tcp_option_len(options, at)? else {
                write!(self, "[bad opt]");
                return Ok(());
            };
            let option = options.first(at + len).from(at + 2);
            self.tcp_option(kind, option, bases)?;
            at += len;
        }
        Ok(())
    }

    fn tcp_option_len(&mut self, options: Part<'_>, at: usize) -> Result<Option<usize>, Cut> {
        if at + 1 >= options.len() {
            return Ok(None);
        }
        let len = usize::from(options.u8(at + 1)?);
        Ok((2..=options.len() - at).contains(&len).then_some(len))
    }

    fn tcp_option(&mut self, kind: u8, option: Part<'_>, bases: Bases) -> Printed {
        let known = match kind {
            MSS => Some(("mss", 2)),
            WINDOW_SCALE => Some(("wscale", 1)),
            SACK_PERMITTED => Some(("sackOK", 0)),
            TIMESTAMPS => Some(("TS", 8)),
            USER_TIMEOUT => Some(("uto", 2)),
            _ => None,
        };
        match known {
            Some((name, len)) if option.len() >= len => {
                write!(self, "{name}");
                self.tcp_known_option(kind, option)?;
                if option.len() > len {
                    write!(self, "[len {}]", option.len() + 2);
                }
            }
            Some((name, _)) => write!(self, "{name}[bad len {}]", option.len() + 2),
            None if kind == SACK => self.tcp_sack(option, bases)?,
            None if kind == FAST_OPEN => self.tcp_fast_open(option)?,
            None => {
                write!(self, "unknown-{kind}");
                self.hexadecimal(" 0x", option.slice(0, option.len())?);
            }
        }
        Ok(())
    }

    fn tcp_known_option(&mut self, kind: u8, option: Part<'_>) -> Printed {
        match kind {
            MSS => write!(self, " {}", option.be16(0)?),
            WINDOW_SCALE => write!(self, " {}", option.u8(0)?),
            TIMESTAMPS => write!(self, " val {} ecr {}", option.be32(0)?, option.be32(4)?),
            // RFC 5482: one bit says whether the other 15 count minutes.
            USER_TIMEOUT => {
                let word = option.be16(0)?;
                let unit_secs = if word >> 15 != 0 { 60 } else { 1 };
                let secs = u32::from(word & 0x7fff) * unit_secs;
                write!(self, " {word:#x} {secs}");
            }
            _ => {}
        }
        Ok(())
    }

    /// RFC 2018: ranges of the other direction's data, relative to that one's first number.
    fn tcp_sack(&mut self, option: Part<'_>, bases: Bases) -> Printed {
        write!(self, "sack");
        if !option.len().is_multiple_of(8) {
            write!(self, " invalid sack");
            return Ok(());
        }
        write!(self, " {} ", option.len() / 8);
        for at in (0..option.len()).step_by(8) {
            let [left, right] = [option.be32(at)?, option.be32(at + 4)?];
            let base = bases.sack;
            write!(
                self,
                "{{{}:{}}}",
                left.wrapping_sub(base),
                right.wrapping_sub(base)
            );
        }
        Ok(())
    }

    /// RFC 7413 §4.1.1.
    fn tcp_fast_open(&mut self, option: Part<'_>) -> Printed {
        write!(self, "tfo ");
        match option.len() {
            0 => write!(self, " cookiereq"),
            len if !(4..=16).contains(&len) || len % 2 != 0 => write!(self, " (invalid)"),
            len => self.hexadecimal(" cookie ", option.slice(0, len)?),
        }
        Ok(())
    }

    fn tcp_payload(&mut self, payload: Part<'_>, segment: &Segment<'_>) {
        if payload.len() == 0 {
            return;
        }
        if segment.flags.contains(TcpFlags::RST) && self.style.verbosity > 0 {
            // RFC 9293 §3.5.3: a reset may say why, in text.
            let more = if payload.len() > RESET_REASON_SHOWN {
                "+"
            } else {
                ""
            };
            let reason = payload.first(RESET_REASON_SHOWN);
            let cut = if payload.is_whole() { "" } else { "!" };
            write!(self, " [{cut}RST{more} ");
            self.escaped(reason.bytes());
            write!(self, "]");
            return;
        }
        let is = |port| segment.from.1 == port || segment.to.1 == port;
        if http::PORTS.into_iter().any(is) {
            self.http(payload);
        } else {
            self.tls(payload);
        }
    }
}

/// tcpdump's letters, the dot for the most frequent.
fn flag_letters(flags: TcpFlags) -> String {
    if flags == TcpFlags::NONE {
        "none".to_owned()
    } else {
        flags.to_string()
    }
}
