//! HTTPS: `[tls]` and `[[site.certificate]]`, and the options that say the same.

use std::ops::Range;
use std::path::{Path, PathBuf};

use exos::Error;
use exos_program::config::Source;
use exos_tls::files::Files;
use exos_tls::policy::{MinimumVersion, suite};
use rustls::SupportedCipherSuite;
use toml::Spanned;

use super::schema::{CertificateTable, File, OneOrMany, SiteTable, TlsTable};
use crate::limits::HSTS_DAYS_MAX;
use crate::site::rules::fields::FieldRule;
use crate::site::rules::pattern::Pattern;

/// The port of HTTPS (RFC 9110 §4.2.2).
pub(super) const DEFAULT_PORT: u16 = 443;

/// What names the file of a key log, by the convention of browsers and others.
const KEY_LOG_VARIABLE: &str = "SSLKEYLOGFILE";

/// How HTTPS is spoken.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The TCP port.
    pub port: u16,
    /// The lowest version.
    pub minimum: MinimumVersion,
    /// The suites, those that are preferred first; none for all that are sound, in the order of each client.
    pub suites: Vec<SupportedCipherSuite>,
    /// Certificates for all sites that have none of their own.
    pub certificates: Vec<Files>,
    /// A certificate for trying is made, too.
    pub self_signed: bool,
    /// HTTP/3 is spoken, too, at the same port of UDP.
    pub http3: bool,
    /// Requests are taken that clients send with their hello.
    pub early_data: bool,
    /// Whose certificates clients show, if they are to show any.
    pub clients: Option<Clients>,
    /// The keys of all sessions are written to this file.
    pub key_log: Option<PathBuf>,
}

impl Default for TlsConfig {
    /// At the usual port, without a certificate.
    fn default() -> TlsConfig {
        TlsConfig {
            port: DEFAULT_PORT,
            minimum: MinimumVersion::default(),
            suites: Vec::new(),
            certificates: Vec::new(),
            self_signed: false,
            http3: false,
            early_data: false,
            clients: None,
            key_log: None,
        }
    }
}

/// Clients that show certificates.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Who signs them.
    pub authorities: PathBuf,
    /// Those that show none are sent away.
    pub are_required: bool,
    /// Lists of certificates that their issuers have revoked; where there is none, none is.
    pub revoked: Vec<PathBuf>,
}

/// The options about HTTPS.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct TlsArgs {
    /// Serve HTTPS with the certificates in this PEM file, the server's own first, then those of its issuers; repeatable, such as
    /// for RSA beside ECDSA
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        conflicts_with = "config"
    )]
    pub tls_cert: Vec<PathBuf>,
    /// Private key of the certificate (PEM); with several certificates, in the order of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Vec<PathBuf>,
    /// Serve HTTPS with a self-signed certificate that is made at the start, to try it: browsers warn of it
    #[arg(long, conflicts_with = "config")]
    pub tls_self_signed: bool,
    /// Also serve HTTP/3, on the UDP port with the number of the HTTPS port
    #[arg(long, conflicts_with = "config")]
    pub http3: bool,
    /// Answer requests that are read from a file, such as GET, one round trip sooner: clients that were here before may send them with
    /// their first TLS message (early data, 0-RTT)
    #[arg(long, conflicts_with = "config")]
    pub tls_early_data: bool,
    /// For debugging: append the keys of all sessions to the file that the environment variable SSLKEYLOGFILE names;
    /// who has it can decrypt captures of these sessions (exos dump --keys, Wireshark)
    #[arg(long)]
    pub tls_log_keys: bool,
    /// TCP port of HTTPS [default: 443]
    #[arg(
        long,
        value_name = "PORT",
        value_parser = clap::value_parser!(u16).range(1..),
        conflicts_with = "config"
    )]
    pub tls_port: Option<u16>,
}

