//! What all cores share of TLS: certificates, policy and the keys of tickets. Another configuration may come at any time: new
//! sessions begin with it, others go on with theirs, and tickets stay good.
//!
//! A thread looks whether the files have changed ([`Acceptor::follow`]), and takes them when they belong together: who
//! writes a certificate and its key writes one of them first.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use exos::{Error, clock};
use exos_host::affinity;
use exos_tls::certificate::{UnixSecs, Validity};
use exos_tls::policy::provider;
use exos_tls::{files, self_signed};
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ProducesTickets, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use super::names::Names;
use crate::config::{Clients, Config, TlsConfig};
use crate::limits::{CERTIFICATES_TELL_TIME, CERTIFICATES_TIME};
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
    /// When the first certificate ends.
    expires: Option<UnixSecs>,
    /// Of what it was made.
    source: Config,
    /// The files that it was read from, as they were.
    stamps: Vec<Stamp>,
}

/// A file as it was: when it was changed, which it is, how long it is.
type Stamp = (PathBuf, Option<(i64, i64, u64, u64)>);

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

    /// Has a thread on these cores look whether the files change, for as long as anybody has this.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub fn follow(self: &Arc<Self>, cores: &[usize]) -> Result<(), Error> {
        let acceptor = Arc::downgrade(self);
        let follow = move || {
            let mut told = Instant::now();
            loop {
                std::thread::sleep(CERTIFICATES_TIME);
                let Some(acceptor) = acceptor.upgrade() else {
                    return;
                };
                let is_due = told.elapsed() >= CERTIFICATES_TELL_TIME;
                if is_due {
                    told = Instant::now();
                }
                acceptor.look_again(is_due);
            }
        };
        let started = affinity::spawn("certificates", cores, follow);
        let what = "cannot start following certificates";
        started.map(drop).map_err(|e| Error::io(what, e))
    }

    /// Takes files that have changed, or looks at them in any case: so that it is told when one is about to end.
    fn look_again(&self, in_any_case: bool) {
        let (config, stamps) = {
            let current = self.current();
            (current.source.clone(), current.stamps.clone())
        };
        let has_changed = stamps
            .iter()
            .any(|(file, stamp)| stamp_of(file).1 != *stamp);
        if !has_changed && !in_any_case {
            return;
        }
        match self.reload(&config) {
            Ok(()) if has_changed => exos_program::info!("exos serve: certificates read again"),
            Ok(()) => {}
            Err(error) => {
                exos_program::warn!(
                    "exos serve: {error}; what was read before stays in use until that is mended"
                );
                // Told once, until they change again.
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                for (file, stamp) in &mut current.stamps {
                    *stamp = stamp_of(file).1;
                }
            }
        }
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

    fn current(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn read(
        config: &Config,
        tls: &TlsConfig,
        tickets: &Arc<dyn ProducesTickets>,
    ) -> Result<Current, Error> {
        let stamps = files(config, tls).map(|file| stamp_of(file)).collect();
        let provider = provider(&tls.suites);
        let (names, expires) = names(config, tls, &provider)?;
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_protocol_versions(tls.minimum.versions());
        let builder = builder.map_err(|e| {
            let what = format!("these suites are of no version that is spoken: {e}");
            Error::new(what).mend("name some of TLS 1.3 too (TLS_AES_128_GCM_SHA256)")
        })?;
        let builder = match &tls.clients {
            None => builder.with_no_client_auth(),
            Some(clients) => builder.with_client_cert_verifier(verifier(clients, provider)?),
        };
        let mut server = builder.with_cert_resolver(Arc::new(names));
        server.enable_secret_extraction = true; // Records are ours.
        server.ticketer = tickets.clone();
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Clients know best whether their processor has AES, unless somebody has said what to use.
        server.ignore_client_order = !tls.suites.is_empty();
        Ok(Current {
            config: Arc::new(server),
            expires,
            source: config.clone(),
            stamps,
        })
    }
}

/// All files that are read.
fn files<'a>(config: &'a Config, tls: &'a TlsConfig) -> impl Iterator<Item = &'a PathBuf> {
    let of_sites = config.sites.iter().flat_map(|site| &site.certificates);
    let all = tls.certificates.iter().chain(of_sites);
    let all = all.flat_map(|one| {
        let ocsp = one.ocsp.as_ref();
        [&one.certificate, &one.key].into_iter().chain(ocsp)
    });
    all.chain(tls.clients.as_ref().map(|clients| &clients.authorities))
}

fn stamp_of(file: &Path) -> Stamp {
    let about = file.metadata().ok();
    let stamp = about.map(|it| (it.mtime(), it.mtime_nsec(), it.ino(), it.len()));
    (file.to_path_buf(), stamp)
}

/// What says whether a client's certificate is good.
fn verifier(
    clients: &Clients,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let name = clients.authorities.display();
    let fail = |e: String| {
        let what = format!("cannot have clients verified by {name}: {e}");
        Error::new(what).mend("name the certificates of who signs theirs")
    };
    let mut roots = RootCertStore::empty();
    for certificate in files::certificates(&clients.authorities)? {
        roots.add(certificate).map_err(|e| fail(e.to_string()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match clients.are_required {
        true => builder,
        false => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|e| fail(e.to_string()))
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
