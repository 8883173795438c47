//! Files of certificates and keys, read and put together to what sessions begin with.

use std::sync::Arc;
use std::time::Instant;

use exos::{Error, clock};
use exos_tls::certificate::{UnixSecs, Validity};
use exos_tls::keylog::KeyLogWriter;
use exos_tls::limits::SELF_SIGNED_FOR;
use exos_tls::policy::server_provider;
use exos_tls::tickets::{TicketTable, accept_early_data};
use exos_tls::{files, self_signed};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ProducesTickets, VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use super::named;
use super::names::Names;
use super::signing;
use super::stamps::Stamps;
use crate::acme::Acme;
use crate::acme::challenges::PROTOCOL;
use crate::config::{Clients, Config, SiteConfig, TlsConfig};
use crate::site::hosts::HostName;

/// What sessions begin with.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) config: Arc<ServerConfig>,
    /// When the first certificate ends.
    pub(super) expires: Option<UnixSecs>,
}

/// Of what that was made.
#[derive(Debug)]
pub(super) struct Source {
    /// Sessions begin with this one, unless its files could not be read when it came.
    pub(super) config: Config,
    /// The files, as they were just before they were read.
    pub(super) stamps: Stamps,
    tickets: Tickets,
    /// By what clients that have these tickets were verified.
    verified_by: Option<VerifiedBy>,
    /// Where keys go: opened once, before privilege is given up.
    key_log: Option<Arc<KeyLogWriter>>,
    trial: Option<Trial>,
}

/// What clients resume sessions with.
#[derive(Clone, Debug)]
enum Tickets {
    /// Tickets that stand for themselves, encrypted.
    Encrypted(Arc<dyn ProducesTickets>),
    /// Tickets that are kept here, each of which is good once: with early data.
    Kept(Arc<TicketTable>),
}

/// By what certificates of clients are verified.
#[derive(Debug, Eq, PartialEq)]
struct VerifiedBy {
    authorities: Vec<CertificateDer<'static>>,
    /// Lists of what these have revoked.
    revoked: Vec<CertificateRevocationListDer<'static>>,
    /// Clients have to show one.
    are_required: bool,
}

/// A certificate that was made for trying.
#[derive(Clone, Debug)]
struct Trial {
    names: Vec<String>,
    made: Instant,
    key: Arc<CertifiedKey>,
}

/// Reads the files of a configuration; `before` is what was read last.
pub(super) fn read(
    config: &Config,
    tls: &TlsConfig,
    stamps: Stamps,
    before: Option<&Source>,
    acme: Option<&Arc<Acme>>,
) -> Result<(Source, Current), Error> {
    let provider = server_provider(&tls.suites);
    let trial = match tls.self_signed {
        true => Some(trial(config, &provider, before)?),
        false => None,
    };
    let (mut names, expires) = names(config, tls, trial.as_ref())?;
    names.answer(acme.cloned());
    let verified_by = tls.clients.as_ref().map(verified_by).transpose()?;
    let tickets = tickets(tls, before, verified_by.as_ref())?;
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_protocol_versions(tls.minimum.versions());
    let builder = builder.map_err(|e| {
        let what = format!("these suites are of no version that is spoken: {e}");
        Error::new(what).mend("name some of TLS 1.3 too (TLS_AES_128_GCM_SHA256)")
    })?;
    let builder = match (&tls.clients, &verified_by) {
        (Some(clients), Some(by)) => {
            builder.with_client_cert_verifier(verifier(clients, by, provider)?)
        }
        _ => builder.with_no_client_auth(),
    };
    let mut server = builder.with_cert_resolver(Arc::new(names));
    server.enable_secret_extraction = true; // Records are ours.
    match &tickets {
        Tickets::Encrypted(tickets) => {
            server.ticketer = tickets.clone();
            // A connection uses one, and leaves one.
            server.send_tls13_tickets = 1;
        }
        Tickets::Kept(table) => accept_early_data(&mut server, table.clone()),
    }
    let key_log = key_log(tls, before)?;
    if let Some(key_log) = &key_log {
        server.key_log = key_log.clone();
    }
    // The first that the client has, too (RFC 9113 §3.2). Of HTTP/1 a client may name the older version alone.
    let protocols: [&[u8]; 3] = [b"h2", b"http/1.1", b"http/1.0"];
    let spoken = protocols.iter().skip(usize::from(!config.http2));
    server.alpn_protocols = spoken.map(|name| name.to_vec()).collect();
    if acme.is_some() {
        server.alpn_protocols.push(PROTOCOL.to_vec());
    }
    // Clients know best whether their processor has AES, unless somebody has said what to use.
    server.ignore_client_order = !tls.suites.is_empty();
    let source = Source {
        config: config.clone(),
        stamps,
        tickets,
        verified_by,
        key_log,
        trial,
    };
    let config = Arc::new(server);
    Ok((source, Current { config, expires }))
}

