//! Filters as text that [`Filter::parse`] reads back to an equal filter.
//!
//! Names where the language has them; bytes otherwise (`network[9] & 0xf = 3`).

use super::names;
use crate::filter::{Conjunction, Filter};
use crate::literal::{Base, Literal, Test, Width};
use std::fmt;

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.conjunctions() {
            [] => f.write_str("none"),
            [only] => only.fmt(f),
            several => {
                for (i, conjunction) in several.iter().enumerate() {
                    if i > 0 {
                        f.write_str(" or ")?;
                    }
                    match conjunction.literals().len() {
                        0 | 1 => conjunction.fmt(f)?,
                        _ => write!(f, "({conjunction})")?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Conjunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, literal) in self.literals().iter().enumerate() {
            if i > 0 {
                f.write_str(" and ")?;
            }
            literal.fmt(f)?;
        }
        if self.literals().is_empty() {
            f.write_str("all")
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negated {
            f.write_str("not ")?;
        }
        self.test.fmt(f)
    }
}

impl fmt::Display for Test {
    /// One primitive.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.bounds();
        match (self.base(), low == high) {
            (Base::Type, true) if self.mask() == 0xffff => return ethertype(f, low as u16),
            (Base::Protocol, true) if self.mask() == 0xff => return protocol(f, low as u8),
            (Base::Link, _) if self.is_presence() && self.width() == Width::Byte => {
                return write!(f, "greater {}", self.end());
            }
            _ => {}
        }
        let word = Word(self);
        if low == high {
            write!(f, "{word} = {:#x}", low)
        } else if high >= self.mask() {
            write!(f, "{word} >= {low:#x}")
        } else if low == 0 {
            write!(f, "{word} <= {high:#x}")
        } else {
            write!(f, "{word} = {low:#x}-{high:#x}")
        }
    }
}

/// The left side of a comparison.
struct Word<'a>(&'a Test);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = match self.0.base() {
            Base::Type => "type",
            Base::Protocol => "protocol",
            Base::Network => "network",
            Base::Transport => "transport",
            Base::Link => "ether",
        };
        write!(f, "{base}[{}", self.0.offset())?;
        if self.0.width() != Width::Byte {
            write!(f, ":{}", self.0.width().bytes())?;
        }
        f.write_str("]")?;
        if self.0.mask() != self.0.width().max() {
            write!(f, " & {:#x}", self.0.mask())?;
        }
        Ok(())
    }
}

fn ethertype(f: &mut fmt::Formatter<'_>, value: u16) -> fmt::Result {
    match names::ETHERTYPES.iter().find(|(_, v)| *v == value) {
        Some((name, _)) => f.write_str(name),
        None => write!(f, "ether proto {value:#06x}"),
    }
}

fn protocol(f: &mut fmt::Formatter<'_>, value: u8) -> fmt::Result {
    match names::PROTOCOLS.iter().find(|(_, v)| *v == value) {
        // Alone, these two name one version of IP as well.
        Some((name @ ("tcp" | "udp" | "sctp" | "esp"), _)) => f.write_str(name),
        _ => write!(f, "proto {value}"),
    }
}
