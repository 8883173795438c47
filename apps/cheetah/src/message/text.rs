//! Numbers and addresses as text, digit by digit: a request for an application has ten of them, and the library's formats take as long for these
//! as all else of its head.

use std::io::Write as _;
use std::net::IpAddr;

/// Appends an address.
pub(crate) fn push_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(ip) => {
            for (n, byte) in ip.octets().into_iter().enumerate() {
                if n > 0 {
                    out.push(b'.');
                }
                push_number(out, byte.into(), 1);
            }
        }
        IpAddr::V6(ip) => {
            // Into a vector this never fails.
            let _ = write!(out, "{ip}");
        }
    }
}

/// Appends a number in at least this many digits.
pub(crate) fn push_number(out: &mut Vec<u8>, mut number: u64, digits_min: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[at.min(digits.len() - digits_min)..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (number, digits, want) in [
            (0, 1, "0"),
            (0, 6, "000000"),
            (7, 3, "007"),
            (u64::MAX, 1, "18446744073709551615"),
        ] {
            let mut out = Vec::new();
            push_number(&mut out, number, digits);
            assert_eq!(out, want.as_bytes());
        }
    }

    #[test]
    fn addresses() {
        for text in ["0.0.0.0", "10.20.255.1", "2001:db8::1"] {
            let mut out = Vec::new();
            push_address(&mut out, text.parse().unwrap());
            assert_eq!(out, text.as_bytes());
        }
    }
}
