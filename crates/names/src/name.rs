//! Host names: their syntax.
//!
//! A [`Name`] is absolute, in lower case, without a dot at its end, and not empty. Its letters are ASCII letters, digits,
//! `-` and `_`. Names in other scripts are to be given in their ASCII form (`xn--…`); this crate does not translate
//! them (IDNA, RFC 5890).

use crate::error::Error;
use crate::limits::{LABEL_BYTES_MAX, NAME_BYTES_MAX};
use std::fmt;

/// A host name; see the [module](self).
#[derive(Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub struct Name(String);

impl Name {
    /// The name that the text means, which may end in a dot.
    pub fn new(text: &str) -> Result<Self, Error> {
        let bare = text.strip_suffix('.').unwrap_or(text);
        let wrong = if !text.is_ascii() {
            "write it in its ASCII form, which begins with xn--"
        } else if bare.is_empty() {
            "it is empty"
        } else if bare.len() > NAME_BYTES_MAX {
            "it is longer than 253 characters"
        } else if bare.split('.').any(str::is_empty) {
            "there is nothing between two dots"
        } else if bare.split('.').any(|label| label.len() > LABEL_BYTES_MAX) {
            "there are more than 63 characters between two dots"
        } else if !bare.bytes().all(is_letter) {
            "it has other characters than letters, digits, hyphens and dots"
        } else if ends_in_number(bare) {
            "it looks like an IPv4 address, and is none"
        } else {
            return Ok(Self(bare.to_ascii_lowercase()));
        };
        Err(Error::bad_name(text, wrong))
    }

    /// The name, in lower case, without a dot at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name with a domain of the search list behind it, unless that is too long.
    pub(crate) fn within(&self, domain: &Self) -> Option<Self> {
        let whole = format!("{}.{}", self.0, domain.0);
        (whole.len() <= NAME_BYTES_MAX).then_some(Self(whole))
    }

    pub(crate) fn is_or_ends_in(&self, domain: &str) -> bool {
        let rest = self.0.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// No top-level domain is a number (RFC 3696 §2), so this is an address in a form that is not taken: `127.1`.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn names_are_checked() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
        for good in [
            "a",
            "Example.COM",
            "x.",
            "_dmarc.a",
            "3com.com",
            "1.2.3.4a",
            "xn--bcher-kva.example",
            &longest,
        ] {
            let name = Name::new(good).unwrap();
            let bare = good.trim_end_matches('.').to_lowercase();
            assert_eq!(name.as_str(), bare);
        }
        let too_long = format!("{longest}b");
        let label_too_long = format!("{label}a.example");
        for (bad, why) in [
            ("", "empty"),
            (".", "empty"),
            ("a..b", "between two dots"),
            (".a", "between two dots"),
            ("a b", "other characters"),
            ("a\\.b", "other characters"),
            ("bücher.example", "xn--"),
            ("127.1", "IPv4"),
            ("1.2.3.256", "IPv4"),
            (&too_long, "253"),
            (&label_too_long, "63"),
        ] {
            let error = Name::new(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadName);
            assert!(error.to_string().contains(why), "{bad}: {error}");
        }
    }
}
