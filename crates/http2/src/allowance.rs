//! How often a peer may do what costs us and brings nobody anything: a number in a row, and a number more in each second.

/// What is left of it.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    left: u32,
    /// The second up to which what is due was added.
    at: u32,
}

impl Allowance {
    /// All of `most`.
    pub const fn new((most, _): (u32, u32)) -> Allowance {
        Allowance { left: most, at: 0 }
    }

    /// Takes one, of `most` in a row and `each` second; false where there is none. `now` is in seconds, from any beginning.
    #[inline]
    pub fn take(&mut self, (most, each): (u32, u32), now: u32) -> bool {
        if now != self.at {
            let due = now.saturating_sub(self.at).saturating_mul(each);
            self.left = self.left.saturating_add(due).min(most);
            self.at = now;
        }
        let is_there = self.left > 0;
        self.left -= u32::from(is_there);
        is_there
    }
}

impl Allowance {
    /// Gives one back, of `most` in a row.
    #[inline]
    pub fn give(&mut self, (most, _): (u32, u32)) {
        self.left = (self.left + 1).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_give_back_what_bursts_take() {
        const OF: (u32, u32) = (3, 2);
        let mut allowance = Allowance::new(OF);
        let mut take = |now| allowance.take(OF, now);
        assert!(take(0) && take(0) && take(0));
        assert!(!take(0));
        assert!(take(1) && take(1) && !take(1));
        assert!(
            take(100) && take(100) && take(100) && !take(100),
            "no more than in a row"
        );
        assert!(!take(99), "no time that goes back gives any");
    }
}
