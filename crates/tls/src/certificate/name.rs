//! Distinguished names (RFC 5280 §4.1.2.4) as text (RFC 4514): `CN=Ann Example,O=Example\, Inc.,C=CH`, the most specific part first.
//!
//! All of it is printable ASCII, so that it can stand in a header field or a log: what is not, and what means something in such text, is
//! escaped as RFC 4514 has it. Two names that differ are never the same text: a name that cannot be written so has none.

use std::fmt::Write as _;

use super::{SEQUENCE, element};
use crate::limits::NAME_LEN_MAX;

/// Tags of DER (X.690 §8).
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const BMP_STRING: u8 = 0x1e;

/// Attributes that have short names: RFC 4514 §3, and the one that OpenSSL has beside.
const KEYWORDS: [(&[u8], &str); 11] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
        "UID",
    ),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        "DC",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
        "emailAddress",
    ),
];

/// A name, from the content of its sequence, as text.
pub(super) fn text(mut rest: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (SET, set, behind) = element(rest)? else {
            return None;
        };
        parts.push(relative(set)?);
        rest = behind;
    }
    parts.reverse();
    Some(parts.join(",")).filter(|text| text.len() <= NAME_LEN_MAX)
}

/// One part of it: an attribute, or several with `+` between.
fn relative(mut rest: &[u8]) -> Option<String> {
    let mut out = String::new();
    while !rest.is_empty() {
        let (SEQUENCE, attribute, behind) = element(rest)? else {
            return None;
        };
        rest = behind;
        let (OBJECT_IDENTIFIER, kind, value) = element(attribute)? else {
            return None;
        };
        let (tag, content, []) = element(value)? else {
            return None;
        };
        if !out.is_empty() {
            out.push('+');
        }
        let keyword = KEYWORDS.iter().find(|(oid, _)| *oid == kind);
        match (keyword, string(tag, content)) {
            (Some((_, keyword)), Some(string)) => {
                let _ = write!(out, "{keyword}=");
                escape(&string, &mut out);
            }
            // RFC 4514 §2.4: in hexadecimal, with its tag and length.
            (keyword, _) => {
                match keyword {
                    Some((_, keyword)) => out.push_str(keyword),
                    None => out.push_str(&dotted(kind)?),
                }
                out.push_str("=#");
                value.iter().for_each(|byte| {
                    let _ = write!(out, "{byte:02X}");
                });
            }
        }
        if out.len() > NAME_LEN_MAX {
            return None;
        }
    }
    Some(out)
}

/// A string of one of the kinds that are written.
fn string(tag: u8, content: &[u8]) -> Option<String> {
    match tag {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => {
            str::from_utf8(content).ok().map(str::to_owned)
        }
        BMP_STRING => {
            let (units, []) = content.as_chunks::<2>() else {
                return None;
            };
            let units: Vec<u16> = units.iter().map(|it| u16::from_be_bytes(*it)).collect();
            String::from_utf16(&units).ok()
        }
        _ => None,
    }
}

/// RFC 4514 §2.4; what is not printable ASCII in hexadecimal.
fn escape(string: &str, out: &mut String) {
    let last = string.len().saturating_sub(1);
    for (at, byte) in string.bytes().enumerate() {
        let is_edge = at == 0 || at == last;
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b'#' if at == 0 => out.push_str("\\#"),
            b' ' if is_edge => out.push_str("\\ "),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
}

/// An object identifier with dots (X.690 §8.19).
fn dotted(bytes: &[u8]) -> Option<String> {
    let mut out = String::new();
    let mut number = 0_u64;
    let mut is_first = true;
    for (at, byte) in bytes.iter().enumerate() {
        number = number.checked_mul(128)? + u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            if at + 1 == bytes.len() {
                return None;
            }
            continue;
        }
        if is_first {
            let root = (number / 40).min(2);
            let _ = write!(out, "{root}.{}", number - 40 * root);
        } else {
            let _ = write!(out, ".{number}");
        }
        (number, is_first) = (0, false);
    }
    (!is_first).then_some(out)
}
