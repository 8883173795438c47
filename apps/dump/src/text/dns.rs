//! DNS messages (RFC 1035) in tcpdump's notation: `1234+ A? example.com. (29)` asks, and
//! `1234 1/0/0 A 192.0.2.7 (45)` answers.
//!
//! Names may be compressed by pointers to earlier ones, and hostile messages point in circles: only
//! pointers that lead backwards are followed, and a name's length and the records shown are bounded.

mod data;
mod names;

use super::line::Line;
use super::part::{Cut, Part, Printed};
use crate::limits::DNS_RECORDS_MAX;
use data::name_end;
use names::{OPERATIONS, RESPONSES, TYPE_OPT, type_name};

/// Bytes of the header (RFC 1035 §4.1.1).
const LEN: usize = 12;
const CLASS_IN: u16 = 1;

/// A message, and by which protocol.
#[derive(Clone, Copy)]
struct Message<'a> {
    part: Part<'a>,
    is_mdns: bool,
}

impl Message<'_> {
    /// A class, and the bit that has a meaning of its own by multicast.
    fn class(&self, at: usize) -> Result<(u16, bool), Cut> {
        let class = self.part.be16(at)?;
        Ok(match self.is_mdns {
            true => (class & 0x7fff, class >> 15 != 0),
            false => (class, false),
        })
    }
}

/// The four sections' lengths.
struct Counts {
    questions: u16,
    answers: u16,
    authorities: u16,
    additionals: u16,
}