impl TlsArgs {
    /// HTTPS as the options have it, if they do; certificates may come by themselves.
    ///
    /// # Errors
    ///
    /// They do not go together.
    pub(crate) fn config(&self, has_acme: bool) -> Result<Option<TlsConfig>, Error> {
        let (certificates, keys) = (self.tls_cert.len(), self.tls_key.len());
        if certificates != keys {
            let what = format!("--tls-cert is given {certificates} times, --tls-key {keys} times");
            return Err(Error::new(what).mend("give each certificate its key, in the same order"));
        }
        if certificates == 0 && !self.tls_self_signed && !has_acme {
            let given = [
                (self.http3, "--http3"),
                (self.tls_early_data, "--tls-early-data"),
                (self.tls_port.is_some(), "--tls-port"),
            ];
            return match given.iter().find(|(is_given, _)| *is_given) {
                Some((_, name)) => Err(Error::new(format!("{name} is given, and no certificate"))
                    .mend("give --tls-cert and --tls-key, or --tls-self-signed, or --acme")),
                None => Ok(None),
            };
        }
        let files = self.tls_cert.iter().zip(&self.tls_key);
        Ok(Some(TlsConfig {
            port: self.tls_port.unwrap_or(DEFAULT_PORT),
            certificates: files
                .map(|(certificate, key)| of(certificate, key))
                .collect(),
            self_signed: self.tls_self_signed,
            http3: self.http3,
            early_data: self.tls_early_data,
            ..TlsConfig::default()
        }))
    }

    /// Has keys be logged, where that is asked for.
    ///
    /// # Errors
    ///
    /// No file is named, or there is no HTTPS.
    pub(crate) fn log_keys(&self, tls: Option<&mut TlsConfig>) -> Result<(), Error> {
        if !self.tls_log_keys {
            return Ok(());
        }
        let file = std::env::var_os(KEY_LOG_VARIABLE).filter(|file| !file.is_empty());
        match (tls, file) {
            (Some(tls), Some(file)) => tls.key_log = Some(file.into()),
            (None, _) => {
                return Err(Error::new("--tls-log-keys is given, and there is no HTTPS")
                    .mend("leave it out, or give a certificate"));
            }
            (_, None) => {
                let what = format!("--tls-log-keys is given, and {KEY_LOG_VARIABLE} names no file");
                return Err(Error::new(what).mend("name one that nobody else can read"));
            }
        }
        Ok(())
    }
}

fn of(certificate: &Path, key: &Path) -> Files {
    Files {
        certificate: certificate.into(),
        key: key.into(),
        ocsp: None,
    }
}

/// `[tls]`, or what it is by default where a site has a certificate.
pub(super) fn tls(source: &Source, folder: &Path, file: &File) -> Option<TlsConfig> {
    let has_certificate = |site: &Spanned<SiteTable>| !site.get_ref().certificate.is_empty();
    let is_certified = file.site.iter().any(has_certificate);
    let (span, default) = (file.tls.as_ref().map(Spanned::span), TlsTable::default());
    let table = match &file.tls {
        Some(table) => table.get_ref(),
        None if is_certified || file.acme.is_some() => &default,
        None => return None,
    };
    if !is_certified && !table.self_signed && file.acme.is_none() {
        let missing = "no site has a certificate; write [[site.certificate]] below one, with file and key, or self_signed = true here, or [acme]";
        if let Some(span) = span {
            source.note_missing(&span, missing);
        }
    }
    let port = table.port.as_ref();
    let port = port.and_then(|port| source.number(port, 1, i64::from(u16::MAX)));
    let minimum = table.minimum_version.as_ref();
    let minimum = minimum.and_then(|text| source.value(text, MinimumVersion::parse));
    let suites = table.suites.iter();
    Some(TlsConfig {
        port: port.map_or(DEFAULT_PORT, |port| port as u16),
        minimum: minimum.unwrap_or_default(),
        suites: suites
            .filter_map(|name| source.value(name, suite))
            .collect(),
        certificates: Vec::new(),
        self_signed: table.self_signed,
        http3: table.http3,
        early_data: early_data(source, table),
        clients: clients(source, folder, table),
        key_log: None,
    })
}

