//! What keys do, and what the next status changes. No I/O.

use ratatui::crossterm::event::KeyEvent;

use super::rates::{Rates, Reason, Row, listeners, reasons, servers};
use super::status::Status;
use crate::keys::{Keys, Next, Press, further};

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

impl Column {
    /// In the order of the columns.
    pub const ALL: [Self; 5] = [Self::Server, Self::Flows, Self::Begun, Self::In, Self::Out];
}

/// The state of the view.
#[derive(Debug)]
pub struct App {
    /// The last status, once there is one.
    pub status: Option<Status>,
    /// The listeners.
    pub listeners: Vec<Row>,
    /// The servers, sorted.
    pub servers: Vec<Row>,
    /// What was not sent on.
    pub reasons: Vec<Reason>,
    /// What servers are sorted by.
    pub column: Column,
    /// What the keys have set.
    pub keys: Keys,
    /// Why there is no status.
    pub trouble: Option<String>,
    /// The name of the server that is looked at.
    chosen: Option<String>,
}

impl Default for App {
    fn default() -> Self {
        Self {
            status: None,
            listeners: Vec::new(),
            servers: Vec::new(),
            reasons: Vec::new(),
            column: Column::Server,
            keys: Keys::default(),
            trouble: None,
            chosen: None,
        }
    }
}

impl App {
    /// A new status has come.
    pub fn handle_status(&mut self, status: Status) {
        let before = self.status.as_ref();
        self.listeners = listeners(before, &status);
        self.servers = servers(before, &status);
        self.reasons = reasons(before, &status);
        self.status = Some(status);
        self.trouble = None;
        self.sort();
    }

    /// There is no status; what was known stays in sight.
    pub fn handle_trouble(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// A key was pressed.
    pub fn handle_key(&mut self, key: KeyEvent) -> Next {
        match self.keys.handle(key) {
            Press::Quit => return Next::Quit,
            Press::Column(step) => {
                self.column = further(&Column::ALL, self.column, step);
                self.sort();
            }
            Press::Sort => self.sort(),
            Press::Choose(step) => self.choose(step),
            Press::Enter => self.keys.inside = !self.keys.inside && self.chosen_row().is_some(),
            Press::Nothing => {}
        }
        Next::Stay
    }

    /// The server that is looked at: the chosen one, as long as it is there, else the first.
    #[must_use]
    pub fn chosen_row(&self) -> Option<&Row> {
        self.chosen_at().and_then(|at| self.servers.get(at))
    }

    /// Its place.
    #[must_use]
    pub fn chosen_at(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref();
        let at = chosen.and_then(|name| self.servers.iter().position(|row| row.name == *name));
        at.or((!self.servers.is_empty()).then_some(0))
    }

    fn choose(&mut self, step: isize) {
        let Some(at) = self.chosen_at() else { return };
        let at = at.saturating_add_signed(step).min(self.servers.len() - 1);
        self.chosen = Some(self.servers[at].name.clone());
    }

    /// What is alike stays in the order of names; most traffic comes first, but names from the beginning.
    fn sort(&mut self) {
        let rate = |row: &Row, of: fn(&Rates) -> f64| row.rates.as_ref().map_or(-1.0, of);
        let column = self.column;
        let descending = (column != Column::Server) != self.keys.reversed;
        self.servers.sort_by(|a, b| a.name.cmp(&b.name));
        self.servers.sort_by(|a, b| {
            let order = match column {
                Column::Server => a.name.cmp(&b.name),
                Column::Flows => a.figures.flows.cmp(&b.figures.flows),
                Column::Begun => rate(a, |r| r.begun).total_cmp(&rate(b, |r| r.begun)),
                Column::In => rate(a, |r| r.bits_in).total_cmp(&rate(b, |r| r.bits_in)),
                Column::Out => rate(a, |r| r.bits_out).total_cmp(&rate(b, |r| r.bits_out)),
            };
            if descending { order.reverse() } else { order }
        });
    }
}
