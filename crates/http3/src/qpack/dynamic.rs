//! The table that a peer's encoder fills on a stream of its own (RFC 9204 §3.2, §4.3).
//!
//! Entries have numbers from 0 on, in the order in which they are inserted. A field section says how many entries it needs
//! ([`Table::has`]): it may come before these do.

use exos_http2::hpack::{DynamicTable, ENTRY_OVERHEAD};

use super::decoder::{Broken, fixed_entry, number, string};
use crate::error::Fault;

/// The entries, as the decoder has them.
#[derive(Debug)]
pub struct Table {
    entries: DynamicTable,
    /// How many have been inserted.
    inserted: u64,
    /// Bytes that the decoder's settings allow, when they are known.
    capacity_max: Option<u64>,
}

impl Default for Table {
    /// One that has no room (§3.2.3).
    fn default() -> Self {
        Self {
            capacity_max: Some(0),
            ..Self::observed()
        }
    }
}

impl Table {
    /// That of a connection of others: what the decoder allows is not known yet.
    pub fn observed() -> Self {
        Self {
            entries: DynamicTable::new(0),
            inserted: 0,
            capacity_max: None,
        }
    }

    /// The decoder's settings allow this capacity, in bytes.
    pub fn allow(&mut self, capacity: u64) {
        self.capacity_max = Some(capacity);
    }

    /// What the decoder's settings allow, when they are known.
    pub fn allowed(&self) -> Option<u64> {
        self.capacity_max
    }

    /// Bytes of its entries (§3.2.1).
    pub fn size(&self) -> usize {
        self.entries.size()
    }

    /// Takes the instructions of an encoder's stream that are whole. `room` is the largest capacity that is accepted.
    ///
    /// # Errors
    ///
    /// An instruction that cannot be followed: the table is not what the encoder thinks from then on.
    pub fn take(&mut self, rest: &mut &[u8], room: usize) -> Result<(), Fault> {
        while !rest.is_empty() {
            let mut behind = *rest;
            match self.instruction(&mut behind, room) {
                Ok(()) => *rest = behind,
                // What is longer than the table is never whole.
                Err(Broken::Truncated) if rest.len() <= 2 * room + ENTRY_OVERHEAD => break,
                Err(_) => return Err(Fault::EncoderStream),
            }
        }
        Ok(())
    }

    fn instruction(&mut self, rest: &mut &[u8], room: usize) -> Result<(), Broken> {
        let (mut name, mut value) = (Vec::new(), Vec::new());
        let first = *rest.first().ok_or(Broken::Truncated)?;
        match first {
            // §4.3.2: an entry's name, and a value.
            0x80.. => {
                let at = number(rest, 6)?;
                name.extend_from_slice(match first & 0x40 {
                    0 => self.newest(at)?.0,
                    _ => fixed_entry(at)?.0,
                });
                string(rest, 7, &mut value)?;
            }
            // §4.3.3: a name and a value.
            0x40..=0x7f => {
                string(rest, 5, &mut name)?;
                string(rest, 7, &mut value)?;
            }
            // §4.3.1: how many bytes it may have from now on.
            0x20..=0x3f => {
                let capacity = usize::try_from(number(rest, 5)?).map_err(|_| Broken::Wrong)?;
                let is_allowed = self.capacity_max.is_none_or(|max| capacity as u64 <= max);
                if capacity > room || !is_allowed {
                    return Err(Broken::Wrong);
                }
                self.entries.resize(capacity);
                return Ok(());
            }
            // §4.3.4: an entry once more.
            0x00..=0x1f => {
                let at = number(rest, 5)?;
                let entry = self.newest(at)?;
                name.extend_from_slice(entry.0);
                value.extend_from_slice(entry.1);
            }
        }
        if name.len() + value.len() + ENTRY_OVERHEAD > self.entries.size_max() {
            return Err(Broken::Wrong);
        }
        let entry = [&name[..], &value].concat();
        self.entries.add(entry.into(), name.len());
        self.inserted += 1;
        Ok(())
    }

    /// An entry counted from the newest on (§3.2.5).
    fn newest(&self, at: u64) -> Result<(&[u8], &[u8]), Broken> {
        let at = usize::try_from(at).ok();
        at.and_then(|at| self.entries.filled(at))
            .ok_or(Broken::Wrong)
    }

    /// An entry by its number (§3.2.4).
    pub(super) fn entry(&self, number: u64) -> Result<(&[u8], &[u8]), Broken> {
        let behind = self.inserted.checked_sub(number);
        self.newest(
            behind
                .and_then(|it| it.checked_sub(1))
                .ok_or(Broken::Wrong)?,
        )
    }

    /// All entries that a field section needs have come; not, while it is not known what the decoder allows.
    ///
    /// # Errors
    ///
    /// It cannot be decoded.
    pub fn has(&self, section: &[u8]) -> Result<bool, Fault> {
        let encoded = number(&mut { section }, 8)?;
        if encoded != 0 && self.capacity_max.is_none() {
            return Ok(false);
        }
        Ok(self.required(encoded)? <= self.inserted)
    }

