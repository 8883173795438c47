//! Field sections into fields (RFC 9204 §4.5).

use std::borrow::Cow;

use exos_http2::hpack::huffman;

use super::dynamic::Table;
use super::table::STATIC;
use crate::error::Fault;

/// Room for a usual value.
const VALUE_LEN: usize = 128;

/// What is wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// More may follow.
    Truncated,
    /// Nothing that follows mends it.
    Wrong,
}

impl From<Broken> for Fault {
    fn from(_: Broken) -> Self {
        Fault::Compression
    }
}

/// Gives the fields of a section, name and value, in their order.
///
/// # Errors
///
/// It cannot be decoded, or names a table that there is not.
pub fn decode(section: &[u8], field: impl FnMut(&[u8], &[u8])) -> Result<(), Fault> {
    decode_by(&Table::default(), section, field)
}

/// Gives the fields of a section whose sender has filled this table. A byte may name an entry of the table's size.
///
/// # Errors
///
/// It cannot be decoded, or names entries that have not come, or have gone.
pub fn decode_by(
    table: &Table,
    section: &[u8],
    mut field: impl FnMut(&[u8], &[u8]),
) -> Result<(), Fault> {
    let mut rest = section;
    let required = table.required(number(&mut rest, 8)?)?;
    // §4.5.1.2: the base is behind the entries that are needed, or before the last of them.
    let is_below = rest.first().is_some_and(|first| first & 0x80 != 0);
    let delta = number(&mut rest, 7)?;
    let base = match is_below {
        false => required + delta,
        true => required.checked_sub(delta + 1).ok_or(Fault::Compression)?,
    };
    let filled = |number: Option<u64>| {
        let number = number.filter(|number| *number < required);
        table.entry(number.ok_or(Broken::Wrong)?)
    };
    let before = |at: u64| filled(base.checked_sub(at + 1));
    let behind = |at: u64| filled(Some(base + at));
    // Most names are an entry's; a path and a host are in no table.
    let (mut name, mut value) = (Vec::new(), Vec::with_capacity(VALUE_LEN));
    while let Some(&first) = rest.first() {
        let named = match first {
            // §4.5.2, §4.5.3: an entry.
            0x80.. | 0x10..=0x1f => {
                let (name, value) = match first {
                    0xc0.. => fixed_entry(number(&mut rest, 6)?)?,
                    0x80.. => before(number(&mut rest, 6)?)?,
                    _ => behind(number(&mut rest, 4)?)?,
                };
                field(name, value);
                continue;
            }
            // §4.5.4, §4.5.5: the name of an entry.
            0x50..=0x5f | 0x70..=0x7f => fixed_entry(number(&mut rest, 4)?)?.0,
            0x40..=0x4f | 0x60..=0x6f => before(number(&mut rest, 4)?)?.0,
            0x00..=0x0f => behind(number(&mut rest, 3)?)?.0,
            // §4.5.6: a name and a value.
            0x20..=0x3f => {
                string(&mut rest, 3, &mut name)?;
                &name[..]
            }
        };
        string(&mut rest, 7, &mut value)?;
        field(named, &value);
    }
    Ok(())
}

pub(super) fn fixed_entry(number: u64) -> Result<(&'static [u8], &'static [u8]), Broken> {
    let at = usize::try_from(number).ok();
    let entry = at.and_then(|at| STATIC.get(at)).ok_or(Broken::Wrong)?;
    Ok((entry.0.as_bytes(), entry.1.as_bytes()))
}

/// A number whose first bits are the lower ones of the first byte (RFC 7541 §5.1). None of use has more than 32 bits.
pub(super) fn number(rest: &mut &[u8], prefix_bits: u32) -> Result<u64, Broken> {
    let (&first, mut behind) = rest.split_first().ok_or(Broken::Truncated)?;
    let mask = ((1u32 << prefix_bits) - 1) as u8;
    let mut number = u64::from(first & mask);
    if first & mask == mask {
        let mut shift = 0;
        loop {
            let (&byte, after) = behind.split_first().ok_or(Broken::Truncated)?;
            behind = after;
            number += u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 28 {
                return Err(Broken::Wrong);
            }
        }
    }
    *rest = behind;
    Ok(number)
}

/// A string whose length has this many bits in the first byte, behind the bit that says whether it is coded.
pub(super) fn string(rest: &mut &[u8], prefix_bits: u32, out: &mut Vec<u8>) -> Result<(), Broken> {
    out.clear();
    match coded(rest, prefix_bits)? {
        (true, text) if !huffman::decode(text, out) => return Err(Broken::Wrong),
        (true, _) => {}
        (false, text) => out.extend_from_slice(text),
    }
    Ok(())
}

/// Such a string as it stands there, and whether it is coded.
pub(super) fn coded<'a>(rest: &mut &'a [u8], prefix_bits: u32) -> Result<(bool, &'a [u8]), Broken> {
    let first = *rest.first().ok_or(Broken::Truncated)?;
    let is_coded = first >> prefix_bits & 1 == 1;
    let len = usize::try_from(number(rest, prefix_bits)?).map_err(|_| Broken::Wrong)?;
    let (text, behind) = rest.split_at_checked(len).ok_or(Broken::Truncated)?;
    *rest = behind;
    Ok((is_coded, text))
}

/// What a string says.
pub(super) fn text((is_coded, text): (bool, &[u8])) -> Result<Cow<'_, [u8]>, Broken> {
    if !is_coded {
        return Ok(text.into());
    }
    let mut out = Vec::new();
    match huffman::decode(text, &mut out) {
        true => Ok(out.into()),
        false => Err(Broken::Wrong),
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
