//! The rows of a view: sorted by a column, with one of them chosen, and what keys do with them. No I/O.

use std::cmp::Ordering;

use ratatui::crossterm::event::KeyEvent;

use crate::keys::{Keys, Next, Press, further};

/// What a list has to know of its rows.
pub trait Listed {
    /// What tells a row from others, also when they change places. Rows that are alike stand in this order.
    type Name: Ord;

    /// This one's.
    fn name(&self) -> Self::Name;
}

/// What rows are sorted by.
pub trait Column<R>: Copy + PartialEq + 'static {
    /// In the order of the columns.
    const ALL: &'static [Self];

    /// By what is in the column.
    fn compare(self, a: &R, b: &R) -> Ordering;

    /// Most comes first, but names and numbers from the beginning.
    fn is_descending(self) -> bool;
}

/// Rows, sorted, one of them chosen.
#[derive(Debug)]
pub struct List<R: Listed, C> {
    /// The rows.
    pub rows: Vec<R>,
    /// What they are sorted by.
    pub column: C,
    /// What the keys have set.
    pub keys: Keys,
    chosen: Option<R::Name>,
}

impl<R: Listed, C: Column<R>> List<R, C> {
    /// No rows yet.
    pub fn sorted_by(column: C) -> Self {
        Self {
            rows: Vec::new(),
            column,
            keys: Keys::default(),
            chosen: None,
        }
    }

    /// There are these rows now.
    pub fn set_rows(&mut self, rows: Vec<R>) {
        self.rows = rows;
        self.sort();
    }

    /// A key was pressed.
    pub fn handle_key(&mut self, key: KeyEvent) -> Next {
        match self.keys.handle(key) {
            Press::Quit => return Next::Quit,
            Press::Column(step) => {
                self.column = further(C::ALL, self.column, step);
                self.sort();
            }
            Press::Sort => self.sort(),
            Press::Choose(step) => self.choose(step),
            Press::Enter => self.keys.inside = !self.keys.inside && !self.rows.is_empty(),
            Press::Nothing => {}
        }
        Next::Stay
    }

    /// The row that is looked at: the chosen one, as long as it is there, else the first.
    #[must_use]
    pub fn chosen_row(&self) -> Option<&R> {
        self.chosen_at().and_then(|at| self.rows.get(at))
    }

    /// Its place.
    #[must_use]
    pub fn chosen_at(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref();
        let at = chosen.and_then(|name| self.rows.iter().position(|row| row.name() == *name));
        at.or((!self.rows.is_empty()).then_some(0))
    }

    /// The row that is looked into.
    pub(crate) fn inside(&self) -> Option<&R> {
        self.keys.inside.then(|| self.chosen_row()).flatten()
    }

    fn choose(&mut self, step: isize) {
        let Some(at) = self.chosen_at() else { return };
        let at = at.saturating_add_signed(step).min(self.rows.len() - 1);
        self.chosen = Some(self.rows[at].name());
    }

    fn sort(&mut self) {
        let column = self.column;
        let descending = column.is_descending() != self.keys.reversed;
        self.rows.sort_by_cached_key(Listed::name);
        self.rows.sort_by(|a, b| {
            let order = column.compare(a, b);
            if descending { order.reverse() } else { order }
        });
    }
}
