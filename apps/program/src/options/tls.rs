//! How a client speaks TLS: whose certificates it trusts, and which name it asks for.

use std::path::PathBuf;

use exos::Error;
use exos_tls::client::{Client, Offer, Trust};
use exos_tls::policy::{Group, Suite, group, suite};

/// A client's TLS.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct TlsArgs {
    /// Accept any server certificate, without checking who it was issued by and for
    #[arg(long, conflicts_with = "cacert")]
    pub insecure: bool,
    /// Trust the certificates in this PEM file instead of the system's certificate authorities
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Server name to ask for and to check the certificate against [default: the host]
    #[arg(long, value_name = "NAME")]
    pub tls_name: Option<String>,
    /// Offer this cipher suite alone, as TLS_AES_128_GCM_SHA256 [default: all, AES-128-GCM first]
    #[arg(long, value_name = "SUITE", value_parser = suite)]
    pub tls_suite: Option<Suite>,
    /// Offer this group of the key exchange alone [default: X25519, secp256r1, secp384r1]
    #[arg(long, value_name = "GROUP", value_parser = group)]
    pub tls_group: Option<Group>,
}

impl TlsArgs {
    /// Whether any of it was said.
    #[must_use]
    pub fn is_given(&self) -> bool {
        let of_server = self.insecure || self.cacert.is_some() || self.tls_name.is_some();
        of_server || self.tls_suite.is_some() || self.tls_group.is_some()
    }

    /// A client of this host, with which one of these protocols is spoken.
    ///
    /// # Errors
    ///
    /// Certificates cannot be read, or the host's name is none.
    pub fn client(&self, host: &str, protocols: &[&str]) -> Result<Client, Error> {
        let trust = match &self.cacert {
            _ if self.insecure => Trust::Anybody,
            Some(file) => Trust::File(file.clone()),
            None => Trust::System,
        };
        let name = self.tls_name.as_deref().unwrap_or(host);
        let offer = Offer {
            suite: self.tls_suite,
            group: self.tls_group,
        };
        Client::offering(offer, &trust, name, protocols)
    }
}
