//! Which page is asked for next: each as often as its popularity says, and a page that was asked for soon again.
//!
//! Pages lie on a stack, the last one asked for on top. A distance is drawn, and the page that lies so deep is asked for
//! and moved to the top. A page that has been asked for as often as its popularity says leaves the stack, and the pages
//! below come within reach. When the stack is empty a round is over, and the next begins: the most popular pages on top, so
//! that they are asked for from its begin on, and below them those that left last.
//!
//! Popular pages would be asked for as often as their neighbours and come too late or too soon to an end. So one that is
//! behind its pace is taken when it is a neighbour of the page that was drawn, and one that is ahead gives way to such a
//! neighbour.

use rand_distr::{Distribution as _, StandardUniform};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng as _;

use super::parameters::Distributions;

/// Pages without end.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Requests to each page in a round, and to all.
    requests: Vec<u32>,
    all: u64,
    /// How many of them are left.
    left: Vec<u32>,
    all_left: u64,
    /// Pages with requests left, the last one asked for at the end.
    stack: Vec<u32>,
    /// Pages without, in the order in which they left.
    done: Vec<u32>,
    distributions: Distributions,
    random: Pcg64Mcg,
}

/// Pages are popular that get one request in this many, or more.
const POPULAR: u64 = 100;

/// Distances that are drawn for a stack that may not be as deep; nearly none of a stack of ten misses as often.
const DRAWS_MAX: usize = 16;

impl Stream {
    /// Of pages that are asked for so often in each round, at least once each.
    pub fn new(requests: Vec<u32>, seed: u64) -> Self {
        assert!(!requests.is_empty() && !requests.contains(&0));
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut done: Vec<u32> = (0..requests.len() as u32).collect();
        for top in (1..done.len()).rev() {
            done.swap(top, below(top + 1, &mut random));
        }
        Self {
            left: Vec::new(),
            all: requests.iter().map(|&count| u64::from(count)).sum(),
            requests,
            all_left: 0,
            stack: Vec::new(),
            done,
            distributions: Distributions::published(),
            random,
        }
    }

    /// Takes the next page.
    pub fn take(&mut self) -> u32 {
        if self.stack.is_empty() {
            self.begin();
        }
        let place = self.place();
        let page = self.stack[place];
        self.stack[place..].rotate_left(1);
        self.all_left -= 1;
        let left = &mut self.left[page as usize];
        *left -= 1;
        if *left == 0 {
            self.stack.pop();
            self.done.push(page);
        }
        page
    }

    /// A round begins.
    fn begin(&mut self) {
        self.left.clone_from(&self.requests);
        self.all_left = self.all;
        let mut pages = std::mem::take(&mut self.done);
        // Stable: among their like they stay in order.
        pages.sort_by_key(|&page| self.is_popular(page));
        self.stack = pages;
    }

    fn is_popular(&self, page: u32) -> bool {
        u64::from(self.requests[page as usize]) * POPULAR >= self.all
    }

    /// A popular page has had less than its share of the requests of this round so far.
    fn is_behind(&self, page: u32) -> bool {
        let page = page as usize;
        u64::from(self.left[page]) * self.all > u64::from(self.requests[page]) * self.all_left
    }

    /// Where in the stack the next page lies.
    fn place(&mut self) -> usize {
        let place = self.drawn_place();
        let neighbours = place.saturating_sub(1)..(place + 2).min(self.stack.len());
        let mut late = neighbours
            .clone()
            .filter(|&at| self.is_popular(self.stack[at]) && self.is_behind(self.stack[at]));
        if let Some(late) = late.next() {
            return late;
        }
        if !self.is_popular(self.stack[place]) {
            return place;
        }
        let mut others = neighbours.filter(|&at| !self.is_popular(self.stack[at]));
        others.next().unwrap_or(place)
    }

    fn drawn_place(&mut self) -> usize {
        let depth = self.stack.len();
        let mut drawn = (0..DRAWS_MAX).map(|_| self.distributions.distance(&mut self.random));
        // Of a stack that is not as deep, the distances that are in it.
        let distance = drawn.find(|&distance| distance <= depth);
        depth - distance.unwrap_or(depth)
    }
}

fn below(end: usize, random: &mut Pcg64Mcg) -> usize {
    let unit: f64 = StandardUniform.sample(random);
    (unit * end as f64) as usize
}
