//! The requests of a link by number, and which of them there is news of.
//!
//! A number says where a request's entry is, and how often that was used before: what comes of one that was left is not taken for what comes of the
//! next. Entries are used again with their memory.

use super::asked::Asked;
use crate::limits::REQUESTS_MAX;
use crate::record::{SLOT_BITS, slot_of};
use std::collections::VecDeque;

/// All of a link's, each known to its caller by a `T`.
#[derive(Debug)]
pub(super) struct Requests<T> {
    entries: Vec<Entry<T>>,
    /// Entries that are not used.
    free: Vec<usize>,
    /// Those that there is news of, some perhaps left meanwhile.
    news: VecDeque<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    /// The number of the request, or that of the next.
    number: u32,
    /// Nothing of an entry that is not used.
    token: Option<T>,
    asked: Asked,
}

impl<T: Copy> Requests<T> {
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            news: VecDeque::new(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Another request: its number; nothing where there are as many as there may be.
    pub fn begin(&mut self, token: T) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.entries[slot];
            entry.token = Some(token);
            return Some(entry.number);
        }
        let slot = self.entries.len();
        if slot == REQUESTS_MAX {
            return None;
        }
        let number = slot as u32 + 1;
        self.entries.push(Entry {
            number,
            token: Some(token),
            asked: Asked::default(),
        });
        Some(number)
    }

    fn entry(&mut self, number: u32) -> Option<&mut Entry<T>> {
        let entry = self.entries.get_mut(slot_of(number)?)?;
        (entry.number == number && entry.token.is_some()).then_some(entry)
    }

    pub fn get(&self, number: u32) -> Option<&Asked> {
        let entry = self.entries.get(slot_of(number)?)?;
        (entry.number == number && entry.token.is_some()).then_some(&entry.asked)
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut Asked> {
        self.entry(number).map(|entry| &mut entry.asked)
    }

    /// One is left: what it was known by.
    pub fn end(&mut self, number: u32) -> Option<T> {
        let entry = self.entry(number)?;
        let token = entry.token.take();
        // Behind the last use comes the first again.
        entry.number = number.wrapping_add(1 << SLOT_BITS);
        entry.asked.reset();
        self.free.extend(slot_of(number));
        token
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Asked> {
        let used = self.entries.iter().filter(|it| it.token.is_some());
        used.map(|entry| &entry.asked)
    }

    /// There is news of one, which is told once.
    pub fn tell(&mut self, number: u32) {
        if let Some(asked) = self.get_mut(number)
            && !std::mem::replace(&mut asked.is_told, true)
        {
            self.news.push_back(number);
        }
    }

    /// There is news of all, to each of which this happens.
    pub fn tell_all(&mut self, mut happens: impl FnMut(&mut Asked)) {
        for entry in self.entries.iter_mut().filter(|it| it.token.is_some()) {
            happens(&mut entry.asked);
            if !std::mem::replace(&mut entry.asked.is_told, true) {
                self.news.push_back(entry.number);
            }
        }
    }

    /// There is news to be told, perhaps of some that were left.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The next that there is news of.
    pub fn poll(&mut self) -> Option<T> {
        while let Some(number) = self.news.pop_front() {
            if let Some(entry) = self.entry(number) {
                entry.asked.is_told = false;
                return entry.token;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_late_is_of_no_other_request() {
        let mut requests = Requests::new();
        let first = requests.begin('a').expect("there are few");
        let second = requests.begin('b').expect("there are few");
        requests.tell(first);
        requests.tell(second);
        assert_eq!(requests.end(first), Some('a'));
        let third = requests.begin('c').expect("there are few");
        assert!(third != first && requests.entries.len() == 2);
        assert!(requests.get(first).is_none() && requests.get(third).is_some());
        requests.tell(first);
        assert_eq!((requests.poll(), requests.poll()), (Some('b'), None));
        for nobodys in [0, 3, first, u32::MAX] {
            assert_eq!(requests.end(nobodys), None);
        }
        assert_eq!(requests.len(), 2);
    }

    #[test]
    fn numbers_come_again_when_all_were_used_and_there_is_a_bound() {
        let mut requests = Requests::new();
        let first = requests.begin(()).expect("there are few");
        let mut number = first;
        for _ in 0..1_u64 << (32 - SLOT_BITS) {
            requests.end(number);
            number = requests.begin(()).expect("there are few");
        }
        assert_eq!(number, first);
        (1..REQUESTS_MAX).for_each(|_| assert!(requests.begin(()).is_some()));
        assert!(requests.begin(()).is_none());
    }
}
