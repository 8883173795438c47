//! How an upstream is asked by HTTPS: whom it has to be, and what makes sessions of TLS with it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use exos_tls::client::{Client, Trust, Way};
use exos_tls::{Session, TlsError};

/// What is spoken with upstreams.
const PROTOCOLS: [&str; 1] = ["http/1.1"];

/// Whom an upstream has to be: what its certificate has to name, and who has to have signed it. Cloning it counts a reference; the clones have
/// their sessions' tickets together, and are equal. Another one that says as much is not: it may have read other authorities from the same
/// file, and connections that those have let in are not for it.
#[derive(Clone)]
pub struct Encryption(Arc<Inner>);

struct Inner {
    name: String,
    client: Client,
}

impl Encryption {
    /// With a server of this name or address, whose certificate an authority of this file has signed, or one of the system's.
    ///
    /// # Errors
    ///
    /// The name is none, or the certificates of authorities cannot be read.
    pub fn with(name: &str, authorities: Option<&Path>) -> Result<Encryption, String> {
        let trust = authorities.map_or(Trust::System, |file| Trust::File(file.into()));
        let client = Client::new(&trust, name, &PROTOCOLS).map_err(|error| error.to_string())?;
        Ok(Encryption(Arc::new(Inner {
            name: name.to_owned(),
            client,
        })))
    }

    /// What its certificate has to name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Begins a session, resuming an earlier one where there is one.
    ///
    /// # Errors
    ///
    /// TLS cannot be spoken.
    pub fn begin(&self) -> Result<Session, TlsError> {
        self.0.client.begin(Way::Resumed)
    }
}

impl PartialEq for Encryption {
    fn eq(&self, other: &Encryption) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Encryption {}

impl Hash for Encryption {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.name.fmt(f)
    }
}

/// What the operator reads where there is no session with an upstream.
pub fn failure(error: &TlsError) -> String {
    let mend = match exos_tls::client::reason(error) {
        "certificate_not_trusted" => {
            "; no authority that is trusted here has signed its certificate: name the authority's certificate, or this one, as `ca`"
        }
        "certificate_invalid" => "; if it is yours, name it as `ca`",
        "certificate_of_another_name" => "; name what its certificate names as `tls_name`",
        "not_tls" => "; write http:// if it speaks no TLS there",
        _ => "",
    };
    format!("no TLS with it: {error}{mend}")
}