    /// How many entries a section needs that says so (§4.5.1.1).
    pub(super) fn required(&self, encoded: u64) -> Result<u64, Broken> {
        if encoded == 0 {
            return Ok(0);
        }
        let entries_max = self.capacity_max.unwrap_or(0) / ENTRY_OVERHEAD as u64;
        let full_range = 2 * entries_max;
        if encoded > full_range {
            return Err(Broken::Wrong);
        }
        let most = self.inserted + entries_max;
        let mut required = most / full_range * full_range + encoded - 1;
        if required > most {
            required = required.checked_sub(full_range).ok_or(Broken::Wrong)?;
        }
        match required {
            0 => Err(Broken::Wrong),
            _ => Ok(required),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::decoder::decode_by;
    use super::*;

    fn take(table: &mut Table, bytes: &[u8]) -> Result<(), Fault> {
        let mut rest = bytes;
        table.take(&mut rest, 4096)?;
        assert!(rest.is_empty());
        Ok(())
    }

    fn decoded(table: &Table, section: &[u8]) -> Result<Vec<(String, String)>, Fault> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decode_by(table, section, |name, value| {
            fields.push((text(name), text(value)));
        })?;
        Ok(fields)
    }

    fn fields(all: &[(&str, &str)]) -> Result<Vec<(String, String)>, Fault> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Ok(all.iter().map(owned).collect())
    }

    const HOST: (&str, &str) = (":authority", "www.example.com");
    const PATH: (&str, &str) = (":path", "/sample/path");
    const CUSTOM: (&str, &str) = ("custom-key", "custom-value");

    /// RFC 9204 §B.2 to §B.5: a table of 220 bytes, cut at each byte.
    #[test]
    fn the_example_of_the_rfc() {
        let stream = b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path";
        let mut table = Table::observed();
        let section = b"\x03\x81\x10\x11";
        assert_eq!(table.has(section), Ok(false), "nothing is known");
        table.allow(220);
        for end in 0..stream.len() {
            let mut table = Table::observed();
            table.allow(220);
            let mut rest = &stream[..end];
            table.take(&mut rest, 4096).unwrap();
            assert_eq!(table.has(section), Ok(false));
            let mut rest = &stream[end - rest.len()..];
            table.take(&mut rest, 4096).unwrap();
            assert_eq!((table.has(section), rest.len()), (Ok(true), 0), "{end}");
        }
        take(&mut table, stream).unwrap();
        assert_eq!(table.size(), 106);
        assert_eq!(decoded(&table, section), fields(&[HOST, PATH]));
        take(&mut table, b"\x4acustom-key\x0ccustom-value").unwrap();
        assert_eq!(table.size(), 160);
        take(&mut table, b"\x02").unwrap();
        assert_eq!(table.size(), 217);
        let section = b"\x05\x00\x80\xc1\x81";
        let wanted = fields(&[HOST, (":path", "/"), CUSTOM]);
        assert_eq!(decoded(&table, section), wanted);
        take(&mut table, b"\x81\x0dcustom-value2").unwrap();
        assert_eq!(table.size(), 215);
        // §B.5: the first entry has gone. By the newest one, and by names of entries, also behind the base.
        assert_eq!(decoded(&table, b"\x02\x00\x80"), Err(Fault::Compression));
        let wanted = fields(&[("custom-key", "custom-value2"), (":path", "x"), CUSTOM]);
        let section = b"\x06\x82\x12\x40\x01x\x10";
        let table = &table;
        assert_eq!(decoded(table, section), wanted);
        let wanted = fields(&[("custom-key", "y"), ("a", "b")]);
        assert_eq!(decoded(table, b"\x06\x82\x02\x01y\x21a\x01b"), wanted);
    }

    #[test]
    fn faults_of_encoders() {
        for stream in [
            &b"\x3f\xbe\x01"[..],         // More than is allowed.
            b"\xc0\x00",                  // An entry into no table.
            b"\x3f\x03\xc0\x01a\x80\x00", // Longer than the table.
            b"\x3f\xbd\x01\x00",          // There is none to repeat.
            b"\x3f\xbd\x01\xff\x24\x00",  // No fixed entry.
            b"\x3f\xbd\x01\x61\x00\x00",  // A coded name that is none.
            b"\x3f\xff\xff\xff\xff\xff\xff",
        ] {
            let mut table = Table::observed();
            table.allow(220);
            let taken = table.take(&mut &stream[..], 4096);
            assert_eq!(taken, Err(Fault::EncoderStream), "{stream:x?}");
        }
        // A value without end.
        let mut table = Table::observed();
        let mut rest = &[&b"\x3f\xe1\x1f\x41a\x7f\xff\xff\x7f"[..], &[0; 9000]].concat()[..];
        assert_eq!(table.take(&mut rest, 4096), Err(Fault::EncoderStream));
    }

    /// Numbers of entries come around (§4.5.1.1).
    #[test]
    fn numbers_of_entries_come_around() {
        let mut table = Table::observed();
        table.allow(100);
        take(&mut table, b"\x3f\x45").unwrap();
        for nth in 0..20_u64 {
            assert_eq!(table.has(&[((nth + 1) % 6 + 1) as u8, 0]), Ok(false));
            take(&mut table, &[0x41, b'a' + nth as u8, 0]).unwrap();
            let section = [((nth + 1) % 6 + 1) as u8, 0, 0x80];
            let name = char::from(b'a' + nth as u8).to_string();
            assert_eq!(decoded(&table, &section), fields(&[(&name, "")]), "{nth}");
        }
        assert_eq!(table.has(&[7, 0]), Err(Fault::Compression));
    }
}
