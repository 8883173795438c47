//! What the next report changes, and what programs are sorted by. No I/O.

use std::cmp::Ordering;

use exos_program::status::Status;

use super::rates::{Rates, Row, rows};
use crate::list::{self, List, Listed};

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

impl list::Column<Row> for Column {
    const ALL: &'static [Self] = &[Self::Slot, Self::Program, Self::Rx, Self::Tx, Self::Drops];

    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let rates = |of: fn(&Rates) -> f64| {
            let rate = |row: &Row| row.rates.as_ref().map_or(-1.0, of);
            rate(a).total_cmp(&rate(b))
        };
        match self {
            Self::Slot => a.name().cmp(&b.name()),
            Self::Program => a.slot.program.cmp(&b.slot.program),
            Self::Rx => rates(|r| r.rx_bits),
            Self::Tx => rates(|r| r.tx_bits),
            Self::Drops => rates(|r| r.drops).then(a.drops.cmp(&b.drops)),
        }
    }

    fn is_descending(self) -> bool {
        matches!(self, Self::Rx | Self::Tx | Self::Drops)
    }
}

impl Listed for Row {
    /// Interface and slot.
    type Name = (String, u16);

    fn name(&self) -> (String, u16) {
        (self.interface.clone(), self.slot.slot)
    }
}

/// The state of the view.
#[derive(Debug)]
pub struct App {
    /// The last report, once there is one.
    pub status: Option<Status>,
    /// The programs.
    pub programs: List<Row, Column>,
    /// Why there is no report.
    pub trouble: Option<String>,
}

impl Default for App {
    fn default() -> Self {
        Self {
            status: None,
            programs: List::sorted_by(Column::Rx),
            trouble: None,
        }
    }
}

impl App {
    /// A new report has come.
    pub fn handle_status(&mut self, status: Status) {
        self.programs.set_rows(rows(self.status.as_ref(), &status));
        self.status = Some(status);
        self.trouble = None;
    }

    /// There is no report; what was known stays in sight.
    pub fn handle_trouble(&mut self, why: String) {
        self.trouble = Some(why);
    }
}
