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

/// The four sections' lengths.
struct Counts {
    questions: u16,
    answers: u16,
    authorities: u16,
    additionals: u16,
}

impl Line<'_> {
    /// A message; by multicast (RFC 6762) two bits have another meaning.
    pub(super) fn dns(&mut self, message: Part<'_>, is_mdns: bool) -> Printed {
        let message = message.of("domain");
        message.slice(0, LEN)?;
        let flags = message.be16(2)?;
        let counts = Counts {
            questions: message.be16(4)?,
            answers: message.be16(6)?,
            authorities: message.be16(8)?,
            additionals: message.be16(10)?,
        };
        write!(
            self,
            "{}{}",
            message.be16(0)?,
            OPERATIONS[usize::from(flags >> 11 & 0xf)]
        );
        if flags & 0x8000 != 0 {
            self.dns_response(message, flags, &counts, is_mdns)?;
        } else {
            self.dns_query(message, flags, &counts, is_mdns)?;
        }
        write!(self, " ({})", message.len());
        Ok(())
    }

    fn dns_response(
        &mut self,
        message: Part<'_>,
        flags: u16,
        counts: &Counts,
        is_mdns: bool,
    ) -> Printed {
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
        let at = self.dns_answered(message, counts.questions, is_mdns)?;
        let Counts {
            answers,
            authorities,
            additionals,
            ..
        } = counts;
        write!(self, " {answers}/{authorities}/{additionals}");
        let at = self.dns_records(message, at, *answers, "", is_mdns)?;
        if self.style.verbosity > 1 {
            self.dns_further(message, at, counts, is_mdns)?;
        }
        Ok(())
    }

    /// The questions of a response, shown when more is asked for. Returns where its answers begin.
    fn dns_answered(
        &mut self,
        message: Part<'_>,
        questions: u16,
        is_mdns: bool,
    ) -> Result<usize, Cut> {
        let mut at = LEN;
        for i in 0..usize::from(questions).min(DNS_RECORDS_MAX) {
            if i > 0 {
                write!(self, ",");
            }
            if self.style.verbosity > 1 {
                write!(self, " q:");
                at = self.dns_question(message, at, is_mdns)?;
            } else {
                at = name_end(message, at)? + 4;
            }
        }
        Ok(at)
    }

    /// The name servers, and the records that come with them.
    fn dns_further(
        &mut self,
        message: Part<'_>,
        at: usize,
        counts: &Counts,
        is_mdns: bool,
    ) -> Printed {
        let at = self.dns_records(message, at, counts.authorities, " ns:", is_mdns)?;
        self.dns_records(message, at, counts.additionals, " ar:", is_mdns)?;
        Ok(())
    }

    fn dns_query(
        &mut self,
        message: Part<'_>,
        flags: u16,
        counts: &Counts,
        is_mdns: bool,
    ) -> Printed {
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
            at = self.dns_question(message, at, is_mdns)?;
        }
        if self.style.verbosity > 1 {
            at = self.dns_records(message, at, counts.answers, "", is_mdns)?;
            self.dns_further(message, at, counts, is_mdns)?;
        }
        Ok(())
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
    fn dns_question(&mut self, message: Part<'_>, at: usize, is_mdns: bool) -> Result<usize, Cut> {
        let end = name_end(message, at)?;
        let (kind, class) = (message.be16(end)?, message.be16(end + 2)?);
        self.dns_type(kind);
        // RFC 6762 §5.4: the highest bit asks for an answer by unicast.
        let (class, unicast) = if is_mdns {
            (class & 0x7fff, class >> 15 != 0)
        } else {
            (class, false)
        };
        self.dns_class(class);
        write!(
            self,
            "{}",
            if unicast {
                " (QU)"
            } else if is_mdns {
                " (QM)"
            } else {
                ""
            }
        );
        write!(self, "? ");
        self.dns_name(message, at)?;
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
        message: Part<'_>,
        mut at: usize,
        count: u16,
        heading: &str,
        is_mdns: bool,
    ) -> Result<usize, Cut> {
        let count = usize::from(count);
        if count > 0 {
            write!(self, "{heading}");
        }
        for i in 0..count.min(DNS_RECORDS_MAX) {
            write!(self, "{}", if i == 0 { "" } else { "," });
            at = self.dns_record(message, at, is_mdns)?;
        }
        if count > DNS_RECORDS_MAX {
            write!(self, ", ...");
        }
        Ok(at)
    }

    /// RFC 1035 §4.1.3. Returns where the next one begins.
    fn dns_record(&mut self, message: Part<'_>, at: usize, is_mdns: bool) -> Result<usize, Cut> {
        if self.style.verbosity > 0 {
            write!(self, " ");
            self.dns_name(message, at)?;
        }
        let at = name_end(message, at)?;
        let (kind, class) = (message.be16(at)?, message.be16(at + 2)?);
        let (ttl, len) = (message.be32(at + 4)?, usize::from(message.be16(at + 8)?));
        // RFC 6762 §10.2: the highest bit tells to forget older answers.
        let (shown, flush) = if is_mdns {
            (class & 0x7fff, class >> 15 != 0)
        } else {
            (class, false)
        };
        if kind != TYPE_OPT {
            self.dns_class(shown);
            write!(self, "{}", if flush { " (Cache flush)" } else { "" });
            if self.style.verbosity > 2 {
                write!(self, " [{}]", names::time_to_live(ttl));
            }
        }
        self.dns_type(kind);
        let data = at + 10;
        message.slice(data, len)?;
        self.dns_data(message.first(data + len), data, kind, class)?;
        Ok(data + len)
    }
}
