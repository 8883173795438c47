//! The TLS sessions of a core's connections.

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;
use exos_tls::client::Client;
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
    /// The engine knows that the server has ended its side.
    pub(super) is_end_told: bool,
}

impl Held {
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
            agreed: format!("{} {}", about.version_name(), about.suite_name()),
        })
    }
}

/// Sessions, by the slots of their connections.
pub struct Sessions {
    client: Client,
    /// The part of all handshakes that are to resume a session.
    resume_share: f64,
    random: Pcg64Mcg,
    /// The protocol that servers have to have agreed on.
    needed: Option<&'static [u8]>,
    held: Vec<Option<Box<Held>>>,
}

impl Sessions {
    /// None yet. This part of them is to resume earlier ones, as chance decides by a seed.
    pub fn new(client: &Client, resume_share: f64, seed: u64) -> Self {
        Self {
            client: client.with_own_tickets(),
            resume_share,
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

    /// Begins one; appends the client's hello.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        id: ConnectionId,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let unit: f64 = StandardUniform.sample(&mut self.random);
        let resumes = unit < self.resume_share;
        // What the engine waits for in one piece is a head: it ends a longer one, and nothing else stays.
        let session = self.client.begin(resumes)?;
        let mut session = session.with_unread_max(HEAD_LEN_MAX);
        session.receive(&[], out)?;
        let slot = id.slot() as usize;
        if self.held.len() <= slot {
            self.held.resize_with(slot + 1, || None);
        }
        self.held[slot] = Some(Box::new(Held {
            id,
            session,
            begun: Some(now),
            is_end_told: false,
        }));
        Ok(())
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
