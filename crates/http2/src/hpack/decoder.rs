//! Header blocks into fields (RFC 7541 §3, §5, §6).
//!
//! An entry of the table may be named by a byte, so that the fields of a block may come to thousands of times its length: beyond
//! [`BOMB_LEN`] decoding stops. What of that is kept is for the caller to bound, who is given each field as it comes.

use super::huffman;
use super::table::{DynamicTable, ENTRY_OVERHEAD};
use crate::limits::{BOMB_LEN, TABLE_RESIZES_MAX};

/// Why a header block cannot be decoded. The table is not what the peer thinks from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// It ends in the middle of a field.
    Truncated,
    /// A number is larger than any that is of use (§5.1).
    Number,
    /// No entry has this number (§2.3.3).
    Index,
    /// A string is not coded as it says (§5.2).
    Huffman,
    /// Its fields come to more than anybody means.
    Bomb,
    /// The table's size changes within a block, too often, or beyond what was agreed on (§4.2, §6.3).
    Resize,
}

/// Decodes the header blocks of a connection, in their order.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    /// What the peer may make of the table.
    len_max: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// For a peer that was told that its table may come to `len_max`.
    pub fn new(len_max: usize) -> Decoder {
        Decoder {
            table: DynamicTable::new(len_max),
            len_max,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// How often the table has changed. A block that did not change it is decoded so again while this is the same.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.table.changes()
    }

    /// Decodes a whole block: gives name and value of each field, in order.
    ///
    /// # Errors
    ///
    /// It cannot be decoded, nor can those behind it.
    pub fn decode(
        &mut self,
        block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let mut rest = block;
        let (mut resizes, mut has_fields) = (0, false);
        let mut len = 0;
        let mut field = |name: &[u8], value: &[u8]| {
            len += name.len() + value.len() + ENTRY_OVERHEAD;
            field(name, value);
            match len > BOMB_LEN {
                true => Err(HpackError::Bomb),
                false => Ok(()),
            }
        };
        while let Some(&first) = rest.first() {
            if first & 0xe0 == 0x20 {
                let size = number(&mut rest, 5)?;
                resizes += 1;
                if has_fields || resizes > TABLE_RESIZES_MAX || size > self.len_max {
                    return Err(HpackError::Resize);
                }
                self.table.resize(size);
                continue;
            }
            has_fields = true;
            if first & 0x80 != 0 {
                let (name, value) = self
                    .table
                    .get(number(&mut rest, 7)?)
                    .ok_or(HpackError::Index)?;
                field(name, value)?;
                continue;
            }
            let is_kept = first & 0x40 != 0;
            let named = number(&mut rest, if is_kept { 6 } else { 4 })?;
            self.literal(named, is_kept, &mut rest, &mut field)?;
        }
        Ok(())
    }

    /// A field with its value, and where no entry is named with its name (§6.2).
    fn literal(
        &mut self,
        named: usize,
        is_kept: bool,
        rest: &mut &[u8],
        field: &mut impl FnMut(&[u8], &[u8]) -> Result<(), HpackError>,
    ) -> Result<(), HpackError> {
        let Decoder {
            table,
            name: name_buffer,
            value: value_buffer,
            ..
        } = self;
        name_buffer.clear();
        value_buffer.clear();
        let name = match named {
            0 => string(rest, name_buffer)?,
            _ => table.get(named).ok_or(HpackError::Index)?.0,
        };
        let value = string(rest, value_buffer)?;
        field(name, value)?;
        if is_kept {
            // The name may be that of an entry which goes for this one (§4.4): it is copied before.
            let entry = [name, value].concat();
            let name_len = name.len();
            table.add(entry.into(), name_len);
        }
        Ok(())
    }

    /// Memory that it takes beside itself.
    pub fn held(&self) -> usize {
        self.table.held() + self.name.capacity() + self.value.capacity()
    }

    /// Gives back memory that the longest field took.
    pub fn shrink(&mut self, len: usize) {
        for buffer in [&mut self.name, &mut self.value] {
            if buffer.capacity() > len {
                *buffer = Vec::new();
            }
        }
    }
}

/// A number that begins in the lower bits of the first byte (§5.1), of at most 28 bits beyond these.
#[inline]
pub(super) fn number(rest: &mut &[u8], prefix_bits: u32) -> Result<usize, HpackError> {
    let (&first, mut behind) = rest.split_first().ok_or(HpackError::Truncated)?;
    let mask = (1usize << prefix_bits) - 1;
    let mut value = usize::from(first) & mask;
    if value == mask {
        let mut shift = 0;
        loop {
            let (&byte, next) = behind.split_first().ok_or(HpackError::Truncated)?;
            behind = next;
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 21 {
                return Err(HpackError::Number);
            }
        }
    }
    *rest = behind;
    Ok(value)
}

