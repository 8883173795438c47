//! The table that a peer's encoder fills on a stream of its own (RFC 9204 §3.2, §4.3).
//!
//! Entries have numbers from 0 on, in the order in which they are inserted. A field section says how many entries it needs
//! ([`Table::needed`]): it may come before these do.

use std::collections::VecDeque;
use std::sync::Arc;

use exos_http2::hpack::ENTRY_OVERHEAD;

use super::decoder::{Broken, coded, fixed_entry, number, text};
use crate::error::Fault;

/// Bytes that are kept of an entry's name, and of its value: an observer shows no more of them, and a byte of an instruction may copy an entry.
const TEXT_KEPT: usize = 1024;

/// A name or a value, shared by all entries that have it.
#[derive(Clone, Debug)]
struct Text {
    kept: Arc<[u8]>,
    /// Bytes that it has, with those that are not kept.
    len: usize,
}

impl Text {
    fn new(text: &[u8]) -> Self {
        Self {
            kept: text[..text.len().min(TEXT_KEPT)].into(),
            len: text.len(),
        }
    }
}

/// A field.
#[derive(Clone, Debug)]
struct Entry {
    name: Text,
    value: Text,
}

impl Entry {
    /// What it counts (§3.2.1).
    fn size(&self) -> usize {
        self.name.len + self.value.len + ENTRY_OVERHEAD
    }
}

