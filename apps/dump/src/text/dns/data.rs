//! What records hold, and names with their pointers.

use super::names::{
    TYPE_A, TYPE_AAAA, TYPE_CNAME, TYPE_DNAME, TYPE_MX, TYPE_NS, TYPE_OPT, TYPE_PTR, TYPE_SOA,
    TYPE_SRV, TYPE_TXT,
};
use crate::limits::DNS_NAME_MAX;
use crate::text::Line;
use crate::text::part::{Cut, Part, Printed};

impl Line<'_> {
    /// `message` ends with the record, so that its data ends where it says.
    pub(super) fn dns_data(
        &mut self,
        message: Part<'_>,
        at: usize,
        kind: u16,
        class: u16,
    ) -> Printed {
        match kind {
            TYPE_A => write!(self, " {}", message.ipv4(at)?),
            TYPE_AAAA => write!(self, " {}", message.ipv6(at)?),
            TYPE_NS | TYPE_CNAME | TYPE_PTR | TYPE_DNAME => {
                write!(self, " ");
                self.dns_name(message, at)?;
            }
            TYPE_MX => {
                write!(self, " ");
                self.dns_name(message, at + 2)?;
                write!(self, " {}", message.be16(at)?);
            }
            // RFC 2782.
            TYPE_SRV => {
                write!(self, " ");
                self.dns_name(message, at + 6)?;
                let numbers = (
                    message.be16(at + 4)?,
                    message.be16(at)?,
                    message.be16(at + 2)?,
                );
                write!(self, ":{} {} {}", numbers.0, numbers.1, numbers.2);
            }
            TYPE_TXT => self.dns_strings(message, at)?,
            TYPE_SOA if self.style.verbosity > 0 => self.dns_authority(message, at)?,
            // RFC 6891 §6.1.2: the class is how much the sender can take.
            TYPE_OPT => write!(self, " UDPsize={class}"),
            _ => {}
        }
        Ok(())
    }

    fn dns_strings(&mut self, message: Part<'_>, mut at: usize) -> Printed {
        while at < message.len() {
            let len = usize::from(message.u8(at)?);
            write!(self, " \"");
            self.escaped(message.slice(at + 1, len)?);
            write!(self, "\"");
            at += 1 + len;
        }
        Ok(())
    }

    fn dns_authority(&mut self, message: Part<'_>, at: usize) -> Printed {
        write!(self, " ");
        self.dns_name(message, at)?;
        write!(self, " ");
        let at = name_end(message, at)?;
        self.dns_name(message, at)?;
        let at = name_end(message, at)?;
        for i in 0..5 {
            write!(self, " {}", message.be32(at + 4 * i)?);
        }
        Ok(())
    }

    /// A name, its pointers followed.
    pub(super) fn dns_name(&mut self, message: Part<'_>, mut at: usize) -> Printed {
        let (mut before, mut shown) = (at, 0);
        loop {
            let len = message.u8(at)?;
            match len >> 6 {
                0 if len == 0 => {
                    write!(self, "{}", if shown == 0 { "." } else { "" });
                    return Ok(());
                }
                0 => {
                    self.escaped(message.slice(at + 1, len.into())?);
                    write!(self, ".");
                    shown += usize::from(len) + 1;
                    at += 1 + usize::from(len);
                }
                3 => {
                    // RFC 1035 §4.1.4: to a prior occurrence, so that there are no circles.
                    at = usize::from(message.be16(at)? & 0x3fff);
                    if at >= before {
                        write!(self, "<BAD PTR>");
                        return Err(Cut("domain"));
                    }
                    before = at;
                }
                _ => {
                    write!(self, "<label type {}>", len >> 6);
                    return Err(Cut("domain"));
                }
            }
            if shown > DNS_NAME_MAX {
                write!(self, "<too long>");
                return Err(Cut("domain"));
            }
        }
    }
}

/// Where what follows a name begins.
pub(super) fn name_end(message: Part<'_>, mut at: usize) -> Result<usize, Cut> {
    loop {
        let len = message.u8(at)?;
        match len >> 6 {
            3 => return message.u8(at + 1).map(|_| at + 2),
            0 if len == 0 => return Ok(at + 1),
            0 => at += 1 + usize::from(len),
            _ => return Err(Cut("domain")),
        }
    }
}
