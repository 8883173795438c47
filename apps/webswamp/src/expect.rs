//! What responses are to be. A whole response that is other is counted as a mismatch, and not as a response.

use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// What a response is to be; what is `None` may be anything.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Expect {
    /// Count responses with another status code as errors (mismatch)
    #[arg(id = "expect_status", long = "expect-status", value_name = "CODE", value_parser = clap::value_parser!(u16).range(200..600))]
    pub status: Option<u16>,
    /// Count responses with another content length as errors (mismatch)
    #[arg(id = "expect_length", long = "expect-length", value_name = "BYTES")]
    pub length: Option<u64>,
    /// Count responses whose content has another SHA-256 hash as errors (mismatch)
    #[arg(id = "expect_sha256", long = "expect-sha256", value_name = "HEX")]
    pub sha256: Option<Sum>,
}

/// A SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum([u8; 32]);

impl FromStr for Sum {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || format!("{text:?} is no SHA-256; write its 64 digits as sha256sum does");
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|c| c.to_digit(16).map(|d| d as u8))
            .collect();
        let digits = digits.filter(|d| d.len() == 64).ok_or_else(help)?;
        let mut sum = [0; 32];
        for (byte, pair) in sum.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(sum))
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Content that comes, as far as somebody wants to know its sum.
#[derive(Clone, Debug, Default)]
pub struct Summing(Option<Box<Sha256>>);

impl Summing {
    /// Content begins.
    pub fn begin(&mut self, expect: &Expect) {
        if expect.sha256.is_some() {
            self.0.get_or_insert_default().reset();
        }
    }

    /// More of it.
    pub fn add(&mut self, bytes: &[u8]) {
        if let Some(sum) = &mut self.0 {
            sum.update(bytes);
        }
    }

    fn end(&mut self) -> Option<Sum> {
        let sum = self.0.as_mut()?;
        Some(Sum(sum.finalize_reset().into()))
    }
}

impl Expect {
    /// Whether a whole response, of this many bytes of content, is as expected.
    pub fn is_met(&self, status: u16, length: u64, summing: &mut Summing) -> bool {
        self.status.is_none_or(|expected| expected == status)
            && self.length.is_none_or(|expected| expected == length)
            && self
                .sha256
                .is_none_or(|expected| summing.end() == Some(expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn sums() {
        let sum: Sum = ABC.parse().unwrap();
        assert_eq!(sum.to_string(), ABC);
        assert_eq!(ABC.to_uppercase().parse(), Ok(sum));
        for text in ["", &ABC[1..], &format!("{ABC}0"), &ABC.replace('b', "g")] {
            assert!(text.parse::<Sum>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_met() {
        let expect = Expect {
            status: Some(200),
            length: Some(3),
            sha256: Some(ABC.parse().unwrap()),
        };
        let met = |status, length, content: &[&str]| {
            let mut summing = Summing::default();
            summing.begin(&expect);
            content.iter().for_each(|part| summing.add(part.as_bytes()));
            expect.is_met(status, length, &mut summing)
        };
        assert!(met(200, 3, &["a", "", "bc"]));
        assert!(!met(206, 3, &["abc"]));
        assert!(!met(200, 4, &["abc"]));
        assert!(!met(200, 3, &["abd"]));
        assert!(Expect::default().is_met(599, 7, &mut Summing::default()));
    }
}
