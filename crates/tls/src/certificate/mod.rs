//! What is read in a certificate (RFC 5280 §4.1): how long it is valid, what it calls its owner and its issuer, and which one it is; and in a
//! public key of RSA.
//!
//! Whether it is good for a name, and who has signed it, is rustls' matter.

mod identity;
mod name;
mod rsa;

use std::fmt::Write as _;

use rustls_pki_types::CertificateDer;

pub use identity::{Identity, identity};
pub use rsa::{RsaPublicKey, rsa_public_key};

/// Seconds since 1970.
pub type UnixSecs = i64;

/// How long a certificate is valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Validity {
    /// From then on.
    pub from: UnixSecs,
    /// The last moment.
    pub until: UnixSecs,
}

/// Bytes of the longest serial number.
const SERIAL_LEN_MAX: usize = 20;

/// Tags of DER (X.690 §8).
const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const EXPLICIT_0: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Whose a certificate is, as text of printable ASCII.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Holder {
    /// Its owner (RFC 4514); where that is no name, or a longer one than is written, `#SHA256:` and the digest of the certificate.
    pub subject: Box<str>,
    /// Who has signed it, as that.
    pub issuer: Box<str>,
    /// Its serial number, in hexadecimal.
    pub serial: Box<str>,
}

/// The fields of a certificate that are looked at, as they are encoded.
struct Fields<'a> {
    serial: &'a [u8],
    issuer: &'a [u8],
    validity: &'a [u8],
    subject: &'a [u8],
}

fn fields(certificate: &[u8]) -> Option<Fields<'_>> {
    let whole = sequence(certificate)?.0;
    let (mut rest, _) = sequence(whole)?;
    let (tag, _, behind) = element(rest)?;
    if tag == EXPLICIT_0 {
        rest = behind; // The version.
    }
    let (INTEGER, serial, rest) = element(rest)? else {
        return None;
    };
    let (_algorithm, rest) = sequence(rest)?;
    let (issuer, rest) = sequence(rest)?;
    let (validity, rest) = sequence(rest)?;
    let (subject, _) = sequence(rest)?;
    Some(Fields {
        serial,
        issuer,
        validity,
        subject,
    })
}

/// How long a certificate is valid; nothing where it is none.
pub fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let times = fields(certificate)?.validity;
    let (from_tag, from, times) = element(times)?;
    let (until_tag, until, _) = element(times)?;
    Some(Validity {
        from: time(from_tag, from)?,
        until: time(until_tag, until)?,
    })
}

/// What is read in a revocation list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RevocationList<'a> {
    /// Whose it is, as it is encoded.
    pub issuer: &'a [u8],
    /// Since when it says what it does.
    pub from: UnixSecs,
    /// It is of version 2 (RFC 5280 §5.1.2.1).
    pub is_v2: bool,
    /// Until when it says what it does (§5.1.2.5), where it says that.
    pub until: Option<UnixSecs>,
}

/// A revocation list; nothing where it is none.
pub fn revocation_list(der: &[u8]) -> Option<RevocationList<'_>> {
    let whole = sequence(der)?.0;
    let (mut rest, _) = sequence(whole)?;
    let mut is_v2 = false;
    if let (INTEGER, version, behind) = element(rest)? {
        (is_v2, rest) = (version == [1], behind);
    }
    let (_algorithm, rest) = sequence(rest)?;
    let (issuer, rest) = sequence(rest)?;
    let (tag, this_update, rest) = element(rest)?;
    let from = time(tag, this_update)?;
    let until = match element(rest) {
        Some((tag @ (UTC_TIME | GENERALIZED_TIME), text, _)) => Some(time(tag, text)?),
        _ => None,
    };
    Some(RevocationList {
        issuer,
        from,
        is_v2,
        until,
    })
}

/// Whose a certificate is; nothing where it is none.
pub fn holder(certificate: &CertificateDer<'_>) -> Option<Holder> {
    let fields = fields(certificate)?;
    let mut serial = String::new();
    // RFC 5280 §4.1.2.2: 20 bytes at most, and one that says that it is positive.
    let digits = fields.serial.strip_prefix(&[0]).unwrap_or(fields.serial);
    for byte in digits.iter().take(SERIAL_LEN_MAX) {
        let _ = write!(serial, "{byte:02X}");
    }
    // Who is known by no name is not nobody.
    let unnamed = || {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
        let hex = digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02X}");
            hex
        });
        format!("#SHA256:{hex}")
    };
    let text = |name| name::text(name).unwrap_or_else(unnamed).into();
    Some(Holder {
        subject: text(fields.subject),
        issuer: text(fields.issuer),
        serial: serial.into(),
    })
}

/// The sequence that bytes begin with: its content, and what is behind it.
fn sequence(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match element(bytes)? {
        (SEQUENCE, content, behind) => Some((content, behind)),
        _ => None,
    }
}

/// The element that bytes begin with: its tag, its content, and what is behind it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let count = usize::from(first & 0x7f);
            let (digits, rest) = rest.split_at_checked(count)?;
            let len = digits
                .iter()
                .fold(0usize, |len, &digit| len << 8 | usize::from(digit));
            (len, rest)
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(len)?;
    Some((tag, content, behind))
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` (RFC 5280 §4.1.2.5).
fn time(tag: u8, text: &[u8]) -> Option<UnixSecs> {
    let digits = text.strip_suffix(b"Z")?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year = number(year)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (number(year)?, rest)
        }
        _ => return None,
    };
    let (&[m1, m2, d1, d2, h1, h2, i1, i2, s1, s2], []) = rest.split_first_chunk()? else {
        return None;
    };
    let (month, day) = (number(&[m1, m2])?, number(&[d1, d2])?);
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[i1, i2])?, number(&[s1, s2])?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 {
        return None;
    }
    Some(((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + i64::from(digit - b'0'))
    })
}

/// Days since 1970 of a date of the Gregorian calendar, whose years are made to begin in March, so that the day that leap
/// years have more is their last one.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}
