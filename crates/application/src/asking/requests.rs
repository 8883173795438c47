//! The requests of a link by number, and which of them there is news of.
//!
//! A number says where at both ends a request's place is, and how often that was used before: what comes of one that was left is not taken for what
//! comes of the next. The place that has been free for longest is used next, so a number comes again when all were used, 2^32 requests later where
//! few are asked at once. A request that the application has not heard of leaves its number to the next of its place.
//!
//! Places are many and short. What a request takes beside is in entries, as many as there were requests at once, of which the last that was freed
//! is used next, with its memory.

use super::asked::Asked;
use crate::limits::REQUESTS_MAX;
use crate::record::{SLOT_BITS, slot_of};
use exos_iolite::{Error, Result};
use std::collections::VecDeque;

/// All of a link's, each known to its caller by a `T`.
#[derive(Debug)]
pub(super) struct Requests<T> {
    places: Vec<Place>,
    /// Those that are not used, in the order in which they were freed.
    free_places: VecDeque<u32>,
    entries: Vec<Entry<T>>,
    /// Those that are not used.
    free_entries: Vec<u32>,
    /// Those that there is news of, some perhaps left meanwhile.
    news: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// The number of the request, or that of the next.
    number: u32,
    /// Where its entry is; nothing of a place that is not used.
    entry: Option<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    number: u32,
    /// Nothing of an entry that is not used.
    token: Option<T>,
    asked: Asked,
}

impl<T: Copy> Requests<T> {
    pub fn new() -> Self {
        Self {
            places: Vec::new(),
            free_places: VecDeque::new(),
            entries: Vec::new(),
            free_entries: Vec::new(),
            news: VecDeque::new(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free_entries.len()
    }

    /// Another request: its number; nothing where there are as many as there may be.
    pub fn begin(&mut self, token: T) -> Option<u32> {
        let slot = match self.places.len() {
            REQUESTS_MAX => self.free_places.pop_front()?,
            len => {
                let (number, entry) = (len as u32 + 1, None);
                self.places.push(Place { number, entry });
                len as u32
            }
        };
        let place = &mut self.places[slot as usize];
        let (number, token) = (place.number, Some(token));
        let at = self.free_entries.pop().unwrap_or_else(|| {
            let (token, asked) = (None, Asked::default());
            self.entries.push(Entry {
                number,
                token,
                asked,
            });
            self.entries.len() as u32 - 1
        });
        place.entry = Some(at);
        let entry = &mut self.entries[at as usize];
        (entry.number, entry.token) = (number, token);
        Some(number)
    }

    /// Where the entry of a request is.
    fn find(&self, number: u32) -> Option<usize> {
        let place = self.places.get(slot_of(number)?)?;
        let is_it = place.number == number;
        place.entry.filter(|_| is_it).map(|entry| entry as usize)
    }

    pub fn get(&self, number: u32) -> Option<&Asked> {
        Some(&self.entries[self.find(number)?].asked)
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut Asked> {
        let entry = self.find(number)?;
        Some(&mut self.entries[entry].asked)
    }

    /// That which the application says something of; nothing of one that was left.
    ///
    /// # Errors
    ///
    /// The application has not heard of it.
    pub fn heard_of(&mut self, number: u32) -> Result<Option<&mut Asked>> {
        match self.get_mut(number) {
            Some(asked) if !asked.is_begun => {
                Err(Error::PeerFault("it answers what it was not asked"))
            }
            found => Ok(found),
        }
    }

    /// One is left: what it was known by.
    pub fn end(&mut self, number: u32) -> Option<T> {
        let (slot, at) = (slot_of(number)?, self.find(number)?);
        let (place, entry) = (&mut self.places[slot], &mut self.entries[at]);
        place.entry = None;
        if entry.asked.is_begun {
            // Behind the last use comes the first again.
            place.number = number.wrapping_add(1 << SLOT_BITS);
        }
        entry.asked.reset();
        self.free_places.push_back(slot as u32);
        self.free_entries.push(at as u32);
        entry.token.take()
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
            if let Some(at) = self.find(number) {
                let entry = &mut self.entries[at];
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

    /// Asks as the next, and leaves that.
    fn ask(requests: &mut Requests<()>) -> u32 {
        let number = requests.begin(()).expect("there are few");
        requests.get_mut(number).expect("it is asked").is_begun = true;
        requests.end(number);
        number
    }

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
        for nobodys in [0, 4, first, u32::MAX] {
            assert_eq!(requests.end(nobodys), None);
        }
        assert_eq!(requests.len(), 2);
    }

    /// Also where one client asks alone, again and again.
    #[test]
    fn all_numbers_are_used_before_one_comes_again() {
        let mut requests = Requests::new();
        let first = ask(&mut requests);
        let uses_of_a_place = 1 << (32 - SLOT_BITS);
        for _ in 0..4 * uses_of_a_place {
            assert_ne!(ask(&mut requests), first);
        }
        assert_eq!(requests.entries.len(), 1);
        // From here on as if all had been used but the last of each place.
        for place in &mut requests.places {
            place.number |= u32::MAX << SLOT_BITS;
        }
        let last: Vec<u32> = (0..REQUESTS_MAX).map(|_| ask(&mut requests)).collect();
        assert!(!last.contains(&first));
        let again: Vec<u32> = (0..REQUESTS_MAX).map(|_| ask(&mut requests)).collect();
        assert!(again.contains(&first));
    }

    #[test]
    fn a_number_that_was_not_sent_is_no_use_of_it_and_nothing_comes_of_it() {
        let mut requests = Requests::new();
        let first = requests.begin(()).expect("there are few");
        assert!(requests.heard_of(first).is_err());
        requests.end(first);
        assert!(requests.heard_of(first).is_ok_and(|it| it.is_none()));
        (1..REQUESTS_MAX).for_each(|_| _ = ask(&mut requests));
        assert_eq!(requests.begin(()), Some(first));
        requests.get_mut(first).expect("it is asked").is_begun = true;
        assert!(requests.heard_of(first).is_ok_and(|it| it.is_some()));
    }

    #[test]
    fn there_is_a_bound() {
        let mut requests = Requests::new();
        (0..REQUESTS_MAX).for_each(|_| assert!(requests.begin(()).is_some()));
        assert_eq!(requests.begin(()), None);
        requests.end(7);
        assert_eq!(requests.begin(()), Some(7));
    }
}
