//! The client's side: whom it trusts, whose name it asks for, and with which tickets it resumes sessions.
//!
//! The keys of its sessions are written to the file that the environment variable `SSLKEYLOGFILE` names, where it does, for
//! programs that read captures.
//!
//! | file | what is in it |
//! |---|---|
//! | `trust` | which certificates are good |
//! | `offer` | which suite, and in which group keys are exchanged |
//! | `checks` | how many were looked at, and which was not good |
//! | `tickets` | what sessions are resumed with |
//! | `reason` | why a handshake failed, in a word and as a person is told |

mod checks;
mod offer;
mod reason;
mod tickets;
mod trust;

use std::fmt;
use std::sync::Arc;

use exos_host::Error;
use rustls::{AlertDescription, ClientConfig, KeyLogFile};
use rustls_pki_types::ServerName;

use crate::{Session, TlsError};
use checks::Checks;
use tickets::{Store, Tickets};

pub use offer::Offer;
pub use reason::{reason, told};
pub use trust::Trust;

/// How a session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a full handshake. It leaves tickets.
    Full,
    /// By a ticket of an earlier session, where there is one.
    Resumed,
    /// As one that is resumed, and what is sealed behind the hello leaves with that, as early data (RFC 8446 §4.2.10), where the server
    /// said with the ticket that it takes such.
    Early,
}

/// Makes sessions with one server.
#[derive(Clone)]
pub struct Client {
    /// What sessions begin with, by [`Way`].
    full: Arc<ClientConfig>,
    resuming: Arc<ClientConfig>,
    early: Arc<ClientConfig>,
    name: ServerName<'static>,
    checks: Arc<Checks>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut client = f.debug_struct("Client");
        client.field("name", &self.name).finish_non_exhaustive()
    }
}

impl Client {
    /// For a server of this name, or at this address, with which one of these protocols is spoken.
    ///
    /// # Errors
    ///
    /// The name is none, or certificates of those that are trusted cannot be read.
    pub fn new(trust: &Trust, name: &str, protocols: &[&str]) -> Result<Self, Error> {
        Self::offering(Offer::default(), trust, name, protocols)
    }

    /// One that offers this.
    ///
    /// # Errors
    ///
    /// As of [`new`](Self::new).
    pub fn offering(
        offer: Offer,
        trust: &Trust,
        name: &str,
        protocols: &[&str],
    ) -> Result<Self, Error> {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned()).map_err(|e| {
            Error::new(format!("no certificate can name {name:?}: {e}"))
                .mend("give a host name or an address")
        })?;
        let provider = Arc::new(offer.provider());
        let algorithms = provider.signature_verification_algorithms;
        let checks = Arc::new(Checks::new(trust.read(&provider)?, algorithms));
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::new(format!("TLS cannot be spoken: {e}")))?;
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(checks.clone())
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        config.key_log = Arc::new(KeyLogFile::new());
        config.enable_secret_extraction = true;
        Ok(Self::with(config, name, checks))
    }

    /// With tickets of its own; its configuration has these checks.
    fn with(config: ClientConfig, name: ServerName<'static>, checks: Arc<Checks>) -> Self {
        let tickets = Arc::new(Tickets::default());
        let with = |way| {
            let store = Store::new(tickets.clone(), way != Way::Full);
            let mut config = config.clone();
            config.resumption = rustls::client::Resumption::store(Arc::new(store));
            config.enable_early_data = way == Way::Early;
            Arc::new(config)
        };
        Self {
            full: with(Way::Full),
            resuming: with(Way::Resumed),
            early: with(Way::Early),
            name,
            checks,
        }
    }

    /// This client with tickets of its own, for another core.
    #[must_use]
    pub fn with_own_tickets(&self) -> Self {
        let mut config = ClientConfig::clone(&self.full);
        let checks = Arc::new(self.checks.restarted());
        config.dangerous().set_certificate_verifier(checks.clone());
        Self::with(config, self.name.clone(), checks)
    }

    /// Begins a session in this way.
    ///
    /// # Errors
    ///
    /// The configuration is none that works.
    pub fn begin(&self, way: Way) -> Result<Session, TlsError> {
        Session::client(self.config(way), self.name.clone())
    }

    // Where another protocol carries the handshake (RFC 9001).

    /// What sessions begin with in this way.
    pub fn config(&self, way: Way) -> Arc<ClientConfig> {
        match way {
            Way::Full => self.full.clone(),
            Way::Resumed => self.resuming.clone(),
            Way::Early => self.early.clone(),
        }
    }

    /// The server's name, or its address.
    pub fn name(&self) -> String {
        self.name.to_str().into_owned()
    }

    /// Suite and group where one of each is offered, so that each session has them: of QUIC, which tells neither.
    #[must_use]
    pub fn offered_alone(&self) -> Option<String> {
        offer::offered_alone(self.full.crypto_provider())
    }

    /// How many certificates of servers were looked at in handshakes of this client's: each full handshake has one, and those that
    /// resume a session have none.
    pub fn checks(&self) -> u64 {
        self.checks.count()
    }

    /// Why a server's certificate was not good, if one was not since the last call.
    pub fn take_refusal(&self) -> Option<TlsError> {
        self.checks.take_refusal().map(TlsError::Handshake)
    }
}

/// What a server has said by an alert of this number (RFC 8446 §6.2).
#[must_use]
pub fn alert(number: u8) -> TlsError {
    TlsError::Alert(AlertDescription::from(number))
}