/// What tickets are made with: that of before, unless clients are verified by others than then, for who resumes a session shows no
/// certificate, or early data is taken since or not any more.
fn tickets(
    tls: &TlsConfig,
    before: Option<&Source>,
    verified_by: Option<&VerifiedBy>,
) -> Result<Tickets, Error> {
    let before = before.filter(|it| it.verified_by.as_ref() == verified_by);
    match (tls.early_data, before.map(|it| &it.tickets)) {
        (false, Some(tickets @ Tickets::Encrypted(_)))
        | (true, Some(tickets @ Tickets::Kept(_))) => return Ok(tickets.clone()),
        (true, _) => return Ok(Tickets::Kept(Arc::default())),
        (false, _) => {}
    }
    let tickets = rustls::crypto::aws_lc_rs::Ticketer::new();
    let tickets = tickets.map_err(|e| Error::new(format!("cannot make keys of tickets: {e}")));
    tickets.map(Tickets::Encrypted)
}

/// The log of keys, where one is wanted: that of before.
fn key_log(tls: &TlsConfig, before: Option<&Source>) -> Result<Option<Arc<KeyLogWriter>>, Error> {
    let Some(file) = &tls.key_log else {
        return Ok(None);
    };
    if let Some(before) = before.and_then(|it| it.key_log.clone()) {
        return Ok(Some(before));
    }
    let writer = KeyLogWriter::append_to(file)?;
    exos_program::warn!(
        "exos serve: the keys of all sessions are written to {}: who can read it can read everything that goes by HTTPS; never leave that on",
        file.display()
    );
    Ok(Some(Arc::new(writer)))
}

/// Reads by what clients are verified.
fn verified_by(clients: &Clients) -> Result<VerifiedBy, Error> {
    let revoked = clients.revoked.iter();
    let revoked: Result<Vec<_>, _> = revoked.map(|file| files::revocation_lists(file)).collect();
    let revoked = files::newest_lists(revoked?.concat());
    // Clients are refused by an expired one; the server goes on for all others.
    let now = clock::unix_secs().cast_signed();
    if let Some(warning) = files::warning_of_lists(&revoked, now) {
        exos_program::warn!("exos serve: {warning}");
    }
    Ok(VerifiedBy {
        authorities: files::certificates(&clients.authorities)?,
        revoked,
        are_required: clients.are_required,
    })
}

