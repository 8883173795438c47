//! Maglev hashing: which server of several a key belongs to, such that a server that comes or goes takes few keys along.
//!
//! Eisenbud and others, "Maglev: A Fast and Reliable Software Network Load Balancer" (NSDI 2016), section 3.4. Each
//! server has an order of its own in which it would like the entries of a table; in turns each takes the first one on
//! its list that is free. Nothing but names and weights goes in, so that forwarders that know nothing of each other
//! agree, and one that has forgotten everything decides as before. The order in which servers are given does not matter.
//!
//! **Weights.** A server takes turns as often as its weight says: one of half the largest weight in every second round.
//!
//! **In parts.** [`Building`] makes a table a bounded part at a time, beside one that is in use.
//!
//! **What moves.** Without a server, its keys go to others; beside these a few more move, because turns come differently.
//! Those are at most 1/160 of all keys with the small table and 1/640 with the large one ([`TABLE_LENS`]), whatever the number
//! of servers: so of up to 16 servers alike, or 64, at most 1.1/N of the keys move. A table keeps its size when servers come
//! and go ([`Maglev::build`] is told it), since with another nearly everything moves.

use exos_inet::siphash::SipKey;

use crate::limits::{SERVERS_PER_LISTENER_MAX, TABLE_LENS};

/// A server, as the table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What its preferences follow from: the same for all who are to agree, and different from those of others.
    pub name: u64,
    /// How much it is to get compared with others; none where zero.
    pub weight: u16,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Maglev {
    /// For each entry one more than the place of its server among the candidates. A single entry where there is one server.
    entries: Vec<u16>,
}

/// One server while the table is filled.
struct Turn {
    place: u16,
    weight: u64,
    credit: u64,
    next: usize,
    skip: usize,
}

/// A table that is being filled.
pub struct Building {
    entries: Vec<u16>,
    turns: Vec<Turn>,
    /// The largest weight.
    most: u64,
    /// Whose turn it is.
    at: usize,
    /// Whether they are looking for a free entry.
    is_looking: bool,
    /// Entries that are free.
    left: usize,
}

/// An entry that is free. Zero, so that the kernel gives the memory of a table page by page, as it is filled.
const FREE: u16 = 0;

impl Maglev {
    /// The size for this many servers at most.
    pub fn len_for(servers: usize) -> usize {
        let larger = servers > SERVERS_PER_LISTENER_MAX[0];
        TABLE_LENS[usize::from(larger)]
    }

    /// A table of `len` entries, which is prime; `None` when no server has a weight.
    pub fn build(servers: &[Candidate], len: usize) -> Option<Self> {
        let mut building = Building::begin(servers, len)?;
        loop {
            building = match building.advance(usize::MAX) {
                Ok(table) => return Some(table),
                Err(rest) => rest,
            };
        }
    }

    /// The place of the server that a key with this hash belongs to.
    #[inline]
    pub fn server_of(&self, hash: u64) -> usize {
        // The high half of the product: spread evenly without a division.
        let at = (u128::from(hash) * self.entries.len() as u128) >> 64;
        usize::from(self.entries[at as usize] - 1)
    }
}

impl Building {
    /// Begins a table of `len` entries, which is prime; `None` when no server has a weight.
    pub fn begin(servers: &[Candidate], len: usize) -> Option<Self> {
        let most = u64::from(servers.iter().map(|s| s.weight).max()?);
        if most == 0 {
            return None;
        }
        let weighty = (0..).zip(servers).filter(|(_, server)| server.weight > 0);
        let mut all: Vec<(u16, &Candidate)> = weighty.collect();
        // The order of turns is that of names, so that anyone who knows the same servers makes the same table.
        all.sort_by_key(|(_, server)| server.name);
        let (entries, left) = match &all[..] {
            [(place, _)] => (vec![*place + 1], 0),
            _ => (vec![FREE; len], len),
        };
        let turns = all.into_iter().map(|(place, s)| Turn::new(place, s, len));
        Some(Self {
            entries,
            turns: turns.collect(),
            most,
            at: 0,
            is_looking: false,
            left,
        })
    }

    /// Goes on, looking at this many entries at most; the table when it is whole.
    ///
    /// # Errors
    ///
    /// It is not yet: this is what there is of it.
    pub fn advance(mut self, entries_max: usize) -> Result<Maglev, Self> {
        for _ in 0..entries_max {
            if self.left == 0 {
                return Ok(Maglev {
                    entries: self.entries,
                });
            }
            self.step();
        }
        Err(self)
    }

    /// Looks at an entry, or passes a turn.
    #[inline]
    fn step(&mut self) {
        let turn = &mut self.turns[self.at];
        let len = self.entries.len();
        if !self.is_looking {
            turn.credit += turn.weight;
            self.is_looking = turn.credit >= self.most;
        }
        if self.is_looking {
            let entry = &mut self.entries[turn.next];
            turn.next += turn.skip;
            if turn.next >= len {
                turn.next -= len;
            }
            if *entry != FREE {
                return;
            }
            *entry = turn.place + 1;
            turn.credit -= self.most;
            (self.left, self.is_looking) = (self.left - 1, false);
        }
        self.at += 1;
        if self.at == self.turns.len() {
            self.at = 0;
        }
    }
}

