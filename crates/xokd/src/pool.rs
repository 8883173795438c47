//! How much of something there may be, by how well the policy knows the users who have it.
//!
//! A rule for everybody lets in users without end: one person may be many (subordinate user numbers). So what
//! the daemon has of something is divided by standing ([`Pool`]): anyone who is named better always finds some left.

/// A user has this many times as many of something as are left for users like them at most: three quarters, the next three
/// quarters of the rest. So the first may have the 12,000 grants of one user, and each that comes later finds some.
const PART_OF_LEFT_MAX: usize = 3;

/// How well a policy knows somebody, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Standing {
    /// By the rules for everybody at most.
    Unnamed,
    /// By a group of theirs, which may have many members.
    Member,
    /// By their name.
    Named,
    /// They are the user that the daemon runs as.
    Own,
}

impl Standing {
    /// All of them in order.
    pub const ALL: [Self; 4] = [Self::Unnamed, Self::Member, Self::Named, Self::Own];

    /// Whose pool it is, for a sentence.
    const fn whom(self) -> &'static str {
        match self {
            Self::Unnamed => "users whom no rule of the policy names",
            Self::Member => "users whom no rule of the policy names but by a group",
            Self::Named => "users other than the daemon's own",
            Self::Own => "all users",
        }
    }

    /// How to get more, for a sentence.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Unnamed | Self::Member => {
                "end some, or have the user named in a rule of their own (user = \"NAME\")"
            }
            Self::Named | Self::Own => "end some",
        }
    }
}

/// How many of something there may be: of each standing with all that are below it.
#[derive(Clone, Copy, Debug)]
pub struct Pool([usize; 4]);

impl Pool {
    /// By standing, in the order of [`Standing::ALL`].
    pub const fn new(most: [usize; 4]) -> Self {
        assert!(most[0] <= most[1] && most[1] <= most[2] && most[2] <= most[3]);
        Self(most)
    }

    /// How many users of a standing may have, with those below it.
    pub const fn most(&self, standing: Standing) -> usize {
        self.0[standing as usize]
    }

    /// How many more somebody may have. `taken` is how many there are, by the standing of who has them.
    pub fn room(
        &self,
        standing: Standing,
        taken: impl IntoIterator<Item = (Standing, usize)>,
    ) -> usize {
        let levels = taken_from(standing, taken);
        let rooms = levels.map(|(level, has)| self.most(level).saturating_sub(has));
        rooms.min().unwrap_or(0)
    }

    /// How many more somebody may have who has `mine` and leaves enough to users like them, as [`Self::check_part`] has it.
    pub fn room_of_part(
        &self,
        standing: Standing,
        mine: usize,
        taken: impl IntoIterator<Item = (Standing, usize)>,
    ) -> usize {
        part_of(self.room(standing, taken), mine)
    }

    /// Whether somebody who has `mine` leaves enough to users like them with one more: at least a third of what they have. So
    /// anyone who comes next finds some left, however many have been before them.
    pub fn check_part(
        &self,
        standing: Standing,
        things: &str,
        mine: usize,
        taken: impl IntoIterator<Item = (Standing, usize)>,
    ) -> Result<(), String> {
        let left = self.room(standing, taken);
        if part_of(left, mine) > 0 {
            return Ok(());
        }
        Err(format!(
            "this user has {mine} {things}, and {left} are left for {}; a user may have {PART_OF_LEFT_MAX} times as many as are left; {}",
            standing.whom(),
            standing.remedy(),
        ))
    }

    /// Whether somebody may have one more; else in whose way it would be, in words that say what to do. `taken` is how
    /// many there are, by the standing of who has them.
    pub fn check(
        &self,
        standing: Standing,
        things: &str,
        taken: impl IntoIterator<Item = (Standing, usize)>,
    ) -> Result<(), String> {
        let mut levels = taken_from(standing, taken);
        match levels.find(|(level, has)| *has >= self.most(*level)) {
            None => Ok(()),
            Some((full, _)) => Err(format!(
                "{} may have {} {things} together, and have them; {}",
                full.whom(),
                self.most(full),
                standing.remedy(),
            )),
        }
    }
}

/// How many of those that are left somebody may have who has `mine`: before the last of them they have less than
/// [`PART_OF_LEFT_MAX`] times what is left.
fn part_of(left: usize, mine: usize) -> usize {
    let beyond = (PART_OF_LEFT_MAX * left).saturating_sub(mine);
    beyond.div_ceil(PART_OF_LEFT_MAX + 1)
}

/// How many are taken of each standing that somebody's counts for, their own and those above it, with all below it.
fn taken_from(
    standing: Standing,
    taken: impl IntoIterator<Item = (Standing, usize)>,
) -> impl Iterator<Item = (Standing, usize)> {
    let mut counts = [0; 4];
    for (standing, count) in taken {
        counts[standing as usize] += count;
    }
    let levels = Standing::ALL.into_iter();
    let levels = levels.map(move |level| (level, counts[..=level as usize].iter().sum()));
    levels.skip(standing as usize)
}

#[cfg(test)]
mod tests {
    use super::Standing::{Member, Named, Own, Unnamed};
    use super::*;

    #[test]
    fn the_next_one_finds_some_left() {
        const POOL: Pool = Pool::new([1000, 2000, 4000, 5000]);
        let (mut has, mut all) = (Vec::new(), 0);
        for _ in 0..5 {
            let mut mine = 0;
            let one = |mine, all| POOL.check_part(Named, "things", mine, [(Named, all)]);
            while one(mine, all).is_ok() {
                (mine, all) = (mine + 1, all + 1);
            }
            has.push(mine);
        }
        assert_eq!(has, [3000, 750, 188, 47, 12]);
        for mine in 0..100 {
            for left in 0..100 {
                let mut more = (0..left).take_while(|n| mine + n < PART_OF_LEFT_MAX * (left - n));
                assert_eq!(part_of(left, mine), more.by_ref().count(), "{mine} {left}");
            }
        }
        let text = POOL.check_part(Unnamed, "things", 750, [(Unnamed, 750)]);
        let text = text.expect_err("a third of it is left");
        assert!(text.contains("no rule of the policy names"), "{text}");
        assert!(
            POOL.check_part(Own, "things", 0, [(Named, 4999)]).is_ok(),
            "the last one"
        );
    }

    #[test]
    fn who_is_named_better_finds_some_left() {
        const POOL: Pool = Pool::new([2, 4, 6, 8]);
        let check = |standing, taken: [usize; 4]| {
            let taken = Standing::ALL.into_iter().zip(taken);
            POOL.check(standing, "things", taken)
        };
        for (taken, last_refused) in [
            ([0, 0, 0, 0], None),
            ([2, 0, 0, 0], Some(Unnamed)),
            ([2, 2, 0, 0], Some(Member)),
            ([0, 4, 0, 0], Some(Member)),
            ([2, 2, 2, 0], Some(Named)),
            ([0, 0, 6, 0], Some(Named)),
            ([2, 2, 2, 2], Some(Own)),
            ([0, 0, 0, 8], Some(Own)),
            // Not only their own part, but all that is kept from them.
            ([1, 0, 0, 6], None),
        ] {
            for standing in Standing::ALL {
                let refused = check(standing, taken).is_err();
                assert_eq!(
                    refused,
                    Some(standing) <= last_refused,
                    "{standing:?} {taken:?}"
                );
            }
        }
        let text = check(Unnamed, [2, 0, 0, 0]).expect_err("full");
        assert!(
            text.contains("no rule of the policy names may have 2 things"),
            "{text}"
        );
        assert!(text.contains("user = \"NAME\""), "{text}");
    }
}
