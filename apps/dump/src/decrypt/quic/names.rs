//! Which connection a packet is of, and to which side it goes: by the connection identifier in it.
//!
//! The identifiers of two ends that have nothing to do with each other may be the same where they are short: of fewer than eight bytes,
//! the addresses between which they pass belong to the name. Longer ones name a connection wherever its client moves.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use exos_tls::observer::Side;
use exos_wire::limits::QUIC_CONNECTION_ID_LEN_MAX;

use crate::decrypt::Ends;

/// From how many bytes on an identifier stands for itself.
pub(super) const ALONE_LEN: usize = 8;

/// A connection identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    len: u8,
    bytes: [u8; QUIC_CONNECTION_ID_LEN_MAX],
}

impl Id {
    /// These bytes; `None` of more than there may be.
    pub(super) fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; QUIC_CONNECTION_ID_LEN_MAX];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        let len = id.len() as u8;
        Some(Self { len, bytes })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }

    pub(super) fn len(self) -> u8 {
        self.len
    }

    /// It names a connection wherever its client moves.
    pub(super) fn stands_alone(self) -> bool {
        usize::from(self.len) >= ALONE_LEN
    }
}

/// An identifier, and where it is short, from where to where it goes: a hash with a key that nobody knows, so that those of two connections
/// are different, and take little memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name(u64);

/// The number of a connection, and the side that is reached.
pub(super) type Reached = (u64, Side);

/// Whom a name reaches, and how long its identifier is.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    side: Side,
    id_len: u8,
}

/// Memory of a name: in its connection's list, and in a table that is half empty.
pub(super) const NAME_HELD: usize = 2 * size_of::<Name>() + 2 * (size_of::<(Name, Entry)>() + 1);

/// All names.
#[derive(Debug, Default)]
pub(super) struct Names {
    hasher: RandomState,
    reached: HashMap<Name, Entry>,
    /// How many there are of each length: packets with short headers do not say how long theirs is.
    of_len: [usize; QUIC_CONNECTION_ID_LEN_MAX + 1],
}

impl Names {
    /// The name of this identifier, between these ends.
    pub(super) fn name(&self, id: Id, path: Ends) -> Name {
        let path = (!id.stands_alone()).then_some(path);
        Name(self.hasher.hash_one((id, path)))
    }

    pub(super) fn get(&self, name: Name) -> Option<Reached> {
        let entry = self.reached.get(&name)?;
        Some((entry.number, entry.side))
    }

    /// Whom these bytes behind the first one of a short header name, and by how many bytes.
    pub(super) fn of_short(&self, bytes: &[u8], path: Ends) -> Option<(Reached, usize)> {
        let lens = (0..=QUIC_CONNECTION_ID_LEN_MAX).rev();
        lens.filter(|len| self.of_len[*len] > 0).find_map(|len| {
            let name = self.name(Id::new(bytes.get(..len)?)?, path);
            Some((self.get(name)?, len))
        })
    }

    /// This name, of an identifier of `id_len` bytes, reaches that side from now on.
    pub(super) fn insert(&mut self, name: Name, id_len: u8, (number, side): Reached) {
        let entry = Entry {
            number,
            side,
            id_len,
        };
        if self.reached.insert(name, entry).is_none() {
            self.of_len[usize::from(id_len)] += 1;
        }
    }

    /// Forgets a name of this connection, unless it is another's by now.
    pub(super) fn remove(&mut self, name: Name, number: u64) {
        if let Some(entry) = self.reached.get(&name).filter(|it| it.number == number) {
            self.of_len[usize::from(entry.id_len)] -= 1;
            self.reached.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Short identifiers are those of an address, long ones wherever they are; the longest that fits is meant.
    #[test]
    fn names_are_found_in_short_headers() {
        let at = |port: u16| (Ipv4Addr::LOCALHOST.into(), port);
        let id = |bytes: &[u8]| Id::new(bytes).expect("an identifier");
        let (path, other) = ((at(1), at(2)), (at(3), at(2)));
        let mut names = Names::default();
        assert_eq!(names.of_short(b"12345678", path), None);
        for (number, bytes) in [(1, &b""[..]), (2, b"12"), (3, b"12345678")] {
            names.insert(
                names.name(id(bytes), path),
                bytes.len() as u8,
                (number, Side::Client),
            );
        }
        let found = |names: &Names, bytes: &[u8], path| {
            let found = names.of_short(bytes, path);
            found.map(|((number, _), len)| (number, len))
        };
        assert_eq!(found(&names, b"123456789", path), Some((3, 8)));
        assert_eq!(found(&names, b"12345678", other), Some((3, 8)), "it moved");
        assert_eq!(found(&names, b"1234", path), Some((2, 2)));
        assert_eq!(found(&names, b"1234", other), None);
        assert_eq!(found(&names, b"x", path), Some((1, 0)));
        // Another's by now: the one of before takes nothing with it.
        names.insert(names.name(id(b"12"), path), 2, (4, Side::Server));
        names.remove(names.name(id(b"12"), path), 2);
        assert_eq!(found(&names, b"1234", path), Some((4, 2)));
        for (number, bytes) in [(1, &b""[..]), (4, b"12"), (3, b"12345678")] {
            names.remove(names.name(id(bytes), path), number);
        }
        assert!(names.reached.is_empty() && names.of_len.iter().all(|count| *count == 0));
        assert_eq!(Id::new(&[0; 21]), None);
    }
}
