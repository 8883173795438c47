//! What sessions are resumed with: of one server, whose tickets of TLS 1.3 are used once each (RFC 8446 §C.4), the newest first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls_pki_types::ServerName;

use crate::limits::TICKETS_MAX;

/// Tickets that a server has given.
#[derive(Debug, Default)]
pub(super) struct Tickets(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    /// The group that the server wanted a key share of.
    group: Option<NamedGroup>,
    /// The newest session of TLS 1.2, which may be resumed many times.
    of_1_2: Option<Tls12ClientSessionValue>,
    /// Of TLS 1.3, the newest last.
    of_1_3: VecDeque<Tls13ClientSessionValue>,
}

impl Tickets {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tickets as sessions see them that are to be resumed, or that only leave some.
#[derive(Debug)]
pub(super) struct Store {
    tickets: Arc<Tickets>,
    gives: bool,
}

impl Store {
    pub(super) fn new(tickets: Arc<Tickets>, gives: bool) -> Self {
        Self { tickets, gives }
    }
}

impl ClientSessionStore for Store {
    fn set_kx_hint(&self, _server: ServerName<'static>, group: NamedGroup) {
        self.tickets.held().group = Some(group);
    }

    fn kx_hint(&self, _server: &ServerName<'_>) -> Option<NamedGroup> {
        self.tickets.held().group
    }

    fn set_tls12_session(&self, _server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.tickets.held().of_1_2 = Some(value);
    }

    fn tls12_session(&self, _server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let held = self.tickets.held();
        held.of_1_2.clone().filter(|_| self.gives)
    }

    fn remove_tls12_session(&self, _server: &ServerName<'static>) {
        if self.gives {
            self.tickets.held().of_1_2 = None;
        }
    }

    fn insert_tls13_ticket(&self, _server: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut held = self.tickets.held();
        if held.of_1_3.len() == TICKETS_MAX {
            held.of_1_3.pop_front();
        }
        held.of_1_3.push_back(value);
    }

    fn take_tls13_ticket(&self, _server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut held = self.tickets.held();
        self.gives.then(|| held.of_1_3.pop_back())?
    }
}
