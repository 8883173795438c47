//! Numbers of variable length (RFC 9000 §16): the upper two bits of the first byte say how many bytes there are, 1, 2, 4 or 8.

/// The largest number.
pub const MAX: u64 = (1 << 62) - 1;

/// Takes a number from the beginning of `bytes`; nothing, and nothing taken, where it is not whole.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let len = 1usize << (first >> 6);
    let (number, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    let start = u64::from(first & 0x3f);
    Some(
        number[1..]
            .iter()
            .fold(start, |n, b| n << 8 | u64::from(*b)),
    )
}

/// Appends a number in as few bytes as can be.
///
/// # Panics
///
/// It is larger than [`MAX`].
#[inline]
pub fn push(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=0x3f => out.push(number as u8),
        0x40..=0x3fff => out.extend_from_slice(&(0x4000 | number as u16).to_be_bytes()),
        0x4000..=0x3fff_ffff => {
            out.extend_from_slice(&(0x8000_0000 | number as u32).to_be_bytes());
        }
        _ => {
            assert!(number <= MAX, "a number of 62 bits");
            out.extend_from_slice(&(0xc0 << 56 | number).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 §A.1.
    #[test]
    fn numbers_of_the_rfc() {
        for (bytes, number) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            let mut rest = bytes;
            assert_eq!(take(&mut rest), Some(number));
            assert!(rest.is_empty());
            let mut out = Vec::new();
            push(&mut out, number);
            assert_eq!(out, bytes);
            let mut short = &bytes[..bytes.len() - 1];
            assert_eq!((take(&mut short), short.len()), (None, bytes.len() - 1));
        }
        assert_eq!(take(&mut &[0x40, 0x25][..]), Some(37), "longer than needed");
    }
}
