//! Which connection a packet is of, and to which side it goes: by the connection identifier in it.
//!
//! The identifiers of two ends that have nothing to do with each other may be the same where they are short: of fewer than eight bytes,
//! the addresses between which they pass belong to the name. Longer ones name a connection wherever its client moves.

use std::collections::HashMap;

use exos_tls::observer::Side;
use exos_wire::limits::QUIC_CONNECTION_ID_LEN_MAX;

use super::super::Endpoint;

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
}

/// An identifier, and where it is short, from where to where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    id: Id,
    path: Option<(Endpoint, Endpoint)>,
}

impl Name {
    pub(super) fn new(id: Id, path: (Endpoint, Endpoint)) -> Self {
        Self {
            id,
            path: (usize::from(id.len) < ALONE_LEN).then_some(path),
        }
    }
}

impl Name {
    /// The identifier of a short name, which is good between two addresses.
    pub(super) fn short(&self) -> Option<Id> {
        self.path.map(|_| self.id)
    }
}

/// The number of a connection, and the side that is reached.
pub(super) type Reached = (u64, Side);

/// All names.
#[derive(Debug)]
pub(super) struct Names {
    reached: HashMap<Name, Reached>,
    /// How many there are of each length: packets with short headers do not say how long theirs is.
    of_len: [usize; QUIC_CONNECTION_ID_LEN_MAX + 1],
}

impl Default for Names {
    fn default() -> Self {
        Self {
            reached: HashMap::new(),
            of_len: [0; QUIC_CONNECTION_ID_LEN_MAX + 1],
        }
    }
}

impl Names {
    pub(super) fn get(&self, name: &Name) -> Option<Reached> {
        self.reached.get(name).copied()
    }

    /// Whom these bytes behind the first one of a short header name, and by how many bytes.
    pub(super) fn of_short(
        &self,
        bytes: &[u8],
        path: (Endpoint, Endpoint),
    ) -> Option<(Reached, usize)> {
        let lens = (0..=QUIC_CONNECTION_ID_LEN_MAX).rev();
        lens.filter(|len| self.of_len[*len] > 0).find_map(|len| {
            let name = Name::new(Id::new(bytes.get(..len)?)?, path);
            Some((self.get(&name)?, len))
        })
    }

    pub(super) fn insert(&mut self, name: Name, reached: Reached) {
        if self.reached.insert(name, reached).is_none() {
            self.of_len[usize::from(name.id.len)] += 1;
        }
    }

    /// Forgets a name of this connection, unless it is another's by now.
    pub(super) fn remove(&mut self, name: &Name, number: u64) {
        if self.get(name).is_some_and(|reached| reached.0 == number) {
            self.reached.remove(name);
            self.of_len[usize::from(name.id.len)] -= 1;
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
            names.insert(Name::new(id(bytes), path), (number, Side::Client));
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
        names.insert(Name::new(id(b"12"), path), (4, Side::Server));
        names.remove(&Name::new(id(b"12"), path), 2);
        assert_eq!(found(&names, b"1234", path), Some((4, 2)));
        for (number, bytes) in [(1, &b""[..]), (4, b"12"), (3, b"12345678")] {
            names.remove(&Name::new(id(bytes), path), number);
        }
        assert!(names.reached.is_empty() && names.of_len.iter().all(|count| *count == 0));
        assert_eq!(Id::new(&[0; 21]), None);
    }
}
