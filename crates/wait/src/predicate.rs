//! What is waited for: any of a few terms over values.
//!
//! Values have numbers, on which both sides agree: positions in a ring, counts of bytes, words of any meaning. In a [`Line`](crate::Line) a
//! predicate is 7 words: 16 bits for each term (the kind above the value's number), and two operands for each.

use crate::limits::TERMS_MAX;

/// Words of a predicate.
pub(crate) const WORDS: usize = 1 + 2 * TERMS_MAX;

/// Those words.
pub(crate) type Encoded = [u64; WORDS];

const NONE: u64 = 0;
const REACHED: u64 = 1;
const EQUALS: u64 = 2;

/// What a value is to be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Test {
    /// This or behind it: values count up and wrap, so of two the one is behind the other that is so by less than half of all.
    Reached(u64),
    /// This, under the mask.
    Equals {
        /// The bits that count.
        mask: u64,
        /// What they are to be.
        value: u64,
    },
}

impl Test {
    /// Whether a value is as it is to be.
    #[inline]
    pub fn holds(self, value: u64) -> bool {
        match self {
            Self::Reached(at) => (value.wrapping_sub(at) as i64) >= 0,
            Self::Equals {
                mask,
                value: wanted,
            } => value & mask == wanted,
        }
    }
}

/// A test of one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Term {
    /// The number of the value.
    pub of: u8,
    /// What it is to be.
    pub test: Test,
}

/// Holds when any of its terms does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Predicate {
    terms: [Option<Term>; TERMS_MAX],
}

impl Predicate {
    /// One that never holds.
    pub const NEVER: Self = Self {
        terms: [None; TERMS_MAX],
    };

    /// It holds also when this does.
    ///
    /// # Panics
    ///
    /// When it has [`TERMS_MAX`] terms already.
    #[must_use]
    #[inline]
    pub fn or(mut self, of: u8, test: Test) -> Self {
        let free = self.terms.iter_mut().find(|term| term.is_none());
        *free.expect("a predicate has three terms at most") = Some(Term { of, test });
        self
    }

    /// Whether it holds for these values, by their numbers. Of what has no number here nothing is known, and it might hold: it does.
    #[inline]
    pub fn holds(&self, values: &[u64]) -> bool {
        let holds = |term: &Term| {
            let value = values.get(usize::from(term.of));
            value.is_none_or(|value| term.test.holds(*value))
        };
        self.terms.iter().flatten().any(holds)
    }

    #[inline]
    pub(crate) fn encode(&self) -> Encoded {
        let mut words = [0; WORDS];
        for (n, term) in self.terms.iter().enumerate() {
            let Some(term) = term else { continue };
            let (kind, first, second) = match term.test {
                Test::Reached(at) => (REACHED, at, 0),
                Test::Equals { mask, value } => (EQUALS, mask, value),
            };
            words[0] |= (kind << 8 | u64::from(term.of)) << (16 * n);
            words[1 + 2 * n] = first;
            words[2 + 2 * n] = second;
        }
        words
    }

    /// What another process wrote; `None` where it has no meaning.
    #[inline]
    pub(crate) fn decode(words: &Encoded) -> Option<Self> {
        let mut terms = [None; TERMS_MAX];
        for (n, decoded) in terms.iter_mut().enumerate() {
            let code = words[0] >> (16 * n) & 0xffff;
            let (first, second) = (words[1 + 2 * n], words[2 + 2 * n]);
            let test = match code >> 8 {
                NONE => continue,
                REACHED => Test::Reached(first),
                EQUALS => Test::Equals {
                    mask: first,
                    value: second,
                },
                _ => return None,
            };
            let of = code as u8;
            *decoded = Some(Term { of, test });
        }
        Some(Self { terms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_reached_also_where_values_wrap() {
        for (at, value, holds) in [
            (0, 0, true),
            (1, 0, false),
            (7, 8, true),
            (u64::MAX, u64::MAX - 1, false),
            (u64::MAX, 3, true),
            (2, u64::MAX, false),
        ] {
            assert_eq!(Test::Reached(at).holds(value), holds, "{value} at {at}");
        }
    }

    #[test]
    fn any_term_is_enough_and_what_has_no_number_might_hold() {
        let is_open = Test::Equals {
            mask: 0xf0,
            value: 0x20,
        };
        let predicate = Predicate::NEVER.or(0, Test::Reached(5)).or(1, is_open);
        for (values, holds) in [
            ([4, 0x30], false),
            ([5, 0x30], true),
            ([4, 0x2f], true),
            ([0, 0], false),
        ] {
            assert_eq!(predicate.holds(&values), holds, "{values:x?}");
        }
        assert!(predicate.holds(&[4]));
        assert!(!Predicate::NEVER.holds(&[]));
    }

    #[test]
    fn words_are_what_was_written_or_nothing() {
        let equals = |value| Test::Equals { mask: 7, value };
        let predicates = [
            Predicate::NEVER,
            Predicate::NEVER.or(255, Test::Reached(u64::MAX)),
            Predicate::NEVER
                .or(1, equals(3))
                .or(0, Test::Reached(9))
                .or(2, equals(1)),
        ];
        for predicate in predicates {
            assert_eq!(Predicate::decode(&predicate.encode()), Some(predicate));
        }
        // Whatever another process writes: it is decoded, or has no meaning, and nothing panics.
        for code in 0..=u64::from(u16::MAX) {
            let mut words = predicates[2].encode();
            words[0] = code << (16 * (code % 4)) | 0x0105;
            let decoded = Predicate::decode(&words);
            let _ = decoded.map(|predicate| predicate.holds(&[0, 1, 2]));
        }
        assert_eq!(Predicate::decode(&[u64::MAX; WORDS]), None);
    }
}
