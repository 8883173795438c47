//! How long a word or a condition may be, as text and as a tree: `&&` and `||` wherever they stand, for what is made of them is as deep as they
//! are many, and is written with as many parentheses within one another.

use crate::limits::{LINKS_MAX, OPERATORS_MAX};

const TOO_LONG: &str = "this is too long; use a variable, or a second `if`";

/// What one may still have.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    links: usize,
    operators: usize,
}

impl Budget {
    /// Before its first.
    pub(crate) const WHOLE: Self = Self {
        links: LINKS_MAX,
        operators: OPERATORS_MAX,
    };

    /// One more `&&` or `||`.
    pub(crate) fn spend_link(&mut self) -> Result<(), &'static str> {
        spend(&mut self.links, 1)
    }

    /// More operators of words.
    pub(crate) fn spend_operators(&mut self, count: usize) -> Result<(), &'static str> {
        spend(&mut self.operators, count)
    }
}

fn spend(left: &mut usize, count: usize) -> Result<(), &'static str> {
    *left = left.checked_sub(count).ok_or(TOO_LONG)?;
    Ok(())
}
