//! Which response comes first (RFC 9218): the value of a client's Priority field, and what it means for what is sent next.
//!
//! The value is a dictionary of structured fields (RFC 8941); of it `u`, an integer from 0 to 7, and `i`, a boolean, count. What
//! cannot be read counts for nothing, all of it or, for a value of a wrong type, that member (RFC 9218 §4).

/// How urgent a response is, and whether a part of it is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// From 0, before all others, to 7.
    pub urgency: u8,
    /// The client can use parts: it shares with others of its urgency.
    pub is_incremental: bool,
}

impl Default for Priority {
    /// §4.1, §4.2.
    fn default() -> Priority {
        Priority {
            urgency: 3,
            is_incremental: false,
        }
    }
}

impl Priority {
    /// What a field says; for what it does not say, the default.
    pub fn parse(value: &[u8]) -> Priority {
        Priority::default().with(value)
    }

    /// This, changed by what another line of the field says.
    #[must_use]
    pub fn with(self, value: &[u8]) -> Priority {
        let mut priority = self;
        for member in value.split(|&b| b == b',') {
            // Parameters behind it mean nothing.
            let mut parts = member.split(|&b| b == b';');
            match parts.next().unwrap_or_default().trim_ascii() {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.is_incremental = true,
                b"i=?0" => priority.is_incremental = false,
                _ => {}
            }
        }
        priority
    }
}

/// The streams that have something to send, and which of them is next.
///
/// Of the most urgent, one that is not incremental is served to its end, in the order in which they came; those that are take turns.
#[derive(Debug, Default)]
pub struct Schedule {
    /// In the order of their streams, but for incremental ones that had their turn.
    entries: Vec<(u32, Priority)>,
}

impl Schedule {
    /// Nobody has anything to send.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many have.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// A stream has something to send; it may be here already.
    pub fn insert(&mut self, stream: u32, priority: Priority) {
        match self.entries.iter_mut().find(|(its, _)| *its == stream) {
            Some(entry) => entry.1 = priority,
            None => self.entries.push((stream, priority)),
        }
    }

    /// Its priority is another, if it is here.
    pub fn change(&mut self, stream: u32, priority: Priority) {
        if let Some(entry) = self.entries.iter_mut().find(|(its, _)| *its == stream) {
            entry.1 = priority;
        }
    }

    /// A stream has nothing to send any more.
    pub fn remove(&mut self, stream: u32) {
        self.entries.retain(|(its, _)| *its != stream);
    }

    /// The next stream, of those that can send; one that is incremental has the others before it the next time.
    pub fn next(&mut self, mut can_send: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut best: Option<(usize, (u8, bool, u32))> = None;
        for (at, (stream, priority)) in self.entries.iter().enumerate() {
            // Incremental ones in the order in which they lie here, the others by their number.
            let order = if priority.is_incremental { 0 } else { *stream };
            let key = (priority.urgency, priority.is_incremental, order);
            if best.is_none_or(|(_, known)| key < known) && can_send(*stream) {
                best = Some((at, key));
            }
        }
        let (at, (_, is_incremental, _)) = best?;
        let entry = self.entries[at];
        if is_incremental {
            self.entries.remove(at);
            self.entries.push(entry);
        }
        Some(entry.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        for (value, urgency, is_incremental) in [
            ("", 3, false),
            ("u=5, i", 5, true),
            ("u=0", 0, false),
            (" i=?1 ,u=7", 7, true),
            ("i, i=?0", 3, false),
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=1.0", 3, false),
            ("u=\"1\", i=1", 3, false),
            ("u=2;x=1, y, z=(1 2);q", 2, false),
            ("u=1, u=2", 2, false),
            ("\u{ff}", 3, false),
        ] {
            let wanted = Priority {
                urgency,
                is_incremental,
            };
            assert_eq!(Priority::parse(value.as_bytes()), wanted, "{value:?}");
        }
    }

    fn order(schedule: &mut Schedule, count: usize) -> Vec<u32> {
        (0..count).filter_map(|_| schedule.next(|_| true)).collect()
    }

    #[test]
    fn the_most_urgent_comes_first_and_incremental_ones_take_turns() {
        let of = |text: &str| Priority::parse(text.as_bytes());
        let mut schedule = Schedule::default();
        schedule.insert(1, of("u=4"));
        schedule.insert(3, of("u=2, i"));
        schedule.insert(5, of("u=2, i"));
        schedule.insert(9, of("u=2"));
        schedule.insert(7, of("u=2"));
        assert_eq!(order(&mut schedule, 2), [7, 7], "to its end, in order");
        schedule.remove(7);
        schedule.remove(9);
        assert_eq!(order(&mut schedule, 4), [3, 5, 3, 5]);
        assert_eq!(schedule.next(|stream| stream != 3 && stream != 5), Some(1));
        schedule.change(1, of("u=0"));
        assert_eq!(order(&mut schedule, 1), [1]);
        schedule.insert(1, of("u=7"));
        assert_eq!(order(&mut schedule, 2), [3, 5]);
        assert_eq!(schedule.len(), 3);
    }
}
