//! Field sections into fields (RFC 9204 §4.5).

use exos_http2::hpack::huffman;

use super::table::STATIC;
use crate::error::Fault;

/// Gives the fields of a section, name and value, in their order.
///
/// # Errors
///
/// It cannot be decoded, or names a table that there is not.
pub fn decode(section: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<(), Fault> {
    let mut rest = section;
    // §4.5.1: no entries are needed, so the base is not below them.
    let required = number(&mut rest, 8)?;
    let is_below = rest.first().is_some_and(|first| first & 0x80 != 0);
    number(&mut rest, 7)?;
    if required != 0 || is_below {
        return Err(Fault::Compression);
    }
    let (mut name, mut value) = (Vec::new(), Vec::new());
    while let Some(&first) = rest.first() {
        match first {
            // §4.5.2: an entry of the fixed table.
            0xc0.. => {
                let (name, value) = entry(number(&mut rest, 6)?)?;
                field(name, value);
            }
            // §4.5.4: the name of an entry of the fixed table.
            0x50..=0x5f | 0x70..=0x7f => {
                let (name, _) = entry(number(&mut rest, 4)?)?;
                string(&mut rest, 7, &mut value)?;
                field(name, &value);
            }
            // §4.5.6: a name and a value.
            0x20..=0x3f => {
                string(&mut rest, 3, &mut name)?;
                string(&mut rest, 7, &mut value)?;
                field(&name, &value);
            }
            // §4.5.2 to §4.5.5: entries of the dynamic table.
            0x00..=0x1f | 0x40..=0x4f | 0x60..=0x6f | 0x80..=0xbf => {
                return Err(Fault::Compression);
            }
        }
    }
    Ok(())
}

fn entry(number: u64) -> Result<(&'static [u8], &'static [u8]), Fault> {
    let at = usize::try_from(number).ok();
    let entry = at.and_then(|at| STATIC.get(at)).ok_or(Fault::Compression)?;
    Ok((entry.0.as_bytes(), entry.1.as_bytes()))
}

/// A number whose first bits are the lower ones of the first byte (RFC 7541 §5.1). None of use has more than 32 bits.
pub(crate) fn number(rest: &mut &[u8], prefix_bits: u32) -> Result<u64, Fault> {
    let (&first, mut behind) = rest.split_first().ok_or(Fault::Compression)?;
    let mask = ((1u32 << prefix_bits) - 1) as u8;
    let mut number = u64::from(first & mask);
    if first & mask == mask {
        let mut shift = 0;
        loop {
            let (&byte, after) = behind.split_first().ok_or(Fault::Compression)?;
            behind = after;
            number += u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 28 {
                return Err(Fault::Compression);
            }
        }
    }
    *rest = behind;
    Ok(number)
}

/// A string whose length has this many bits in the first byte, behind the bit that says whether it is coded.
fn string(rest: &mut &[u8], prefix_bits: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    let first = *rest.first().ok_or(Fault::Compression)?;
    let is_coded = first >> prefix_bits & 1 == 1;
    let len = usize::try_from(number(rest, prefix_bits)?).map_err(|_| Fault::Compression)?;
    let (text, behind) = rest.split_at_checked(len).ok_or(Fault::Compression)?;
    *rest = behind;
    out.clear();
    match is_coded {
        true if !huffman::decode(text, out) => Err(Fault::Compression),
        true => Ok(()),
        false => {
            out.extend_from_slice(text);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(section: &[u8]) -> Result<Vec<(String, String)>, Fault> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decode(section, |name, value| {
            fields.push((text(name), text(value)))
        })?;
        Ok(fields)
    }

    /// RFC 9204 §B.1.
    #[test]
    fn a_name_of_the_fixed_table() {
        let section = b"\x00\x00\x51\x0b/index.html";
        let wanted = vec![(":path".to_owned(), "/index.html".to_owned())];
        assert_eq!(decoded(section), Ok(wanted));
    }

    #[test]
    fn all_that_a_table_would_be_needed_for_is_refused() {
        for section in [
            &b""[..],
            b"\x00",
            b"\x02\x00\x80",
            b"\x00\x80\xd1",
            b"\x00\x00\x80",
            b"\x00\x00\x10",
            b"\x00\x00\x40\x00",
            b"\x00\x00\x00\x00",
            b"\x00\x00\xff\x24",
            b"\x00\x00\x5f\x54\x00",
            b"\x00\x00\x51",
            b"\x00\x00\x51\x05/",
            b"\x00\x00\x51\x81\x00",
            b"\x00\x00\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert_eq!(decoded(section), Err(Fault::Compression), "{section:x?}");
        }
        assert_eq!(
            decoded(b"\x00\x00\xff\x23").unwrap().len(),
            1,
            "the last entry"
        );
    }
}
