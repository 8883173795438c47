//! The TLS sessions of a core's connections.

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;
use exos_tls::client::{Client, Way};
use exos_tls::{Session, TlsError};
use rand_distr::Distribution as _;
use rand_distr::StandardUniform;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng as _;

use crate::limits::HEAD_LEN_MAX;
use crate::statistics::Handshake;

/// A connection's session.
pub(super) struct Held {
    id: ConnectionId,
    pub(super) session: Session,
    /// When the connection stood, until the handshake is over.
    begun: Option<Instant>,
    /// The hello, until something leaves with it that is asked already.
    pub(super) hello: Vec<u8>,
    /// Our side ends when the handshake is over.
    pub(super) owes_end: bool,
    /// The engine knows that the server has ended its side.
    pub(super) is_end_told: bool,
}

impl Held {
    /// The handshake is not over.
    pub(super) fn is_beginning(&self) -> bool {
        self.begun.is_some()
    }

    /// The handshake, when it is over: once.
    pub(super) fn take_handshake(&mut self, now: Instant) -> Option<Handshake> {
        if !self.session.is_established() {
            return None;
        }
        let took = now - self.begun.take()?;
        let about = self.session.about();
        Some(Handshake {
            took,
            is_resumed: about.is_resumed,
            early: about.early,
            agreed: about.agreed(),
        })
    }
}

/// The parts of all handshakes that are not to be full ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shares {
    /// Of those that resume a session.
    pub resumed: f64,
    /// Of those that do so with early data.
    pub early: f64,
}

impl Shares {
    /// The way of a handshake, by a number from 0 to 1.
    pub(crate) fn way(self, unit: f64) -> Way {
        match unit {
            _ if unit < self.early => Way::Early,
            _ if unit < self.early + self.resumed => Way::Resumed,
            _ => Way::Full,
        }
    }
}

/// Sessions, by the slots of their connections.
pub struct Sessions {
    client: Client,
    shares: Shares,
    random: Pcg64Mcg,
    /// The protocol that servers have to have agreed on.
    needed: Option<&'static [u8]>,
    held: Vec<Option<Box<Held>>>,
}

impl Sessions {
    /// None yet. These parts of them are to resume earlier ones, as chance decides by a seed.
    pub fn new(client: &Client, shares: Shares, seed: u64) -> Self {
        Self {
            client: client.with_own_tickets(),
            shares,
            random: Pcg64Mcg::seed_from_u64(seed),
            needed: None,
            held: Vec::new(),
        }
    }

    /// Servers have to agree on this protocol above TLS.
    #[must_use]
    pub fn needing(self, needed: Option<&'static [u8]>) -> Self {
        Self { needed, ..self }
    }

    /// A handshake has come to what is needed.
    pub(super) fn is_enough(&self, id: ConnectionId) -> bool {
        let about = self.get(id).map(|held| held.session.about());
        let agreed = about.and_then(|about| about.protocol.as_deref());
        self.needed.is_none_or(|needed| agreed == Some(needed))
    }

    /// Begins one, whose hello is to leave. True where something may leave with it.
    pub(super) fn begin(&mut self, now: Instant, id: ConnectionId) -> Result<bool, TlsError> {
        let unit: f64 = StandardUniform.sample(&mut self.random);
        // What the engine waits for in one piece is a head: it ends a longer one, and nothing else stays.
        let session = self.client.begin(self.shares.way(unit))?;
        let mut session = session.with_unread_max(HEAD_LEN_MAX);
        let mut hello = Vec::new();
        session.receive(&[], &mut hello)?;
        let is_early = session.is_early();
        let slot = id.slot() as usize;
        if self.held.len() <= slot {
            self.held.resize_with(slot + 1, || None);
        }
        self.held[slot] = Some(Box::new(Held {
            id,
            session,
            begun: Some(now),
            hello,
            owes_end: false,
            is_end_told: false,
        }));
        Ok(is_early)
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Held> {
        let held = self.held.get(id.slot() as usize)?.as_deref();
        held.filter(|held| held.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Held> {
        let held = self.held.get_mut(id.slot() as usize)?.as_deref_mut();
        held.filter(|held| held.id == id)
    }

    /// Forgets a connection's session. False when there is none.
    pub(super) fn remove(&mut self, id: ConnectionId) -> bool {
        let has = self.get(id).is_some();
        if has {
            self.held[id.slot() as usize] = None;
        }
        has
    }
}
