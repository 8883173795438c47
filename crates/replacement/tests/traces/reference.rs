//! Policies in the words of their definitions: each decision looks at all that is there.

use std::collections::HashMap;

/// The one that was used least recently goes.
pub struct Lru {
    limit: u64,
    now: u64,
    /// By document: when it was used, and its bytes.
    there: HashMap<usize, (u64, u64)>,
}

impl Lru {
    pub fn new(limit: u64) -> Self {
        let there = HashMap::new();
        Self {
            limit,
            now: 0,
            there,
        }
    }

    /// True when the document was there.
    pub fn ask(&mut self, document: usize, bytes: u64) -> bool {
        self.now += 1;
        let is_hit = self.there.contains_key(&document);
        let held = |there: &HashMap<usize, (u64, u64)>| {
            there.values().map(|(_, bytes)| bytes).sum::<u64>()
        };
        while !is_hit && held(&self.there) + bytes > self.limit {
            let oldest = self.there.iter().min_by_key(|(_, (used, _))| *used);
            let oldest = *oldest.expect("something is there").0;
            self.there.remove(&oldest);
        }
        self.there.insert(document, (self.now, bytes));
        is_hit
    }
}

/// The one that is worth least goes, of those the one that was used least recently; what comes or is used is worth 1/size more than that.
pub struct GreedyDualSize {
    limit: u64,
    level: u128,
    now: u64,
    /// By document: its worth, when it was used, and its bytes.
    there: HashMap<usize, (u128, u64, u64)>,
}

impl GreedyDualSize {
    pub fn new(limit: u64) -> Self {
        let there = HashMap::new();
        Self {
            limit,
            level: 0,
            now: 0,
            there,
        }
    }

    /// True when the document was there.
    pub fn ask(&mut self, document: usize, bytes: u64) -> bool {
        self.now += 1;
        let is_hit = self.there.contains_key(&document);
        let held =
            |there: &HashMap<usize, (u128, u64, u64)>| there.values().map(|it| it.2).sum::<u64>();
        while !is_hit && held(&self.there) + bytes > self.limit {
            let least = self
                .there
                .iter()
                .min_by_key(|(_, (worth, used, _))| (*worth, *used));
            let (least, worth) = least
                .map(|(document, it)| (*document, it.0))
                .expect("something is there");
            self.level = worth;
            self.there.remove(&least);
        }
        let worth = self.level + (1 << 40) / u128::from(bytes);
        self.there.insert(document, (worth, self.now, bytes));
        is_hit
    }
}
