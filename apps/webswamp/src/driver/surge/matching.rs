//! Which file is how popular: so that the sizes of what is requested have the published distribution, though neither
//! the sizes of files nor their popularity has it.
//!
//! Files are looked at from the largest to the smallest. Requests to all files from the largest to this one should be as
//! large a share of all requests as the distribution of request sizes says; of the popularities that are left, the file
//! gets the one that comes nearest to that.

use std::collections::BTreeMap;

use super::parameters::{REQUEST_ALPHA, REQUEST_BYTES};

/// The share of requests that are for this size or more.
pub fn requests_above(bytes: f64) -> f64 {
    (REQUEST_BYTES / bytes.max(REQUEST_BYTES)).powf(REQUEST_ALPHA)
}

/// Popularities that are left, by rank.
struct Left {
    /// How many files of each rank.
    ranks: BTreeMap<u32, u32>,
}

impl Left {
    /// The rank whose popularity, the inverse of it, is nearest to a wanted one.
    fn take(&mut self, wanted: f64) -> u32 {
        // A wanted popularity of none is that of a rank beyond all.
        let rank = (1.0 / wanted.max(1e-12)) as u32;
        let more = self.ranks.range(..=rank).next_back();
        let less = self.ranks.range(rank.saturating_add(1)..).next();
        let distance = |rank: u32| (1.0 / f64::from(rank) - wanted).abs();
        let nearest = [more, less].into_iter().flatten().map(|(rank, _)| *rank);
        let nearest = nearest.min_by(|&a, &b| distance(a).total_cmp(&distance(b)));
        let nearest = nearest.expect("there are as many as files");
        let count = self.ranks.get_mut(&nearest).expect("it was found");
        *count -= 1;
        if *count == 0 {
            self.ranks.remove(&nearest);
        }
        nearest
    }
}

/// Gives files to pages: `counts` says how many each has, the most popular page first; as many as there are sizes.
pub fn distribute(mut sizes: Vec<u64>, counts: &[u32]) -> Vec<Vec<u64>> {
    sizes.sort_unstable_by_key(|&bytes| std::cmp::Reverse(bytes));
    let mut left = Left {
        ranks: (1..).zip(counts.iter().copied()).collect(),
    };
    left.ranks.retain(|_, count| *count > 0);
    let popularity = |rank: u32| 1.0 / f64::from(rank);
    let all: f64 = (1..)
        .zip(counts)
        .map(|(rank, &n)| popularity(rank) * f64::from(n))
        .sum();
    let mut pages: Vec<Vec<u64>> = counts.iter().map(|_| Vec::new()).collect();
    let mut given = 0.0;
    for (n, &bytes) in sizes.iter().enumerate() {
        let next = sizes.get(n + 1).map_or(0, |&bytes| bytes);
        // The step of the files' distribution is at this size, half before it and half behind.
        let here = (requests_above(bytes as f64) + requests_above(next as f64)) / 2.0;
        let rank = left.take(here * all - given);
        given += popularity(rank);
        pages[rank as usize - 1].push(bytes);
    }
    pages
}
