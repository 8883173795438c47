//! TLS between the engine and what carries its connections.
//!
//! [`Secured`] is a transport over another one for the time of a turn. Events of connections come here first: with TLS, a
//! connection that stands begins a handshake, what comes is decrypted, and the engine hears of plaintext. Without, all goes
//! through.
//!
//! | file | what is in it |
//! |---|---|
//! | `sessions` | the sessions of a core's connections |
//! | `knock` | a handshake by which nothing is asked |

mod knock;
mod sessions;

use exos_buf::{Buffer, Slice};
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event, EventSet, OpenError, Reason};
use exos_tls::TlsError;
use exos_tls::client::reason;

use crate::engine::Engine;
use crate::transport::{NOBODY, Transport};

pub use knock::Knock;
use sessions::Held;
pub use sessions::{Sessions, Shares};

/// Why a handshake failed of a server that does not agree on what is to be spoken.
const UNAGREED: &str = "no_application_protocol";

/// Another transport, with TLS on it where there are sessions.
pub struct Secured<'a, T> {
    transport: &'a mut T,
    sessions: Option<&'a mut Sessions>,
}

impl<'a, T: Transport> Secured<'a, T> {
    /// For a turn, or a part of one.
    pub fn new(transport: &'a mut T, sessions: Option<&'a mut Sessions>) -> Self {
        Self {
            transport,
            sessions,
        }
    }

    /// What carries it.
    pub fn transport(&mut self) -> &mut T {
        self.transport
    }

    /// News of a connection.
    pub fn handle_event(&mut self, engine: &mut Engine, now: Instant, event: &Event) {
        let (id, token, set) = (event.connection, event.token, event.set);
        if self.sessions.is_none() || token == NOBODY {
            return engine.handle_event(now, token, set, event.reason, self);
        }
        if set.contains(EventSet::CONNECTED) {
            engine.handle_event(now, token, EventSet::CONNECTED, event.reason, self);
            self.begin(engine, now, token, id);
        }
        if set.contains(EventSet::READABLE) {
            self.receive(engine, now, token, id);
        }
        if set.contains(EventSet::FINISHED) {
            self.finished(engine, now, token, id);
        }
        if set.contains(EventSet::CLOSED) {
            self.forget(id);
            engine.handle_event(now, token, EventSet::CLOSED, event.reason, self);
        }
    }

    /// A connection stands: the client's hello leaves, and what may be asked with it.
    fn begin(&mut self, engine: &mut Engine, now: Instant, token: u64, id: ConnectionId) {
        let Some(sessions) = self.sessions.as_deref_mut() else {
            return;
        };
        if !engine.awaits_handshake(token) {
            return;
        }
        match sessions.begin(now, id) {
            Ok(true) => engine.handle_early(now, token, self),
            Ok(false) => {}
            Err(error) => {
                return engine.handle_handshake(now, token, Err(reason(&error)), self);
            }
        }
        let held = self
            .sessions
            .as_deref_mut()
            .and_then(|sessions| sessions.get_mut(id));
        if let Some(held) = held {
            let hello = std::mem::take(&mut held.hello);
            self.send_records(id, hello);
        }
    }

    /// Bytes came: takes them in, and has the engine take in what they say.
    fn receive(&mut self, engine: &mut Engine, now: Instant, token: u64, id: ConnectionId) {
        loop {
            let Some(sessions) = self.sessions.as_deref_mut() else {
                return;
            };
            let Some(held) = sessions.get_mut(id) else {
                return;
            };
            let mut out = Vec::new();
            let bytes = self.transport.readable(id);
            let taken = held.session.receive(bytes, &mut out);
            let handshake = held.take_handshake(now);
            self.send_records(id, out);
            let taken = match taken {
                Ok(taken) => taken,
                Err(error) => return self.failed(engine, now, token, id, &error),
            };
            self.transport.consume(id, taken);
            if let Some(handshake) = handshake {
                self.end_if_owed(id);
                let sessions = self.sessions.as_deref();
                if sessions.is_some_and(|sessions| !sessions.is_enough(id)) {
                    return engine.handle_handshake(now, token, Err(UNAGREED), self);
                }
                engine.handle_handshake(now, token, Ok(&handshake), self);
            }
            self.tell(engine, now, token, id);
            if taken == 0 || self.transport.readable(id).is_empty() {
                return;
            }
        }
    }

    /// Has the engine hear of plaintext, and of its end.
    fn tell(&mut self, engine: &mut Engine, now: Instant, token: u64, id: ConnectionId) {
        let sessions = self.sessions.as_deref_mut();
        let Some(held) = sessions.and_then(|sessions| sessions.get_mut(id)) else {
            return;
        };
        let mut set = EventSet::NONE;
        if !held.session.readable().is_empty() {
            set = set.with(EventSet::READABLE);
        }
        if held.session.is_peer_closed() && !held.is_end_told {
            held.is_end_told = true;
            set = set.with(EventSet::FINISHED);
        }
        if !set.is_empty() {
            engine.handle_event(now, token, set, Reason::Done, self);
        }
    }

