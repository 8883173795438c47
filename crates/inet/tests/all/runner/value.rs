//! What a script says about one number: exactly this, anything, something between.

use std::fmt;

/// What a number must be; in what the peer sends, what it is.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Value {
    /// `*`: anything.
    Any,
    /// `5`.
    Is(i64),
    /// `5..7`, both included; `5..` and `..7` are open at one end.
    Within(i64, i64),
    /// `new`: anything, and what follows is counted from it (of sequence numbers).
    New,
}

impl Value {
    /// Read a value. `a|b` is `a` over IPv4 and `b` over IPv6.
    pub fn parse(word: &str, ipv6: bool) -> Result<Self, String> {
        let word = match word.split_once('|') {
            Some((v4, v6)) => [v4, v6][usize::from(ipv6)],
            None => word,
        };
        let number = |s: &str| {
            s.parse::<i64>()
                .map_err(|_| format!("`{s}` is not a number"))
        };
        Ok(match (word, word.split_once("..")) {
            ("*", _) => Self::Any,
            ("new", _) => Self::New,
            (_, Some((low, ""))) => Self::Within(number(low)?, i64::MAX),
            (_, Some(("", high))) => Self::Within(i64::MIN, number(high)?),
            (_, Some((low, high))) => Self::Within(number(low)?, number(high)?),
            (_, None) => Self::Is(number(word)?),
        })
    }

    /// Whether `got` is what was asked for.
    pub fn admits(self, got: i64) -> bool {
        match self {
            Self::Any | Self::New => true,
            Self::Is(n) => n == got,
            Self::Within(low, high) => (low..=high).contains(&got),
        }
    }

    /// The number, where it is a single one.
    pub fn number(self) -> Option<i64> {
        match self {
            Self::Is(n) => Some(n),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::New => f.write_str("new"),
            Self::Is(n) => n.fmt(f),
            Self::Within(low, i64::MAX) => write!(f, "{low}.."),
            Self::Within(i64::MIN, high) => write!(f, "..{high}"),
            Self::Within(low, high) => write!(f, "{low}..{high}"),
        }
    }
}
