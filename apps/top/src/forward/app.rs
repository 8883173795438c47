//! What the next status changes, and what servers are sorted by. No I/O.

use std::cmp::Ordering;

use super::rates::{Rates, Row, listeners, reasons, servers};
use super::status::Status;
use crate::list::{self, List, Listed};
use crate::reason::Reason;

/// What servers are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Protocol, address and port.
    Server,
    /// Flows that it has.
    Flows,
    /// Flows begun per second.
    Begun,
    /// Bits from clients per second.
    In,
    /// Bits to clients per second.
    Out,
}

impl list::Column<Row> for Column {
    const ALL: &'static [Self] = &[Self::Server, Self::Flows, Self::Begun, Self::In, Self::Out];

    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let rates = |of: fn(&Rates) -> f64| {
            let rate = |row: &Row| row.rates.as_ref().map_or(-1.0, of);
            rate(a).total_cmp(&rate(b))
        };
        match self {
            Self::Server => a.name.cmp(&b.name),
            Self::Flows => a.figures.flows.cmp(&b.figures.flows),
            Self::Begun => rates(|r| r.begun),
            Self::In => rates(|r| r.bits_in),
            Self::Out => rates(|r| r.bits_out),
        }
    }

    fn is_descending(self) -> bool {
        self != Self::Server
    }
}

impl Listed for Row {
    type Name = String;

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// The state of the view.
#[derive(Debug)]
pub struct App {
    /// The last status, once there is one.
    pub status: Option<Status>,
    /// The listeners.
    pub listeners: Vec<Row>,
    /// The servers.
    pub servers: List<Row, Column>,
    /// What was not sent on.
    pub reasons: Vec<Reason>,
    /// Why there is no status.
    pub trouble: Option<String>,
}

impl Default for App {
    fn default() -> Self {
        Self {
            status: None,
            listeners: Vec::new(),
            servers: List::sorted_by(Column::Server),
            reasons: Vec::new(),
            trouble: None,
        }
    }
}

impl App {
    /// A new status has come.
    pub fn handle_status(&mut self, status: Status) {
        let before = self.status.as_ref();
        self.listeners = listeners(before, &status);
        self.servers.set_rows(servers(before, &status));
        self.reasons = reasons(before, &status);
        self.status = Some(status);
        self.trouble = None;
    }

    /// There is no status; what was known stays in sight.
    pub fn handle_trouble(&mut self, why: String) {
        self.trouble = Some(why);
    }
}
