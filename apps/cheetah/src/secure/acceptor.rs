//! What all cores share of TLS: certificates, policy and the keys of tickets. Another configuration may come at any time: new
//! sessions begin with it, others go on with theirs, and tickets stay good.

use std::sync::{Arc, PoisonError, RwLock};

use exos::{Error, clock};
use exos_tls::certificate::{UnixSecs, Validity};
use exos_tls::policy::provider;
use exos_tls::{files, self_signed};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::ProducesTickets;
use rustls::sign::CertifiedKey;

use super::names::Names;
use crate::config::{Config, TlsConfig};
use crate::site::hosts::HostName;

/// What accepts sessions. All loops have the same one.
#[derive(Debug)]
pub struct Acceptor {
    port: u16,
    tickets: Arc<dyn ProducesTickets>,
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// How long the first certificate that ends is valid.
    expires: Option<UnixSecs>,
}

impl Acceptor {
    /// Of a configuration, if that wants TLS. What an operator should know of its certificates is said on standard error.
    ///
    /// # Errors
    ///
    /// What is wrong with certificates and keys.
    pub fn of(config: &Config) -> Result<Option<Arc<Acceptor>>, Error> {
        let Some(tls) = &config.tls else {
            return Ok(None);
        };
        let tickets = rustls::crypto::ring::Ticketer::new();
        let tickets =
            tickets.map_err(|e| Error::new(format!("cannot make keys of tickets: {e}")))?;
        let current = Current::read(config, tls, &tickets)?;
        Ok(Some(Arc::new(Acceptor {
            port: tls.port,
            tickets,
            current: RwLock::new(current),
        })))
    }

    /// Sessions begin with this from now on.
    ///
    /// # Errors
    ///
    /// What is wrong with certificates and keys: sessions begin with what there was.
    pub fn reload(&self, config: &Config) -> Result<(), Error> {
        let Some(tls) = &config.tls else {
            return Ok(());
        };
        let current = Current::read(config, tls, &self.tickets)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        Ok(())
    }

    /// The port of TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What a session begins with now.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.current().config.clone()
    }

    /// When the first of the certificates is not valid any more.
    pub fn expires(&self) -> Option<UnixSecs> {
        self.current().expires
    }

    fn current(&self) -> std::sync::RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn read(
        config: &Config,
        tls: &TlsConfig,
        tickets: &Arc<dyn ProducesTickets>,
    ) -> Result<Current, Error> {
        let provider = provider(&tls.suites);
        let (names, expires) = names(config, tls, &provider)?;
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(tls.minimum.versions());
        let builder = builder.map_err(|e| {
            let what = format!("these suites are of no version that is spoken: {e}");
            Error::new(what).mend("name some of TLS 1.3 too (TLS_AES_128_GCM_SHA256)")
        })?;
        let mut server = builder
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(names));
        server.enable_secret_extraction = true; // Records are ours.
        server.ticketer = tickets.clone();
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Clients know best whether their processor has AES, unless somebody has said what to use.
        server.ignore_client_order = !tls.suites.is_empty();
        Ok(Current {
            config: Arc::new(server),
            expires,
        })
    }
}

/// Reads all certificates of a configuration; gives when the first of them ends, too.
fn names(
    config: &Config,
    tls: &TlsConfig,
    provider: &CryptoProvider,
) -> Result<(Names, Option<UnixSecs>), Error> {
    let mut names = Names::default();
    let mut ends = Vec::new();
    let mut load = |all: &[files::Files]| -> Result<Vec<Arc<CertifiedKey>>, Error> {
        let load = |one: &files::Files| {
            let loaded = files::load(one, provider, clock::unix_secs() as UnixSecs)?;
            for warning in &loaded.warnings {
                exos_program::warn!("exos serve: {warning}");
            }
            let Validity { until, .. } = loaded.validity;
            ends.push(until);
            Ok(loaded.key)
        };
        all.iter().map(load).collect()
    };
    let common = load(&tls.certificates)?;
    names.add_default(&common);
    for (number, site) in config.sites.iter().enumerate() {
        let own = load(&site.certificates)?;
        if own.is_empty() {
            continue;
        }
        for name in &site.names {
            names.add(&name.to_string(), &own);
        }
        if number == config.default_site && common.is_empty() {
            names.add_default(&own);
        }
    }
    if tls.self_signed {
        names.add_default(&[self_signed_key(config, provider)?]);
    }
    Ok((names, ends.into_iter().min()))
}

/// A certificate for trying, for all that the server may be called.
fn self_signed_key(config: &Config, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, Error> {
    let own = config.sites.iter().flat_map(|site| &site.names);
    let plain = |name: &HostName| name.to_string().replace(['[', ']'], "");
    let mut names: Vec<String> = own.map(plain).collect();
    names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    names.extend(config.link.address.iter().map(|it| it.ip.to_string()));
    let fail = |e: String| Error::new(format!("cannot make a certificate: {e}"));
    let (certificate, key) = self_signed::certificate(&names).map_err(fail)?;
    let made = CertifiedKey::from_der(vec![certificate], key, provider);
    Ok(Arc::new(made.map_err(|e| fail(e.to_string()))?))
}
