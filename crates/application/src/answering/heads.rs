//! Heads that were sent on a link, and the numbers by which the server knows them.
//!
//! An application makes a head for each answer, of few that are alike. One whose bytes were sent already is sent as its number. Where all numbers
//! stand for heads, another takes the number of one that was not sent again, if there is any: heads that are sent once do not displace those that
//! are sent often.

use super::answer::Head;
use crate::limits::{HEADS_MAX, NUMBERED_LEN_MAX};
use crate::outgoing::Outgoing;
use crate::record::{Header, Kind};

/// Those that have numbers, from 1 on.
#[derive(Debug, Default)]
pub(super) struct Heads {
    known: Vec<Known>,
    /// Which of them is looked at next for a place.
    at: usize,
}

#[derive(Debug)]
struct Known {
    lines: Vec<u8>,
    /// It was sent again since it was looked at.
    is_used: bool,
}

impl Heads {
    /// Puts the record of a request's head behind what goes.
    pub fn push(&mut self, head: &Head, request: u32, outgoing: &mut Outgoing) {
        let (lines, length) = (head.lines(), head.length_said());
        let header = |len| Header::new(Kind::Head, request, len);
        let mut known = self.known.iter_mut().enumerate();
        if let Some((place, known)) = known.find(|(_, known)| known.lines == lines) {
            known.is_used = true;
            let number = place as u16 + 1;
            return outgoing.push(header(0).of_head(number, length), &[]);
        }
        let len = lines.len() + END.len();
        let number = match len <= NUMBERED_LEN_MAX {
            true => self.remember(lines) as u16 + 1,
            false => 0,
        };
        outgoing.push(header(len).of_head(number, length), &[lines, END]);
    }

    /// Remembers one: in which place.
    fn remember(&mut self, lines: &[u8]) -> usize {
        if self.known.len() < HEADS_MAX {
            self.known.push(Known {
                lines: lines.to_vec(),
                is_used: false,
            });
            return self.known.len() - 1;
        }
        loop {
            let place = self.at;
            self.at = (place + 1) % HEADS_MAX;
            let known = &mut self.known[place];
            if !std::mem::take(&mut known.is_used) {
                known.lines.clear();
                known.lines.extend_from_slice(lines);
                return place;
            }
        }
    }
}

/// The end of a head.
const END: &[u8] = b"\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use exos_iolite::{Pool, Shape};

    /// How many bytes it is sent in.
    fn len(heads: &mut Heads, head: &Head) -> usize {
        let pool = Pool::new("exos-test", Shape::of(8)).expect("memory");
        let mut outgoing = Outgoing::new(pool);
        heads.push(head, 1, &mut outgoing);
        outgoing.len()
    }

    #[test]
    fn a_head_that_is_sent_often_keeps_its_number_among_those_that_are_not() {
        let mut heads = Heads::default();
        let often = Head::new(200).field("Content-Type", "text/html");
        let first = len(&mut heads, &often);
        for n in 0..4 * HEADS_MAX as u64 {
            // The length is no part of it.
            assert!(len(&mut heads, &often.clone().length(n)) < first, "{n}");
            let once = Head::new(200).field("Set-Cookie", n.to_string());
            assert!(len(&mut heads, &once) > 16 && heads.known.len() <= HEADS_MAX);
        }
        let long = Head::new(200).field("X-Long", vec![b'x'; NUMBERED_LEN_MAX]);
        assert_eq!(len(&mut heads, &long), len(&mut heads, &long));
    }
}
