//! The two tables of header compression: the fixed one, and the one that a peer fills (RFC 7541 §2.3, Appendix A).

use std::collections::VecDeque;

/// What an entry counts beside its bytes (§4.1).
pub const ENTRY_OVERHEAD: usize = 32;

/// The fixed entries; the first has the number 1.
pub const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The number of a fixed entry with this name, and whether it has this value, too.
pub fn find_static(name: &[u8], value: &[u8]) -> Option<(u32, bool)> {
    let named = |(at, _): &(usize, &(&str, &str))| STATIC[*at].0.as_bytes() == name;
    let mut entries = STATIC.iter().enumerate().filter(named).peekable();
    let &(first, _) = entries.peek()?;
    let exact = entries.find(|(_, (_, its))| !value.is_empty() && its.as_bytes() == value);
    Some(match exact {
        Some((at, _)) => (at as u32 + 1, true),
        None => (first as u32 + 1, false),
    })
}

/// The entries that a peer has filled in.
#[derive(Debug)]
pub struct DynamicTable {
    /// The newest first, name and value in one piece, and where the value begins.
    entries: VecDeque<(Box<[u8]>, u32)>,
    len: usize,
    len_max: usize,
    /// How often it has changed.
    changes: u64,
}

impl DynamicTable {
    /// An empty one, which may come to this size (§4.1).
    pub fn new(len_max: usize) -> DynamicTable {
        DynamicTable {
            entries: VecDeque::new(),
            len: 0,
            len_max,
            changes: 0,
        }
    }

    /// What its entries come to (§4.1).
    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.len
    }

    /// Memory that it takes beside itself: the places of the most entries that there were, and their bytes. What an allocator takes of each is
    /// less than what an entry counts beside its bytes.
    pub fn held(&self) -> usize {
        self.len + self.entries.capacity() * size_of::<(Box<[u8]>, u32)>()
    }

    /// How often it has changed: what was decoded is decoded so again while this is the same.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// An entry, by its number among all (§2.3.3), as name and value.
    #[inline]
    pub fn get(&self, number: usize) -> Option<(&[u8], &[u8])> {
        let at = number.checked_sub(1)?;
        match STATIC.get(at) {
            Some((name, value)) => Some((name.as_bytes(), value.as_bytes())),
            None => {
                let (bytes, value_at) = self.entries.get(at - STATIC.len())?;
                Some(bytes.split_at(*value_at as usize))
            }
        }
    }

    /// Adds an entry, name and value in one piece; the oldest go for it, and all where it is longer than the table (§4.4).
    pub fn add(&mut self, entry: Box<[u8]>, name_len: usize) {
        let len = entry.len() + ENTRY_OVERHEAD;
        self.changes += 1;
        self.shrink(self.len_max.saturating_sub(len));
        if len <= self.len_max {
            self.entries.push_front((entry, name_len as u32));
            self.len += len;
        }
    }

    /// It may come to this size from now on (§4.3).
    pub fn resize(&mut self, len_max: usize) {
        self.changes += 1;
        self.len_max = len_max;
        self.shrink(len_max);
    }

    fn shrink(&mut self, len_max: usize) {
        while self.len > len_max
            && let Some((bytes, _)) = self.entries.pop_back()
        {
            self.len -= bytes.len() + ENTRY_OVERHEAD;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_numbered_from_the_newest_on() {
        let mut table = DynamicTable::new(100);
        table.add(Box::from(*b"a1"), 1);
        table.add(Box::from(*b"b"), 1);
        assert_eq!(table.get(62), Some((&b"b"[..], &b""[..])));
        assert_eq!(table.get(63), Some((&b"a"[..], &b"1"[..])));
        assert_eq!((table.get(64), table.get(0)), (None, None));
        assert_eq!(table.get(2), Some((&b":method"[..], &b"GET"[..])));
        assert_eq!(table.len, 67);
        table.add(Box::from(*b"c2"), 1);
        assert_eq!(table.get(64), None, "the oldest has gone");
        table.add(Box::from([b'x'; 101]), 101);
        assert_eq!((table.entries.len(), table.len), (0, 0));
        table.add(Box::from(*b"d3"), 1);
        table.resize(33);
        assert_eq!(table.len, 0);
        assert_eq!(table.changes(), 6);
    }

    #[test]
    fn fixed_entries_are_found_by_name_and_value() {
        assert_eq!(find_static(b":status", b"304"), Some((11, true)));
        assert_eq!(find_static(b":status", b"418"), Some((8, false)));
        assert_eq!(find_static(b"etag", b""), Some((34, false)));
        assert_eq!(find_static(b"www-authenticate", b"x"), Some((61, false)));
        assert_eq!(find_static(b"x-y", b""), None);
    }
}
