//! What is asked of a server: a document of some size, over connections of some kind; and what can go wrong.

use crate::limits::SIZE_MAX;
use crate::stage::args::shown_as_on_the_command_line;
use exos_program::units::parse_size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::str::FromStr;

/// The size of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Size(u64);

impl Size {
    /// A size of this many bytes.
    pub const fn of_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// As people write it, and as it is read.
    pub fn name(self) -> String {
        let unit = UNITS
            .iter()
            .find(|(factor, _)| self.0 > 0 && self.0.is_multiple_of(*factor));
        unit.map_or(self.0.to_string(), |(factor, unit)| {
            format!("{}{unit}", self.0 / factor)
        })
    }

    /// The name of the document of this size, without a leading slash.
    pub fn document(self) -> String {
        format!("{}.html", self.0)
    }
}

const UNITS: [(u64, &str); 2] = [(1024 * 1024, "M"), (1024, "K")];

/// The syntax of sizes that all commands have, up to what can be measured.
impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse_size(text)? {
            bytes @ ..=SIZE_MAX => Ok(Self(bytes)),
            bytes => Err(format!("{} is more than {}", Self(bytes), Self(SIZE_MAX))),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS
            .iter()
            .find(|(factor, _)| self.0 > 0 && self.0.is_multiple_of(*factor));
        f.pad(&match unit {
            Some((factor, unit)) => format!("{} {unit}B", self.0 / factor),
            None => format!("{} B", self.0),
        })
    }
}

/// The contents of the document of a size: text that differs from place to place, so that pieces sent in the
/// wrong order or twice do not go unnoticed.
pub fn body(size: Size) -> Vec<u8> {
    let lines = (0u64..)
        .flat_map(|n| format!("<p>line {n} of a document of {} bytes\n", size.0).into_bytes());
    lines.take(size.0 as usize).collect()
}

/// How requests are spread over connections.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// A new connection for each request: the client sends `Connection: close`.
    New,
    /// Many requests on each connection.
    Persistent,
}

shown_as_on_the_command_line!(Connection);

impl Connection {
    /// In titles of figures.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::New => "a connection for each request",
            Self::Persistent => "standing connections",
        }
    }
}

/// Numbers of what went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// Connections that could not be made.
    pub connect: u64,
    /// Failed reads; of our client also answers that were not the document.
    pub read: u64,
    /// Failed writes.
    pub write: u64,
    /// Answers that did not come within two seconds.
    pub timeout: u64,
    /// Answers with another status than 2xx and 3xx; of our client than 200.
    pub status: u64,
}

impl Errors {
    /// This many of a client that has kinds of its own: how many there are is what is told.
    pub fn of_any_kind(count: u64) -> Self {
        Self {
            read: count,
            ..Self::default()
        }
    }

    /// All of them.
    pub fn total(self) -> u64 {
        self.connect + self.read + self.write + self.timeout + self.status
    }
}

impl Sum for Errors {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            connect: sum.connect + one.connect,
            read: sum.read + one.read,
            write: sum.write + one.write,
            timeout: sum.timeout + one.timeout,
            status: sum.status + one.status,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes, shown) in [
            ("0", 0, "0 B"),
            ("100", 100, "100 B"),
            ("1K", 1024, "1 KB"),
            ("10k", 10_240, "10 KB"),
            ("1M", 1_048_576, "1 MB"),
            ("1536K", 1_572_864, "1536 KB"),
        ] {
            let size: Size = text.parse().expect(text);
            assert_eq!((size.bytes(), size.to_string().as_str()), (bytes, shown));
            assert_eq!(size.name(), text.to_uppercase());
        }
        for text in [
            "",
            "K",
            "-1",
            "ßK",
            "99999999999999999999",
            "9999999999999999999K",
            "é",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn bodies_have_their_size_and_do_not_repeat() {
        assert!(body(Size(0)).is_empty());
        let body = body(Size(100_000));
        assert_eq!(body.len(), 100_000);
        let pieces: std::collections::HashSet<&[u8]> = body.chunks(1460).collect();
        assert_eq!(pieces.len(), 100_000usize.div_ceil(1460));
    }
}
