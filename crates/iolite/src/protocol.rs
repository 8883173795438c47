//! When a buffer may be written again, though processes that have it may end between any two steps.
//!
//! Every shared word has one writer. The owner of a pool writes a *generation* for each buffer, which counts how often it was
//! used. Each *member* of the pool, that is each other process that was let in, writes a column of *holds*, a word for each buffer:
//! 0, or the generation that it has, with a number of the [take](hold_word). There is no count that two processes change, so none that one of them can leave wrong: of a member that
//! has ended the owner ignores the column, and when the owner has ended nobody writes the buffers again.
//!
//! A member that was told of a buffer, as (buffer, generation), announces its hold and looks at the generation then ([`Take`]). The owner
//! has no reference of its own left, sees no hold, makes the generation another, and looks at the holds again ([`Reclaim`]). Both look
//! behind a full barrier, so at least one sees the other's word (Dekker): either the member finds another generation and retracts, or
//! the owner finds the hold, and waits until it is gone.
//!
//! Between owner and member this never happens: the owner keeps a reference to what it has sent until the pipe says that it was taken,
//! which is behind the hold. So does a member that sends a buffer on, by its own hold. It happens when one that has sent something on
//! ends before it was taken; then the bytes are those that were sent, or [`Take::Lost`].
//!
//! | state of a buffer, its owner's | event | next |
//! |---|---|---|
//! | `Free` | a draft is made | `Used` |
//! | `Used` | the owner's last reference goes | `Released` |
//! | `Released` | no member that lives has a hold | the generation is another: `Advanced` |
//! | `Released` | one has | `Released` |
//! | `Advanced` | no member that lives has a hold | `Free` |
//! | `Advanced` | one has: it takes, or has taken, what a process that ended had sent on | `Advanced` |

/// Bits of a generation: a buffer that is used a million times a second reaches its last in nine years.
const GENERATION_BITS: u32 = 48;

/// The last generation.
pub(crate) const GENERATION_MAX: u64 = (1 << GENERATION_BITS) - 1;

/// The word of a hold: the generation, and how often the member took this buffer. So a word that is the same twice is the same hold
/// ([`Census`]): it would take 65,536 holds of one generation between two looks, by what others send on, for another to look like it.
#[inline]
pub(crate) fn hold_word(generation: u64, take: u16) -> u64 {
    u64::from(take) << GENERATION_BITS | generation
}

/// What the owner knows of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum State {
    /// Nobody has it, and nobody can come to have it.
    Free,
    /// The owner has it.
    Used,
    /// The owner does not have it, members may.
    Released,
    /// Nobody was told of its generation yet; a member may still have it by the one before.
    Advanced,
}

/// The words of one buffer, as one process sees them. Every store is in force before any later load (a full barrier).
pub(crate) trait Words {
    fn generation(&self) -> u64;
    fn set_generation(&self, generation: u64);
    /// What the next member from this number on holds; `None` behind the last. Members that have ended are left out.
    fn hold_from(&self, member: usize) -> Option<(usize, u64)>;
    /// This process's own hold, where it is a member.
    fn set_hold(&self, generation: u64);
}

/// Taking a buffer of a generation, step by step: each step touches one shared word once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Take {
    Announce,
    Validate,
    Retract,
    /// It is held.
    Held,
    /// It is of another generation.
    Lost,
}

impl Take {
    #[inline]
    pub fn step(self, generation: u64, words: &impl Words) -> Self {
        match self {
            Self::Announce => {
                words.set_hold(generation);
                Self::Validate
            }
            Self::Validate if words.generation() == generation => Self::Held,
            Self::Validate => Self::Retract,
            Self::Retract => {
                words.set_hold(0);
                Self::Lost
            }
            Self::Held | Self::Lost => self,
        }
    }

    /// True when the buffer was got; nothing is announced when it was not.
    #[inline]
    pub fn run(generation: u64, words: &impl Words) -> bool {
        let mut take = Self::Announce;
        while !matches!(take, Self::Held | Self::Lost) {
            take = take.step(generation, words);
        }
        take == Self::Held
    }
}

/// Looking whether a buffer can be used again, step by step: each step touches one shared word once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Reclaim {
    /// Whether this member, or a later one, has it.
    Look(usize),
    Advance,
    LookAgain(usize),
    /// What the buffer is now.
    Done(State),
}

impl Reclaim {
    /// Where to begin.
    #[inline]
    pub fn of(state: State) -> Self {
        match state {
            State::Released => Self::Look(0),
            State::Advanced => Self::LookAgain(0),
            State::Free | State::Used => Self::Done(state),
        }
    }

    #[inline]
    pub fn step(self, words: &impl Words) -> Self {
        match self {
            Self::Look(member) => match words.hold_from(member) {
                None => Self::Advance,
                Some((member, 0)) => Self::Look(member + 1),
                Some(_) => Self::Done(State::Released),
            },
            Self::Advance => {
                words.set_generation(words.generation() + 1);
                Self::LookAgain(0)
            }
            Self::LookAgain(member) => match words.hold_from(member) {
                None => Self::Done(State::Free),
                Some((member, 0)) => Self::LookAgain(member + 1),
                Some(_) => Self::Done(State::Advanced),
            },
            Self::Done(_) => self,
        }
    }

    /// What the buffer is now.
    #[inline]
    pub fn run(state: State, words: &impl Words) -> State {
        let mut reclaim = Self::of(state);
        loop {
            if let Self::Done(state) = reclaim {
                return state;
            }
            reclaim = reclaim.step(words);
        }
    }
}

/// Counting what a member has at one moment, though it lets go and takes while its words are read one by one: each is read twice, and
/// those count that are the same hold both times. All of these were held when the first reading was over. One reading would count
/// what was let go of during it and what was taken in its place, and find more than a member that keeps to its share ever had.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Census {
    first: Vec<u64>,
    read_again: usize,
    /// How many were held.
    pub held: u32,
}

impl Census {
    /// Reads a word; true when that was the last.
    pub fn step(&mut self, buffers: usize, hold: impl Fn(usize) -> u64) -> bool {
        if self.first.len() < buffers {
            self.first.push(hold(self.first.len()));
        } else {
            let (buffer, before) = (self.read_again, self.first[self.read_again]);
            self.held += u32::from(before != 0 && hold(buffer) == before);
            self.read_again += 1;
        }
        self.read_again == buffers
    }

    /// Whether a member has more than its share.
    pub fn is_more(buffers: usize, share: u32, hold: impl Fn(usize) -> u64) -> bool {
        let mut census = Self::default();
        while !census.step(buffers, &hold) {}
        census.held > share
    }
}

#[cfg(test)]
mod tests;