impl Turn {
    /// Its order goes through all entries, since the length is prime.
    fn new(place: u16, server: &Candidate, len: usize) -> Self {
        // No secret: others are to find the same.
        let key = SipKey::from_seed(0);
        let [offset, skip] = [0, 1].map(|which| key.hash(&[server.name, which]));
        Self {
            place,
            weight: server.weight.into(),
            credit: 0,
            next: (offset % len as u64) as usize,
            skip: 1 + (skip % (len as u64 - 1)) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(count: u64) -> Vec<Candidate> {
        let one = |n| Candidate {
            name: n * 7919 + 13,
            weight: 1,
        };
        (0..count).map(one).collect()
    }

    fn table(servers: &[Candidate], len: usize) -> Maglev {
        Maglev::build(servers, len).unwrap()
    }

    fn share(table: &Maglev, place: u16) -> f64 {
        let own = table.entries.iter().filter(|&&e| e == place + 1).count();
        own as f64 / table.entries.len() as f64
    }

    /// Entries that belong to other servers in the one than in the other, as servers are called.
    fn moved(a: (&Maglev, &[Candidate]), b: (&Maglev, &[Candidate])) -> f64 {
        let len = a.0.entries.len().max(b.0.entries.len());
        let name = |(table, servers): (&Maglev, &[Candidate]), at: usize| {
            servers[usize::from(table.entries[at * table.entries.len() / len] - 1)].name
        };
        let count = (0..len).filter(|&at| name(a, at) != name(b, at)).count();
        count as f64 / len as f64
    }

    /// Keys that move beside its own when a server goes, or comes: at most this many of all.
    fn beside_max(len: usize) -> f64 {
        if len == TABLE_LENS[0] {
            1.0 / 160.0
        } else {
            1.0 / 640.0
        }
    }

    /// One server goes, or comes: the first, the last, one between.
    #[test]
    fn few_keys_move() {
        for count in [2, 3, 5, 10, 16, 17, 64, 256] {
            let (all, len) = (servers(count), Maglev::len_for(count as usize));
            let whole = table(&all, len);
            for gone in [0, count as usize / 2, count as usize - 1] {
                let mut rest = all.clone();
                rest.remove(gone);
                let moved = moved((&whole, &all), (&table(&rest, len), &rest));
                let most = 1.0 / count as f64 + beside_max(len);
                assert!(
                    moved <= most,
                    "{count} servers, without {gone}: {moved} of {most}"
                );
            }
        }
    }

    /// Few keys move when a server with a weight goes.
    #[test]
    fn few_keys_move_of_a_server_with_a_weight() {
        for count in [12, 40] {
            let (mut all, len) = (servers(count), Maglev::len_for(count as usize));
            for (n, server) in all.iter_mut().enumerate() {
                server.weight = [1, 3, 10, 4][n % 4];
            }
            let whole = table(&all, len);
            for gone in (0..all.len()).step_by(3) {
                let mut rest = all.clone();
                rest[gone].weight = 0;
                let most = share(&whole, gone as u16) + beside_max(len);
                let moved = moved((&whole, &all), (&table(&rest, len), &rest));
                assert!(
                    moved <= most,
                    "without {gone} of {count}: {moved} of {most}"
                );
            }
        }
    }

    /// Everybody gets what is due, to a hundredth of it.
    #[test]
    fn shares_are_as_the_weights_say() {
        let mut all = servers(7);
        for (n, server) in all.iter_mut().enumerate() {
            server.weight = [100, 50, 1, 0, 25, 100, 7][n];
        }
        let sum: u16 = all.iter().map(|s| s.weight).sum();
        let whole = table(&all, Maglev::len_for(7));
        for (n, server) in (0..).zip(&all) {
            let (wanted, got) = (f64::from(server.weight) / f64::from(sum), share(&whole, n));
            assert!(
                (got - wanted).abs() <= wanted / 100.0,
                "{n}: {got} for {wanted}"
            );
        }
    }

    #[test]
    fn one_server_has_all() {
        let mut all = servers(3);
        (all[0].weight, all[2].weight) = (0, 0);
        assert_eq!(share(&table(&all, 65_537), 1), 1.0);
    }

    #[test]
    fn without_weight_there_is_no_server() {
        let nobody = Candidate { name: 1, weight: 0 };
        assert!(Maglev::build(&[], 65_537).is_none());
        assert!(Maglev::build(&[nobody], 65_537).is_none());
    }

    /// What other forwarders rely on: the same table from the same names, whatever the order in which they are given.
    #[test]
    fn the_order_of_servers_does_not_matter() {
        let all = servers(5);
        let mut turned = all.clone();
        turned.reverse();
        let (a, b) = (table(&all, 65_537), table(&turned, 65_537));
        assert!(moved((&a, &all), (&b, &turned)) == 0.0);
    }

    /// A table that is made in parts is the one that is made at once.
    #[test]
    fn parts_make_a_whole() {
        let mut all = servers(5);
        all[1].weight = 3;
        let mut building = Building::begin(&all, 65_537).unwrap();
        let mut parts = 1;
        let whole = loop {
            building = match building.advance(1000) {
                Ok(table) => break table,
                Err(rest) => rest,
            };
            parts += 1;
        };
        assert!(parts > 65, "{parts} parts of a thousand");
        assert!(whole.entries == table(&all, 65_537).entries);
    }

    #[test]
    fn hashes_are_spread_over_the_whole_table() {
        let whole = table(&servers(3), 65_537);
        let place = |at: usize| usize::from(whole.entries[at] - 1);
        assert_eq!(whole.server_of(0), place(0));
        assert_eq!(whole.server_of(u64::MAX), place(65_536));
    }
}