    /// The server sends nothing more. Where its session has not ended before, anybody may have cut it off (RFC 8446 §6.1): no
    /// response ends with that.
    fn finished(&mut self, engine: &mut Engine, now: Instant, token: u64, id: ConnectionId) {
        let sessions = self.sessions.as_deref_mut();
        let Some(held) = sessions.and_then(|sessions| sessions.get_mut(id)) else {
            return;
        };
        if held.session.is_peer_closed() {
            return;
        }
        engine.handle_event(now, token, EventSet::CLOSED, Reason::Done, self);
        if self.forget(id) {
            self.transport.leave(id);
        }
    }

    /// TLS has come to a bad end; the alert has left.
    fn failed(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        token: u64,
        id: ConnectionId,
        error: &TlsError,
    ) {
        let sessions = self.sessions.as_deref();
        let held = sessions.and_then(|sessions| sessions.get(id));
        if held.is_some_and(Held::is_beginning) {
            engine.handle_handshake(now, token, Err(reason(error)), self);
        } else {
            engine.handle_event(now, token, EventSet::CLOSED, Reason::Reset, self);
        }
        if self.forget(id) {
            self.transport.abort(id);
        }
    }

    fn send_records(&mut self, id: ConnectionId, records: Vec<u8>) {
        if !records.is_empty() {
            self.transport.send(id, &Buffer::from(records).whole());
        }
    }

    /// Ends our side, where that was to be done before the handshake was over.
    fn end_if_owed(&mut self, id: ConnectionId) {
        let sessions = self.sessions.as_deref_mut();
        let held = sessions.and_then(|sessions| sessions.get_mut(id));
        if held.is_some_and(|held| std::mem::take(&mut held.owes_end)) {
            self.close(id);
            self.transport.finish(id);
        }
    }

    /// Ends our side of a session, if there is one.
    fn close(&mut self, id: ConnectionId) {
        let sessions = self.sessions.as_deref_mut();
        if let Some(held) = sessions.and_then(|sessions| sessions.get_mut(id)) {
            let mut out = Vec::new();
            held.session.close(&mut out);
            self.send_records(id, out);
        }
    }

    /// A connection's session is over. False when there was none any more.
    fn forget(&mut self, id: ConnectionId) -> bool {
        let sessions = self.sessions.as_deref_mut();
        sessions.is_some_and(|sessions| sessions.remove(id))
    }
}

impl<T: Transport> Transport for Secured<'_, T> {
    fn open(&mut self, token: u64) -> Result<ConnectionId, OpenError> {
        self.transport.open(token)
    }

    fn send(&mut self, id: ConnectionId, bytes: &Slice) {
        let Some(sessions) = self.sessions.as_deref_mut() else {
            return self.transport.send(id, bytes);
        };
        let Some(held) = sessions.get_mut(id) else {
            return;
        };
        let mut out = std::mem::take(&mut held.hello);
        // Of one that is over the next event says so.
        let _ = held.session.seal(&[bytes.as_bytes()], &mut out);
        self.send_records(id, out);
    }

    fn readable(&self, id: ConnectionId) -> &[u8] {
        match &self.sessions {
            None => self.transport.readable(id),
            Some(sessions) => sessions.get(id).map_or(&[], |held| held.session.readable()),
        }
    }

    fn consume(&mut self, id: ConnectionId, count: usize) {
        match self.sessions.as_deref_mut() {
            None => self.transport.consume(id, count),
            Some(sessions) => {
                if let Some(held) = sessions.get_mut(id) {
                    held.session.consume(count);
                }
            }
        }
    }

    fn is_secured(&self) -> bool {
        self.sessions.is_some()
    }

    fn skip(&mut self, id: ConnectionId, count: u32) -> u32 {
        match self.sessions {
            None => self.transport.skip(id, count),
            Some(_) => 0,
        }
    }

    fn skipping(&self, id: ConnectionId) -> Option<u32> {
        match self.sessions {
            None => self.transport.skipping(id),
            Some(_) => None,
        }
    }

    fn acknowledge(&mut self, id: ConnectionId) {
        self.transport.acknowledge(id);
    }

    fn finish(&mut self, id: ConnectionId) {
        let sessions = self.sessions.as_deref_mut();
        let held = sessions.and_then(|sessions| sessions.get_mut(id));
        if let Some(held) = held.filter(|held| held.is_beginning()) {
            held.owes_end = true;
            return;
        }
        self.close(id);
        self.transport.finish(id);
    }

    fn leave(&mut self, id: ConnectionId) {
        self.close(id);
        self.forget(id);
        self.transport.leave(id);
    }

    fn abort(&mut self, id: ConnectionId) {
        self.forget(id);
        self.transport.abort(id);
    }
}