/// What says whether a client's certificate is good.
fn verifier(
    clients: &Clients,
    by: &VerifiedBy,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let name = clients.authorities.display();
    let fail = |e: String| {
        let what = format!("cannot have clients verified by {name}: {e}");
        Error::new(what).mend("name the certificates of who signs theirs")
    };
    let mut roots = RootCertStore::empty();
    for certificate in &by.authorities {
        roots
            .add(certificate.clone())
            .map_err(|e| fail(e.to_string()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match by.are_required {
        true => builder,
        false => builder.allow_unauthenticated(),
    };
    let builder = match by.revoked.is_empty() {
        true => builder,
        // Where there are lists, one of each authority in a chain has to be there, and in date.
        false => builder
            .with_crls(by.revoked.iter().cloned())
            .enforce_revocation_expiration(),
    };
    builder.build().map_err(|e| match e {
        VerifierBuilderError::InvalidCrl(why) => Error::new(format!(
            "a revocation list for clients cannot be used: {why:?}"
        ))
        .mend("name lists as their authorities publish them"),
        e => fail(e.to_string()),
    })
}

/// Reads all certificates of a configuration; gives when the first of them ends, too.
fn names(
    config: &Config,
    tls: &TlsConfig,
    trial: Option<&Trial>,
) -> Result<(Names, Option<UnixSecs>), Error> {
    let mut names = Names::default();
    let mut ends = Vec::new();
    let mut load = |all: &[files::Files]| -> Result<Vec<Arc<CertifiedKey>>, Error> {
        let load = |one: &files::Files| {
            let loaded = files::load(one, clock::unix_secs() as UnixSecs)?;
            // What comes by itself is renewed by itself, and says so where it is not.
            let is_managed = config.managed().any(|it| it.file == one.certificate);
            for warning in loaded.warnings.iter().filter(|_| !is_managed) {
                exos_program::warn!("exos serve: {warning}");
            }
            let Validity { until, .. } = loaded.validity;
            ends.push(until);
            Ok(signing::weighed(&loaded.key))
        };
        all.iter().map(load).collect()
    };
    let common = load(&tls.certificates)?;
    names.add_default(&common);
    for (number, site) in config.sites.iter().enumerate() {
        let own = load(&site.certificates)?;
        // A site without one may be for HTTP alone.
        for warning in named::warnings(&site.certificates, &own, &given(site)) {
            exos_program::warn!("exos serve: {warning}");
        }
        // That for trying is for those that have no other, or none yet.
        let own = match trial {
            Some(trial) if own.is_empty() && common.is_empty() => vec![trial.key.clone()],
            _ => own,
        };
        for name in &site.names {
            names.add(&name.to_string(), &own);
        }
        let own = match site.managed.is_empty() {
            true => own,
            false => managed(site, &mut load, &mut names, own),
        };
        if number == config.default_site && common.is_empty() {
            names.add_default(&own);
        }
    }
    if let Some(trial) = trial.filter(|_| !names.has(None)) {
        names.add_default(std::slice::from_ref(&trial.key));
    }
    check_names(config, &names)?;
    Ok((names, ends.into_iter().min()))
}

/// The names of a site whose certificates are files that the configuration names.
fn given(site: &SiteConfig) -> Vec<String> {
    let names = site.names.iter().map(HostName::to_string);
    let comes = |name: &String| site.managed.iter().any(|it| it.name == *name);
    names.filter(|name| !comes(name)).collect()
}

/// Reads those certificates of a site that come by themselves and have come; gives them, or else what stands for them.
fn managed(
    site: &SiteConfig,
    load: &mut impl FnMut(&[files::Files]) -> Result<Vec<Arc<CertifiedKey>>, Error>,
    names: &mut Names,
    others: Vec<Arc<CertifiedKey>>,
) -> Vec<Arc<CertifiedKey>> {
    let mut all = Vec::new();
    for managed in &site.managed {
        if !managed.file.exists() {
            continue;
        }
        match load(&[managed.files()]) {
            Ok(own) => {
                names.set(&managed.name, &own);
                all.extend(own);
            }
            // It is ordered again.
            Err(error) => exos_program::warn!("exos serve: {error}"),
        }
    }
    match all.is_empty() {
        true => others,
        false => all,
    }
}

/// That there is a certificate where clients are sent to, or that one comes.
fn check_names(config: &Config, names: &Names) -> Result<(), Error> {
    let only = config.sites.iter();
    let only = only.filter(|site| site.settings.https_only.is_some());
    for name in only.flat_map(|site| &site.names).map(HostName::to_string) {
        let comes = config.managed().any(|it| it.name == name);
        if !comes && !names.has(Some(&name)) {
            let what = format!("{name} is https_only, and there is no certificate for it");
            return Err(Error::new(what).mend("write [[site.certificate]] below its site"));
        }
    }
    let comes = !config.sites[config.default_site].managed.is_empty();
    if !comes && !names.has(None) {
        exos_program::warn!(
            "exos serve: the default site has no certificate: by HTTPS, clients that ask for no site's name are refused; write [[site.certificate]] below it"
        );
    }
    Ok(())
}

/// A certificate for trying, for all that the server may be called: the one that there is, unless it is old or for other
/// names, for who tries it has accepted that one.
fn trial(
    config: &Config,
    provider: &CryptoProvider,
    before: Option<&Source>,
) -> Result<Trial, Error> {
    let own = config.sites.iter().flat_map(|site| &site.names);
    let plain = |name: &HostName| name.to_string().replace(['[', ']'], "");
    let mut names: Vec<String> = own.map(plain).collect();
    names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    names.extend(config.link.address.iter().map(|it| it.ip.to_string()));
    let is_good = |it: &&Trial| it.names == names && it.made.elapsed() < SELF_SIGNED_FOR / 2;
    if let Some(trial) = before.and_then(|it| it.trial.as_ref()).filter(is_good) {
        return Ok(trial.clone());
    }
    let fail = |e: String| Error::new(format!("cannot make a certificate: {e}"));
    let (certificate, key) = self_signed::certificate(&names).map_err(fail)?;
    let made = CertifiedKey::from_der(vec![certificate], key, provider);
    Ok(Trial {
        names,
        made: Instant::now(),
        key: Arc::new(made.map_err(|e| fail(e.to_string()))?),
    })
}
