//! Requests as a web server gets them, generated, and how many of them a policy has in memory: policies beside one another, without a cache.
//!
//! Few documents are most asked for (Zipf's law), and sizes spread over four orders, so that a request is of 17 to 19 KB on average, as in the trace of
//! *IO-Lite*'s section 4.3. Random numbers are the caller's, who repeats a trace by its seed.

use crate::policy::{Newcomer, Policy, USES_MAX};
use crate::queue::Key;

/// What 53 bits of a random number come to: an `f64` holds all of them.
const UNIT: f64 = (1_u64 << 53) as f64;

/// The exponent of Zipf's law.
const EXPONENT: f64 = 0.9;

/// A document that takes more of a cache than this part of it is not kept.
const LARGE_PART: u64 = 10;

/// The bytes of each of some documents: most some KiB, some MiB.
pub fn sizes(random: &mut dyn FnMut() -> u64, documents: usize) -> Vec<u64> {
    let mut uniform = || ((random() >> 11) + 1) as f64 / UNIT;
    let mut size = |_| {
        let normal = (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        (8192.0 * (1.4 * normal).exp()).clamp(100.0, 4e6) as u64
    };
    (0..documents).map(&mut size).collect()
}

/// Which of some documents is asked for, request after request. The most asked for are anywhere among the numbers.
pub fn requests(random: &mut dyn FnMut() -> u64, documents: usize, requests: usize) -> Vec<usize> {
    let mut sums = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=documents {
        sum += (rank as f64).powf(-EXPONENT);
        sums.push(sum);
    }
    let mut document = |_| {
        let point = (random() >> 11) as f64 / UNIT * sum;
        sums.partition_point(|&s| s <= point).min(documents - 1) * 7919 % documents
    };
    (0..requests).map(&mut document).collect()
}

/// The documents that a policy keeps of those that are asked for, in a memory with a limit in bytes.
#[derive(Debug)]
pub struct Simulated<P> {
    policy: P,
    limit: u64,
    held: u64,
    /// By document.
    keys: Vec<Option<Key>>,
    /// By key: the document, its bytes and uses.
    there: Vec<(usize, u64, u8)>,
    free: Vec<Key>,
}

impl<P: Policy> Simulated<P> {
    /// Nothing is there yet.
    pub fn new(policy: P, limit: u64, documents: usize) -> Self {
        Self {
            policy,
            limit,
            held: 0,
            keys: vec![None; documents],
            there: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Whether a document of this length may be kept.
    pub fn takes(&self, bytes: u64) -> bool {
        bytes <= self.limit / LARGE_PART
    }

    /// True when the document is there.
    ///
    /// # Panics
    ///
    /// The policy says that something goes that is not there, or that nothing does.
    pub fn ask(&mut self, document: usize, bytes: u64) -> bool {
        if let Some(key) = self.keys[document] {
            let uses = &mut self.there[key.index()].2;
            *uses = (*uses + 1).min(USES_MAX);
            self.policy.used(key);
            return true;
        }
        if !self.takes(bytes) {
            return false;
        }
        while self.held + bytes > self.limit {
            let there = &mut self.there;
            let victim = self
                .policy
                .victim(&mut |key| std::mem::take(&mut there[key.index()].2));
            let victim = victim.expect("something is there");
            let (gone, len, _) = self.there[victim.index()];
            assert_eq!(self.keys[gone].take(), Some(victim), "it was there");
            self.held -= len;
            self.free.push(victim);
        }
        let key = self.free.pop().unwrap_or_else(|| {
            self.there.push((0, 0, 0));
            Key::new(self.there.len() as u32 - 1)
        });
        // One use is of the request that it was fetched for.
        self.there[key.index()] = (document, bytes, 1);
        self.keys[document] = Some(key);
        self.held += bytes;
        self.policy.admitted(Newcomer {
            key,
            name: document as u64,
            bytes,
            is_asked_for: true,
        });
        false
    }

    /// The parts of requests, and of their bytes, that are there when they are asked for.
    pub fn hits(&mut self, requests: &[usize], sizes: &[u64]) -> Hits {
        let (mut hits, mut hit_bytes, mut bytes) = (0_u64, 0, 0);
        for document in requests.iter().copied() {
            let len = sizes[document];
            let is_hit = self.ask(document, len);
            hits += u64::from(is_hit);
            hit_bytes += if is_hit { len } else { 0 };
            bytes += len;
        }
        Hits {
            by_object: hits as f64 / requests.len() as f64,
            by_byte: hit_bytes as f64 / bytes as f64,
        }
    }
}

/// Parts of all, from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hits {
    /// Of the requests.
    pub by_object: f64,
    /// Of the bytes that were asked for.
    pub by_byte: f64,
}