impl Line<'_> {
    /// A message; by multicast (RFC 6762) two bits have another meaning.
    pub(super) fn dns(&mut self, part: Part<'_>, is_mdns: bool) -> Printed {
        let part = part.of("domain");
        part.slice(0, LEN)?;
        let flags = part.be16(2)?;
        let counts = Counts {
            questions: part.be16(4)?,
            answers: part.be16(6)?,
            authorities: part.be16(8)?,
            additionals: part.be16(10)?,
        };
        let operation = OPERATIONS[usize::from(flags >> 11 & 0xf)];
        write!(self, "{}{operation}", part.be16(0)?);
        let message = Message { part, is_mdns };
        match flags & 0x8000 != 0 {
            true => self.dns_response(message, flags, &counts)?,
            false => self.dns_query(message, flags, &counts)?,
        }
        write!(self, " ({})", part.len());
        Ok(())
    }

    fn dns_response(&mut self, message: Message<'_>, flags: u16, counts: &Counts) -> Printed {
        write!(self, "{}", RESPONSES[usize::from(flags & 0xf)]);
        // Authoritative, no recursion available, truncated, authentic data.
        let marks = [
            (0x0400, true, "*"),
            (0x0080, false, "-"),
            (0x0200, true, "|"),
            (0x0020, true, "$"),
        ];
        for (bit, when, mark) in marks {
            if (flags & bit != 0) == when {
                write!(self, "{mark}");
            }
        }
        if counts.questions != 1 {
            write!(self, " [{}q]", counts.questions);
        }
        let at = self.dns_answered(message, counts.questions)?;
        let Counts {
            answers,
            authorities,
            additionals,
            ..
        } = counts;
        write!(self, " {answers}/{authorities}/{additionals}");
        let at = self.dns_records(message, at, *answers, "")?;
        self.dns_further(message, at, counts)
    }

    /// The questions of a response, shown when more is asked for. Returns where its answers begin.
    fn dns_answered(&mut self, message: Message<'_>, questions: u16) -> Result<usize, Cut> {
        let mut at = LEN;
        for i in 0..usize::from(questions).min(DNS_RECORDS_MAX) {
            if i > 0 {
                write!(self, ",");
            }
            if self.style.verbosity > 1 {
                write!(self, " q:");
                at = self.dns_question(message, at)?;
            } else {
                at = name_end(message.part, at)? + 4;
            }
        }
        Ok(at)
    }

    /// The name servers, and the records that come with them, when more is asked for.
    fn dns_further(&mut self, message: Message<'_>, at: usize, counts: &Counts) -> Printed {
        if self.style.verbosity > 1 {
            let at = self.dns_records(message, at, counts.authorities, " ns:")?;
            self.dns_records(message, at, counts.additionals, " ar:")?;
        }
        Ok(())
    }

    fn dns_query(&mut self, message: Message<'_>, flags: u16, counts: &Counts) -> Printed {
        // Recursion desired, checking disabled.
        for (bit, mark) in [(0x0100, "+"), (0x0010, "%")] {
            if flags & bit != 0 {
                write!(self, "{mark}");
            }
        }
        // Bits that belong to answers.
        if flags & 0x06cf != 0 {
            write!(self, " [b2&3={flags:#x}]");
        }
        self.dns_unusual(counts, flags >> 11 & 0xf == 1);
        let mut at = LEN;
        for _ in 0..usize::from(counts.questions).min(DNS_RECORDS_MAX) {
            at = self.dns_question(message, at)?;
        }
        if self.style.verbosity > 1 {
            at = self.dns_records(message, at, counts.answers, "")?;
        }
        self.dns_further(message, at, counts)
    }

    /// What a query has beside one question.
    fn dns_unusual(&mut self, counts: &Counts, is_inverse: bool) {
        let Counts {
            questions,
            answers,
            authorities,
            additionals,
        } = counts;
        // An inverse query (RFC 1035 §6.4) holds an answer and wants the question.
        if is_inverse && *questions != 0 {
            write!(self, " [{questions}q]");
        }
        if *answers != u16::from(is_inverse) {
            write!(self, " [{answers}a]");
        }
        if !is_inverse && *questions != 1 {
            write!(self, " [{questions}q]");
        }
        if *authorities != 0 {
            write!(self, " [{authorities}n]");
        }
        if *additionals != 0 {
            write!(self, " [{additionals}au]");
        }
    }

    /// RFC 1035 §4.1.2. Returns where the next one begins.
    fn dns_question(&mut self, message: Message<'_>, at: usize) -> Result<usize, Cut> {
        let end = name_end(message.part, at)?;
        // RFC 6762 §5.4: the bit asks for an answer by unicast.
        let (kind, (class, is_unicast)) = (message.part.be16(end)?, message.class(end + 2)?);
        self.dns_type(kind);
        self.dns_class(class);
        let how = match (message.is_mdns, is_unicast) {
            (true, true) => " (QU)",
            (true, false) => " (QM)",
            (false, _) => "",
        };
        write!(self, "{how}? ");
        self.dns_name(message.part, at)?;
        Ok(end + 4)
    }

    fn dns_type(&mut self, kind: u16) {
        match type_name(kind) {
            Some(name) => write!(self, " {name}"),
            None => write!(self, " Type{kind}"),
        }
    }

    fn dns_class(&mut self, class: u16) {
        match class {
            CLASS_IN => {}
            3 => write!(self, " CHAOS"),
            4 => write!(self, " HS"),
            255 => write!(self, " ANY"),
            _ => write!(self, " (Class {class})"),
        }
    }

    fn dns_records(
        &mut self,
        message: Message<'_>,
        mut at: usize,
        count: u16,
        heading: &str,
    ) -> Result<usize, Cut> {
        let count = usize::from(count);
        if count > 0 {
            write!(self, "{heading}");
        }
        for i in 0..count.min(DNS_RECORDS_MAX) {
            write!(self, "{}", if i == 0 { "" } else { "," });
            at = self.dns_record(message, at)?;
        }
        if count > DNS_RECORDS_MAX {
            write!(self, ", ...");
        }
        Ok(at)
    }

    /// RFC 1035 §4.1.3. Returns where the next one begins.
    fn dns_record(&mut self, message: Message<'_>, at: usize) -> Result<usize, Cut> {
        let part = message.part;
        if self.style.verbosity > 0 {
            write!(self, " ");
            self.dns_name(part, at)?;
        }
        let at = name_end(part, at)?;
        let (kind, class) = (part.be16(at)?, part.be16(at + 2)?);
        let (ttl, len) = (part.be32(at + 4)?, usize::from(part.be16(at + 8)?));
        if kind != TYPE_OPT {
            // RFC 6762 §10.2: the bit tells to forget older answers.
            let (class, is_flushed) = message.class(at + 2)?;
            self.dns_class(class);
            write!(self, "{}", if is_flushed { " (Cache flush)" } else { "" });
            if self.style.verbosity > 2 {
                write!(self, " [{}]", names::time_to_live(ttl));
            }
        }
        self.dns_type(kind);
        let data = at + 10;
        part.slice(data, len)?;
        self.dns_data(part.first(data + len), data, kind, class)?;
        Ok(data + len)
    }
}
