//! The fields of one message, in one piece of memory, as many as there may be.

use crate::hpack::ENTRY_OVERHEAD;
use crate::limits::FIELDS_LEN_MAX;

/// Decoded fields.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    /// Where each name, and each value, ends.
    ends: Vec<(u32, u32)>,
    /// What they come to (RFC 7541 §4.1), with those that were not kept.
    len: usize,
}

impl Fields {
    /// None.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.len = 0;
    }

    /// Adds a field, unless they come to too much.
    #[inline]
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.len += name.len() + value.len() + ENTRY_OVERHEAD;
        if self.is_too_long() {
            return;
        }
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len() as u32));
    }

    /// There was more than may be kept.
    pub fn is_too_long(&self) -> bool {
        self.len > FIELDS_LEN_MAX
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// One of them, as name and value.
    ///
    /// # Panics
    ///
    /// Where there is none of this number.
    #[inline]
    pub fn get(&self, at: usize) -> (&[u8], &[u8]) {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (name_end, end) = self.ends[at];
        let name = &self.bytes[start as usize..name_end as usize];
        (name, &self.bytes[name_end as usize..end as usize])
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.count()).map(|at| self.get(at))
    }

    /// Gives memory back that is more than this.
    pub fn shrink(&mut self, len: usize) {
        if self.bytes.capacity() > len {
            *self = Fields::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_kept_up_to_a_limit() {
        let mut fields = Fields::new();
        for _ in 0..2 {
            fields.push(b"a", b"1");
            fields.push(b"", b"");
            fields.push(b"bc", b"");
            let all: Vec<_> = fields.iter().collect();
            assert_eq!(all, [(&b"a"[..], &b"1"[..]), (b"", b""), (b"bc", b"")]);
            assert!(!fields.is_too_long());
            (0..FIELDS_LEN_MAX).for_each(|_| fields.push(b"x", &[b'y'; 100]));
            assert!(fields.is_too_long() && fields.bytes.len() < FIELDS_LEN_MAX);
            fields.clear();
        }
    }
}