/// The entries, as the decoder has them, but for the ends of long ones.
#[derive(Debug)]
pub struct Table {
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    capacity: usize,
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
            entries: VecDeque::new(),
            size: 0,
            capacity: 0,
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
        self.size
    }

    /// Memory that it takes beside itself, at most: the places of the most entries that there were, and of each entry two texts, which others
    /// may share. What these and an allocator take beside their bytes is less than three times what an entry counts.
    pub fn held(&self) -> usize {
        let places = self.entries.capacity() * size_of::<Entry>();
        places + self.size + 2 * ENTRY_OVERHEAD * self.entries.len()
    }

    /// How many entries have been inserted.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// The most entries that there is room for, when what the decoder's settings allow is known (§4.5.1.1).
    pub fn entries_max(&self) -> Option<u64> {
        self.capacity_max.map(|max| max / ENTRY_OVERHEAD as u64)
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

    /// Takes an instruction. Its strings are decoded once all of it has come.
    fn instruction(&mut self, rest: &mut &[u8], room: usize) -> Result<(), Broken> {
        let first = *rest.first().ok_or(Broken::Truncated)?;
        let entry = match first {
            // §4.3.2: an entry's name, and a value.
            0x80.. => {
                let at = number(rest, 6)?;
                let name = match first & 0x40 {
                    0 => self.newest(at)?.name.clone(),
                    _ => Text::new(fixed_entry(at)?.0),
                };
                let value = Text::new(&text(coded(rest, 7)?)?);
                Entry { name, value }
            }
            // §4.3.3: a name and a value.
            0x40..=0x7f => {
                let (name, value) = (coded(rest, 5)?, coded(rest, 7)?);
                let (name, value) = (Text::new(&text(name)?), Text::new(&text(value)?));
                Entry { name, value }
            }
            // §4.3.1: how many bytes it may have from now on.
            0x20..=0x3f => {
                let capacity = usize::try_from(number(rest, 5)?).map_err(|_| Broken::Wrong)?;
                let is_allowed = self.capacity_max.is_none_or(|max| capacity as u64 <= max);
                if capacity > room || !is_allowed {
                    return Err(Broken::Wrong);
                }
                self.capacity = capacity;
                self.shrink(capacity);
                return Ok(());
            }
            // §4.3.4: an entry once more.
            0x00..=0x1f => self.newest(number(rest, 5)?)?.clone(),
        };
        let left = self.capacity.checked_sub(entry.size());
        self.shrink(left.ok_or(Broken::Wrong)?);
        self.size += entry.size();
        self.entries.push_front(entry);
        self.inserted += 1;
        Ok(())
    }

    /// The oldest entries go until the others have no more than these bytes.
    fn shrink(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size();
        }
    }

    /// An entry by its relative index: the newest has 0 (§3.2.5).
    fn newest(&self, at: u64) -> Result<&Entry, Broken> {
        let at = usize::try_from(at).ok();
        at.and_then(|at| self.entries.get(at)).ok_or(Broken::Wrong)
    }

    /// An entry by its absolute index (§3.2.4): name and value, cut where they are long.
    pub(super) fn entry(&self, number: u64) -> Result<(&[u8], &[u8]), Broken> {
        let behind = self.inserted.checked_sub(number);
        let at = behind.and_then(|it| it.checked_sub(1));
        let entry = self.newest(at.ok_or(Broken::Wrong)?)?;
        Ok((&entry.name.kept, &entry.value.kept))
    }

    /// How many entries a field section needs; none, while it is not known what the decoder allows.
    ///
    /// # Errors
    ///
    /// It cannot be decoded.
    pub fn needed(&self, section: &[u8]) -> Result<Option<u64>, Fault> {
        let encoded = number(&mut { section }, 8)?;
        if encoded != 0 && self.capacity_max.is_none() {
            return Ok(None);
        }
        Ok(Some(self.required(encoded)?))
    }

    /// How many entries a section needs that says so (§4.5.1.1).
    pub(super) fn required(&self, encoded: u64) -> Result<u64, Broken> {
        if encoded == 0 {
            return Ok(0);
        }
        let entries_max = self.entries_max().unwrap_or(0);
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

    fn has(table: &Table, section: &[u8]) -> Result<bool, Fault> {
        let needed = table.needed(section)?;
        Ok(needed.is_some_and(|needed| needed <= table.inserted()))
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
        assert_eq!(has(&table, section), Ok(false), "nothing is known");
        table.allow(220);
        for end in 0..stream.len() {
            let mut table = Table::observed();
            table.allow(220);
            let mut rest = &stream[..end];
            table.take(&mut rest, 4096).unwrap();
            assert_eq!(has(&table, section), Ok(false));
            let mut rest = &stream[end - rest.len()..];
            table.take(&mut rest, 4096).unwrap();
            assert_eq!((has(&table, section), rest.len()), (Ok(true), 0), "{end}");
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

    /// An entry of the whole table is repeated, and its name is used, by a byte or two: nothing of it is copied.
    #[test]
    fn long_entries_are_not_copied() {
        let mut table = Table::observed();
        let (len, size) = (50_000, 1 << 16);
        let mut stream = vec![0x3f, 0xe1, 0xff, 0x03, 0x5f, 0xb1, 0x86, 0x03];
        stream.resize(stream.len() + len, b'n');
        stream.extend([1, b'v']);
        table.take(&mut &stream[..], size).unwrap();
        assert_eq!(table.size(), len + 1 + ENTRY_OVERHEAD);
        let first = table.newest(0).unwrap().clone();
        assert_eq!(first.name.kept.len(), TEXT_KEPT);
        for instruction in [&[0][..], &[0x80, 1, b'w'], &[0]] {
            table.take(&mut { instruction }, size).unwrap();
            let newest = table.newest(0).unwrap();
            assert!(Arc::ptr_eq(&newest.name.kept, &first.name.kept));
            assert_eq!(newest.size(), len + 1 + ENTRY_OVERHEAD);
        }
        assert_eq!((table.entries.len(), table.inserted()), (1, 4));
    }

    /// A name that cannot be decoded is not looked at before its value has come: a byte of that costs no more for a long name.
    #[test]
    fn strings_are_decoded_when_all_has_come() {
        let stream = b"\x3f\xbd\x01\x61\x00\x7f\x01";
        for end in 3..stream.len() {
            let mut rest = &stream[..end];
            Table::observed().take(&mut rest, 4096).unwrap();
        }
        let whole = [&stream[..], &[b'v'; 128]].concat();
        let taken = Table::observed().take(&mut &whole[..], 4096);
        assert_eq!(taken, Err(Fault::EncoderStream));
    }

    /// Numbers of entries come around (§4.5.1.1).
    #[test]
    fn numbers_of_entries_come_around() {
        let mut table = Table::observed();
        table.allow(100);
        take(&mut table, b"\x3f\x45").unwrap();
        for nth in 0..20_u64 {
            assert_eq!(has(&table, &[((nth + 1) % 6 + 1) as u8, 0]), Ok(false));
            take(&mut table, &[0x41, b'a' + nth as u8, 0]).unwrap();
            let section = [((nth + 1) % 6 + 1) as u8, 0, 0x80];
            let name = char::from(b'a' + nth as u8).to_string();
            assert_eq!(decoded(&table, &section), fields(&[(&name, "")]), "{nth}");
        }
        assert_eq!(has(&table, &[7, 0]), Err(Fault::Compression));
    }
}