/// A string (§5.2), which lies in the block or is decoded into `buffer`.
#[inline]
pub(super) fn string<'b, 'r: 'b>(
    rest: &mut &'r [u8],
    buffer: &'b mut Vec<u8>,
) -> Result<&'b [u8], HpackError> {
    let is_coded = rest.first().is_some_and(|first| first & 0x80 != 0);
    let len = number(rest, 7)?;
    let (text, behind) = rest.split_at_checked(len).ok_or(HpackError::Truncated)?;
    *rest = behind;
    if !is_coded {
        return Ok(text);
    }
    match huffman::decode(text, buffer) {
        true => Ok(buffer),
        false => Err(HpackError::Huffman),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, HpackError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut fields = Vec::new();
        decoder.decode(block, |name, value| fields.push((text(name), text(value))))?;
        Ok(fields)
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|b| *b != b' ').collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    fn fields(all: &[(&str, &str)]) -> Result<Vec<(String, String)>, HpackError> {
        let owned = all
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Ok(owned.collect())
    }

    /// RFC 7541 §C.3 and §C.4: the same three requests, plain and coded.
    #[test]
    fn requests_of_the_rfc() {
        let plain = [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ];
        let coded = [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ];
        for blocks in [plain, coded] {
            let mut decoder = Decoder::new(4096);
            let host = (":authority", "www.example.com");
            let (get, path) = ((":method", "GET"), (":path", "/"));
            let first = [get, (":scheme", "http"), path, host];
            assert_eq!(decoded(&mut decoder, &bytes(blocks[0])), fields(&first));
            let second = [first.as_slice(), &[("cache-control", "no-cache")]].concat();
            assert_eq!(decoded(&mut decoder, &bytes(blocks[1])), fields(&second));
            let custom = ("custom-key", "custom-value");
            let third = [
                get,
                (":scheme", "https"),
                (":path", "/index.html"),
                host,
                custom,
            ];
            assert_eq!(decoded(&mut decoder, &bytes(blocks[2])), fields(&third));
            assert_eq!(decoder.table.size(), 164);
        }
    }

    /// RFC 7541 §C.5: a table of 256 bytes, from which entries go.
    #[test]
    fn responses_of_the_rfc() {
        let mut decoder = Decoder::new(256);
        let first = "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d";
        decoded(&mut decoder, &bytes(first)).unwrap();
        assert_eq!(decoder.table.size(), 222);
        let second = decoded(&mut decoder, &bytes("4803 3330 37c1 c0bf")).unwrap();
        assert_eq!(second[0], (":status".to_owned(), "307".to_owned()));
        assert_eq!(second[3].1, "https://www.example.com");
        assert_eq!(decoder.table.size(), 222);
    }

    #[test]
    fn faults_are_told_apart() {
        let mut decoder = Decoder::new(100);
        for (hex, error) in [
            ("80", HpackError::Index),
            ("be", HpackError::Index),
            ("ff80 8080 8001", HpackError::Number),
            ("ff", HpackError::Truncated),
            ("40", HpackError::Truncated),
            ("4003 6162", HpackError::Truncated),
            ("0081 00 00", HpackError::Huffman),
            ("3f46", HpackError::Resize),
            ("8220", HpackError::Resize),
            ("2020 20", HpackError::Resize),
            ("7f7f 01 61", HpackError::Index),
        ] {
            assert_eq!(decoded(&mut decoder, &bytes(hex)), Err(error), "{hex}");
        }
        assert_eq!(
            decoded(&mut decoder, &bytes("20 3f45 82")),
            fields(&[(":method", "GET")])
        );
        assert_eq!(decoded(&mut decoder, b""), fields(&[]));
    }

    /// An entry whose name is that of one which goes for it.
    #[test]
    fn a_name_outlives_its_entry() {
        let mut decoder = Decoder::new(40);
        decoded(&mut decoder, &bytes("4001 6101 62")).unwrap();
        assert_eq!(
            decoded(&mut decoder, &bytes("7e02 6363")),
            fields(&[("a", "cc")])
        );
        assert_eq!(decoded(&mut decoder, &bytes("be")), fields(&[("a", "cc")]));
    }
}