/// `early_data`. A session that goes on from an earlier one shows no certificate, and what comes with its hello may be sent by somebody else.
fn early_data(source: &Source, table: &TlsTable) -> bool {
    let Some(early_data) = &table.early_data else {
        return false;
    };
    if let (true, Some(_)) = (early_data.get_ref(), &table.client_ca) {
        let missing = "early data may be sent again by others, so it is not taken of clients that show certificates; leave early_data or client_ca out";
        source.note_missing(&early_data.span(), missing);
    }
    *early_data.get_ref()
}

/// `client_ca`, `client_certificate` and `client_crl`.
fn clients(source: &Source, folder: &Path, table: &TlsTable) -> Option<Clients> {
    let are_required = table.client_certificate.as_ref().and_then(|text| {
        let is_known = source.value(text, |text| match text {
            "required" => Ok(true),
            "optional" => Ok(false),
            _ => Err(format!(
                "{text:?} is not understood; write \"required\" or \"optional\""
            )),
        })?;
        if table.client_ca.is_none() {
            let missing =
                "nobody is named who signs certificates of clients; write client_ca = \"ca.pem\"";
            source.note_missing(&text.span(), missing);
        }
        Some(is_known)
    });
    if let (Some(crl), None) = (&table.client_crl, &table.client_ca) {
        let missing =
            "nobody is named who signs certificates of clients; write client_ca = \"ca.pem\"";
        source.note_missing(&crl.span(), missing);
    }
    if let Some(crl) = &table.client_crl
        && matches!(crl.get_ref(), OneOrMany::Many(files) if files.is_empty())
    {
        let missing = "no list is named; write client_crl = \"ca.crl\", or leave it out";
        source.note_missing(&crl.span(), missing);
    }
    let revoked = match table.client_crl.as_ref().map(Spanned::get_ref) {
        None => &[][..],
        Some(OneOrMany::One(file)) => std::slice::from_ref(file),
        Some(OneOrMany::Many(files)) => files,
    };
    let authorities = folder.join(table.client_ca.as_ref()?.get_ref());
    Some(Clients {
        authorities,
        are_required: are_required.unwrap_or(true),
        revoked: revoked.iter().map(|file| folder.join(file)).collect(),
    })
}

/// The rule that sets `Strict-Transport-Security` (RFC 6797), where a site wants that: plain requests get none, for they
/// are redirected.
pub(super) fn hsts(source: &Source, span: &Range<usize>, table: &SiteTable) -> Option<FieldRule> {
    let days = source.number(table.hsts_days.as_ref()?, 1, HSTS_DAYS_MAX)?;
    if !table.https_only {
        let missing = "hsts_days has browsers use HTTPS alone; write https_only = true beside it";
        source.note_missing(span, missing);
    }
    let value = format!("max-age={}", days * 24 * 3600);
    Some(FieldRule {
        pattern: Pattern::parse("/*").ok()?,
        fields: vec![("Strict-Transport-Security".to_owned(), vec![value])],
    })
}

/// Every `[[site.certificate]]`. `folder` is where relative paths begin.
pub(super) fn certificates(
    source: &Source,
    folder: &Path,
    tables: &[Spanned<CertificateTable>],
) -> Vec<Files> {
    let one = |table: &Spanned<CertificateTable>| {
        let (span, table) = (table.span(), table.get_ref());
        let (Some(file), Some(key)) = (&table.file, &table.key) else {
            let missing =
                "a certificate is two files; write file = \"cert.pem\" and key = \"key.pem\"";
            source.note_missing(&span, missing);
            return None;
        };
        Some(Files {
            certificate: folder.join(file.get_ref()),
            key: folder.join(key.get_ref()),
            ocsp: table.ocsp.as_ref().map(|ocsp| folder.join(ocsp.get_ref())),
        })
    };
    tables.iter().filter_map(one).collect()
}
