//! One of several equal parts of what is numbered: of this many stacks that divide something among them, each takes every
//! n-th, so that the parts make the whole, and none has what another has.

/// A part: the numbers that leave a remainder when they are divided by the count of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    nth: u32,
    of: u32,
}

impl Part {
    /// Everything.
    pub const WHOLE: Self = Self { nth: 0, of: 1 };

    /// The part of this number, from 0 on, of this many.
    ///
    /// # Panics
    ///
    /// There are not as many.
    pub const fn new(nth: u32, of: u32) -> Self {
        assert!(nth < of, "parts are counted from 0");
        Self { nth, of }
    }

    /// All of this many.
    pub fn all(of: u32) -> impl ExactSizeIterator<Item = Self> {
        (0..of).map(move |nth| Self { nth, of })
    }

    /// Its own number.
    pub const fn nth(self) -> u32 {
        self.nth
    }

    /// How many parts there are.
    pub const fn of(self) -> u32 {
        self.of
    }

    /// How many of the numbers below this are in it.
    pub const fn count(self, end: u64) -> u64 {
        end.saturating_sub(self.nth as u64).div_ceil(self.of as u64)
    }

    /// The number that comes after this many others of it.
    pub const fn number(self, place: u64) -> u64 {
        place * self.of as u64 + self.nth as u64
    }

    /// This number is in it.
    pub const fn contains(self, number: u64) -> bool {
        number % self.of as u64 == self.nth as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each number is in exactly one part, at the place that the part says.
        #[test]
        fn parts_make_the_whole(of in 1u32..9, end in 0u64..200) {
            let mut seen = vec![0; end as usize];
            for part in Part::all(of) {
                for place in 0..part.count(end) {
                    let number = part.number(place);
                    prop_assert!(part.contains(number));
                    seen[number as usize] += 1;
                }
                prop_assert!(part.number(part.count(end)) >= end);
            }
            prop_assert_eq!(seen, vec![1; end as usize]);
        }
    }

    #[test]
    fn without_end() {
        assert_eq!(Part::WHOLE.count(u64::MAX), u64::MAX);
        let all: u64 = Part::all(3).map(|part| part.count(u64::MAX)).sum();
        assert_eq!(all, u64::MAX);
    }
}
