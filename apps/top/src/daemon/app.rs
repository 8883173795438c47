//! What keys do, and what the next report changes. No I/O.

use exos_program::status::Status;
use ratatui::crossterm::event::KeyEvent;

use super::rates::{Rates, Row, rows};
use crate::keys::{Keys, Next, Press, further};

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Interface and slot.
    Slot,
    /// The program's name.
    Program,
    /// Bits received per second.
    Rx,
    /// Bits sent per second.
    Tx,
    /// Packets dropped per second, then in all.
    Drops,
}

impl Column {
    /// In the order of the columns.
    pub const ALL: [Self; 5] = [Self::Slot, Self::Program, Self::Rx, Self::Tx, Self::Drops];

    /// Most traffic first, but names and numbers from the beginning.
    fn is_descending(self) -> bool {
        matches!(self, Self::Rx | Self::Tx | Self::Drops)
    }
}

/// Which row is looked at: it stays the same program when rows change places.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chosen {
    interface: String,
    slot: u16,
}

impl Chosen {
    fn of(row: &Row) -> Self {
        Self {
            interface: row.interface.clone(),
            slot: row.slot.slot,
        }
    }

    fn is(&self, row: &Row) -> bool {
        self.slot == row.slot.slot && self.interface == row.interface
    }
}

/// The state of the view.
#[derive(Debug)]
pub struct App {
    /// The last report, once there is one.
    pub status: Option<Status>,
    /// The programs, sorted.
    pub rows: Vec<Row>,
    /// What they are sorted by.
    pub column: Column,
    /// What the keys have set.
    pub keys: Keys,
    /// Why there is no report.
    pub trouble: Option<String>,
    chosen: Option<Chosen>,
}

impl Default for App {
    fn default() -> Self {
        Self {
            status: None,
            rows: Vec::new(),
            column: Column::Rx,
            keys: Keys::default(),
            trouble: None,
            chosen: None,
        }
    }
}

impl App {
    /// A new report has come.
    pub fn handle_status(&mut self, status: Status) {
        self.rows = rows(self.status.as_ref(), &status);
        self.status = Some(status);
        self.trouble = None;
        self.sort();
    }

    /// There is no report; what was known stays in sight.
    pub fn handle_trouble(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// A key was pressed.
    pub fn handle_key(&mut self, key: KeyEvent) -> Next {
        match self.keys.handle(key) {
            Press::Quit => return Next::Quit,
            Press::Column(step) => self.sort_by(further(&Column::ALL, self.column, step)),
            Press::Sort => self.sort(),
            Press::Choose(step) => self.choose(step),
            Press::Enter => self.keys.inside = !self.keys.inside && self.chosen_row().is_some(),
            Press::Nothing => {}
        }
        Next::Stay
    }

    /// The row that is looked at: the chosen one, as long as it is there, else the first.
    #[must_use]
    pub fn chosen_row(&self) -> Option<&Row> {
        self.chosen_at().and_then(|at| self.rows.get(at))
    }

    /// Its place.
    #[must_use]
    pub fn chosen_at(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref();
        let at = chosen.and_then(|chosen| self.rows.iter().position(|row| chosen.is(row)));
        at.or((!self.rows.is_empty()).then_some(0))
    }

    fn choose(&mut self, step: isize) {
        let Some(at) = self.chosen_at() else { return };
        let at = at.saturating_add_signed(step).min(self.rows.len() - 1);
        self.chosen = Some(Chosen::of(&self.rows[at]));
    }

    fn sort_by(&mut self, column: Column) {
        self.column = column;
        self.sort();
    }

    fn sort(&mut self) {
        // What is alike stays in the order of interfaces and slots.
        self.rows
            .sort_by(|a, b| (&a.interface, a.slot.slot).cmp(&(&b.interface, b.slot.slot)));
        let rate = |row: &Row, of: fn(&Rates) -> f64| row.rates.as_ref().map_or(-1.0, of);
        let descending = self.column.is_descending() != self.keys.reversed;
        let column = self.column;
        self.rows.sort_by(|a, b| {
            let order = match column {
                Column::Slot => (&a.interface, a.slot.slot).cmp(&(&b.interface, b.slot.slot)),
                Column::Program => a.slot.program.cmp(&b.slot.program),
                Column::Rx => rate(a, |r| r.rx_bits).total_cmp(&rate(b, |r| r.rx_bits)),
                Column::Tx => rate(a, |r| r.tx_bits).total_cmp(&rate(b, |r| r.tx_bits)),
                Column::Drops => {
                    let now = rate(a, |r| r.drops).total_cmp(&rate(b, |r| r.drops));
                    now.then(a.drops.cmp(&b.drops))
                }
            };
            if descending { order.reverse() } else { order }
        });
    }
}
