//! Certificates that come by themselves: `[acme]`, and the options that say the same.

use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use exos::Error;
use exos_program::UserArgs;
use exos_program::config::Source;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use toml::Spanned;

use super::Config;
use super::schema::{AcmeTable, File, SiteTable};
use super::site::{Managed, SiteConfig};
use super::tls::TlsConfig;
use crate::acme::challenges::Kind;
use crate::acme::store::Store;
use crate::site::hosts::HostName;

/// Let's Encrypt, and what it has for tests.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// Where accounts and certificates are kept.
const STATE: &str = "/var/lib/exos/acme";

/// The ports at which authorities ask (RFC 8555 §8.3, RFC 8737 §3).
const HTTP_PORT: u16 = 80;
const TLS_PORT: u16 = 443;

/// How certificates come by themselves.
#[derive(Clone, Debug)]
pub struct AcmeConfig {
    /// Whom the authority may write to: addresses of mail.
    pub contact: Vec<String>,
    /// The URL of the authority's directory (RFC 8555 §7.1.1).
    pub directory: String,
    /// Who signs the authority's own certificate; the system's authorities when left out.
    pub authorities: Option<PathBuf>,
    /// Where accounts and certificates are kept.
    pub state: PathBuf,
    /// How the authority asks, where that is said.
    pub challenge: Option<Kind>,
    /// How it asks first where it is not, by the ports.
    pub first: Kind,
    /// The program that answers in DNS, for dns-01.
    pub dns_hook: Option<PathBuf>,
}

/// The options about certificates that come by themselves.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct AcmeArgs {
    /// Serve HTTPS with certificates that are obtained and renewed automatically, one for each --acme-name. The certificate
    /// authority may write to this mail address; giving it agrees to the authority's terms of service
    #[arg(
        long,
        value_name = "EMAIL",
        value_parser = mail_of,
        requires = "acme_name",
        conflicts_with_all = ["config", "tls_cert"]
    )]
    pub acme: Option<String>,
    /// Host name of the site to obtain a certificate for (repeatable)
    #[arg(long, value_name = "HOST", value_parser = name_of, requires = "acme")]
    pub acme_name: Vec<String>,
    /// URL of the certificate authority's ACME directory [default: that of Let's Encrypt]
    #[arg(long, value_name = "URL", value_parser = directory_of, requires = "acme")]
    pub acme_directory: Option<String>,
    /// Use the staging environment of Let's Encrypt, to try it without rate limits; browsers do not trust its certificates
    #[arg(long, requires = "acme", conflicts_with = "acme_directory")]
    pub acme_staging: bool,
    /// PEM file with the certificate that signs the authority's own server certificate, if this system does not trust that
    #[arg(long, value_name = "FILE", requires = "acme")]
    pub acme_ca: Option<PathBuf>,
    /// Directory for the account and the certificates [default: /var/lib/exos/acme]
    #[arg(long, value_name = "DIR", requires = "acme")]
    pub acme_state: Option<PathBuf>,
    /// How the authority checks the names: http-01 (at port 80), tls-alpn-01 (at port 443) or dns-01 (by --acme-dns-hook)
    /// [default: by the port that this server has, and the other way after a failure]
    #[arg(long, value_name = "KIND", value_parser = Kind::parse, requires = "acme")]
    pub acme_challenge: Option<Kind>,
    /// Program that answers the authority in DNS (dns-01), also for names as *.example.org: called with "set" or "clear", the
    /// name of a TXT record and its value, it ends when all name servers of the zone have it
    #[arg(long, value_name = "PROGRAM", value_parser = hook_of, requires = "acme")]
    pub acme_dns_hook: Option<PathBuf>,
}

impl AcmeConfig {
    /// The folder of its authority.
    pub fn store(&self) -> Store {
        Store::of(&self.state, &self.directory)
    }

    /// The user who serves may start the program that answers in DNS, if there is one.
    ///
    /// # Errors
    ///
    /// It may not.
    pub fn check_hook(&self, user: &UserArgs) -> Result<(), Error> {
        let Some(hook) = &self.dns_hook else {
            return Ok(());
        };
        let may = user.as_user(|| Ok(accessat(CWD, hook, Access::EXEC_OK, AtFlags::EACCESS)))?;
        may.map_err(|e| {
            let hook = hook.display();
            let who = user.user.as_ref().map_or("this user", |it| &it.name);
            Error::io(format!("{who} cannot start {hook}"), e).mend(format!(
                "do: chmod a+rx {hook}, and a+x each folder above it"
            ))
        })
    }
}

impl Config {
    /// All certificates that come by themselves.
    pub fn managed(&self) -> impl Iterator<Item = &Managed> {
        self.sites.iter().flat_map(|site| &site.managed)
    }

    /// The way in which an authority is to ask first, by our ports.
    pub(super) fn first_challenge(port: u16, tls_port: u16) -> Kind {
        match (port, tls_port) {
            (HTTP_PORT, _) => Kind::Http,
            (_, TLS_PORT) => Kind::TlsAlpn,
            // Something in front leads to others.
            _ => Kind::Http,
        }
    }
}

impl AcmeArgs {
    /// What the options say, if they do; the site gets its names.
    ///
    /// # Errors
    ///
    /// A name is there twice.
    pub(crate) fn apply(&self, config: &mut Config) -> Result<(), Error> {
        let (Some(contact), Some(tls)) = (&self.acme, &config.tls) else {
            return Ok(());
        };
        let directory = match (&self.acme_directory, self.acme_staging) {
            (Some(directory), _) => directory,
            (None, true) => LETS_ENCRYPT_STAGING,
            (None, false) => LETS_ENCRYPT,
        };
        let challenge = challenge_by(self.acme_challenge, self.acme_dns_hook.is_some());
        let acme = AcmeConfig {
            contact: vec![contact.clone()],
            directory: directory.to_owned(),
            authorities: self.acme_ca.clone(),
            state: self.acme_state.clone().unwrap_or(STATE.into()),
            challenge: challenge.map_err(Error::new)?,
            first: Config::first_challenge(config.port, tls.port),
            dns_hook: self.acme_dns_hook.clone(),
        };
        for name in &self.acme_name {
            name_by(name, acme.dns_hook.is_some()).map_err(Error::new)?;
        }
        let store = acme.store();
        for site in &mut config.sites {
            for name in &self.acme_name {
                let name = HostName::parse(name).map_err(Error::new)?;
                if site.names.contains(&name) {
                    return Err(Error::new(format!("--acme-name is given twice for {name}"))
                        .mend("give each name once"));
                }
                site.managed.push(managed(&store, &name));
                site.names.push(name);
            }
        }
        config.acme = Some(acme);
        Ok(())
    }
}

fn managed(store: &Store, name: &HostName) -> Managed {
    let name = name.to_string();
    Managed {
        file: store.certificate(&name),
        name,
    }
}

/// `[acme]`, where there is one; sites that have no certificates of their own get some. `port` is that of HTTP.
pub(super) fn acme(
    source: &Source,
    folder: &Path,
    file: &File,
    (port, tls): (u16, &TlsConfig),
    sites: &mut [SiteConfig],
) -> Option<AcmeConfig> {
    let spanned = file.acme.as_ref()?;
    let table = spanned.get_ref();
    let hook = table.dns_hook.as_ref();
    let dns_hook =
        hook.and_then(|text| source.value(text, |program| hook_by(&folder.join(program))));
    let asked = table.challenge.as_ref();
    let asked = asked.and_then(|text| source.value(text, Kind::parse));
    let challenge = challenge_by(asked, hook.is_some()).unwrap_or_else(|why| {
        let said = table.challenge.as_ref().or(hook);
        source.note(&said.map_or(spanned.span(), |text| text.span()), why);
        None
    });
    let mut acme = AcmeConfig {
        contact: texts(source, &table.contact, mail_of),
        directory: directory(source, table),
        authorities: table.ca.as_ref().map(|ca| folder.join(ca.get_ref())),
        state: folder.join(table.state.as_ref().map_or(STATE, |it| it.get_ref())),
        challenge,
        first: Config::first_challenge(port, tls.port),
        dns_hook,
    };
    if acme.challenge != Some(Kind::Dns) && tls.clients.as_ref().is_some_and(|it| it.are_required) {
        // Who asks by a handshake shows no certificate.
        if let (Some(Kind::TlsAlpn), Some(text)) = (acme.challenge, &table.challenge) {
            let cannot = "clients have to show certificates (client_ca), and an authority that asks by tls-alpn-01 has none; write \"http-01\"";
            source.note(&text.span(), cannot);
        }
        acme.challenge = Some(Kind::Http);
    }
    let store = acme.store();
    for (table, site) in file.site.iter().zip(&mut *sites) {
        manage(source, &store, table, (site, hook.is_some()));
    }
    if sites.iter().all(|site| site.managed.is_empty()) {
        source.note_missing(
            &spanned.span(),
            "no site has a name for which a certificate could come; write names = [\"example.org\"] below one that has no [[site.certificate]]",
        );
    }
    Some(acme)
}

fn directory(source: &Source, table: &AcmeTable) -> String {
    let given = table.directory.as_ref();
    if let (Some(text), true) = (given, table.staging) {
        let both = "staging is Let's Encrypt's, and directory names an authority; leave one out";
        source.note(&text.span(), both);
    }
    let default = match table.staging {
        true => LETS_ENCRYPT_STAGING,
        false => LETS_ENCRYPT,
    };
    let given = given.and_then(|text| source.value(text, directory_of));
    given.unwrap_or_else(|| default.to_owned())
}

/// Has certificates come for the names of a site, unless it has its own or wants none.
fn manage(
    source: &Source,
    store: &Store,
    table: &Spanned<SiteTable>,
    (site, has_hook): (&mut SiteConfig, bool),
) {
    let is_wanted = table.get_ref().acme.unwrap_or(true);
    if !site.certificates.is_empty() || !is_wanted {
        return;
    }
    for name in &site.names {
        match name_by(&name.to_string(), has_hook) {
            Ok(_) => site.managed.push(managed(store, name)),
            Err(why) => source.note(
                &table.span(),
                format!("{why}; write [[site.certificate]] below this site, or acme = false"),
            ),
        }
    }
}

fn texts(
    source: &Source,
    all: &[super::schema::Text],
    parse: fn(&str) -> Result<String, String>,
) -> Vec<String> {
    let all = all.iter();
    all.filter_map(|text| source.value(text, parse)).collect()
}

/// How the authority is to ask where this is said, and a program for answers in DNS is named or not.
fn challenge_by(asked: Option<Kind>, has_hook: bool) -> Result<Option<Kind>, String> {
    match (asked, has_hook) {
        (Some(Kind::Dns), false) => {
            Err("dns-01 takes a program that sets records; name it by dns_hook".to_owned())
        }
        (Some(Kind::Http | Kind::TlsAlpn), true) => {
            Err("dns_hook is for dns-01, and another challenge is named; leave one out".to_owned())
        }
        (_, true) => Ok(Some(Kind::Dns)),
        (asked, false) => Ok(asked),
    }
}

/// A program that answers in DNS.
fn hook_of(text: &str) -> Result<PathBuf, String> {
    hook_by(text.as_ref())
}

/// With its whole path: one without a slash would be looked for in PATH.
fn hook_by(program: &Path) -> Result<PathBuf, String> {
    let text = program.display();
    let fail = |e| format!("cannot find the program {text}: {e}");
    let program = std::path::absolute(program).map_err(fail)?;
    match program.metadata().map_err(fail)? {
        about if !about.is_file() || about.mode() & 0o111 == 0 => Err(format!(
            "{text} is no program; write one, and do: chmod +x {text}"
        )),
        _ => Ok(program),
    }
}

/// A name for which a certificate can come, in one way or another.
fn name_of(text: &str) -> Result<String, String> {
    name_by(text, true)
}

/// A name for which a certificate can come, in DNS too or not.
fn name_by(text: &str, has_hook: bool) -> Result<String, String> {
    let name = HostName::parse(text)?.to_string();
    let fail = |why: &str| Err(format!("no certificate can come for {name}: {why}"));
    if name.starts_with("*.") && !has_hook {
        return fail("that of all names below another takes an answer in DNS (dns_hook)");
    }
    if name.starts_with('[') || name.parse::<Ipv4Addr>().is_ok() {
        return fail("it is an address, and authorities want names");
    }
    if !name.contains('.') {
        return fail("it is no name of the public DNS, which has a point in it");
    }
    if name.contains('_') {
        return fail("names of hosts have no underline");
    }
    Ok(name)
}

/// An address of mail: what is behind `mailto:`.
fn mail_of(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_graphic() && !"?,;<>\"".contains(c);
    match text.split_once('@') {
        Some((who, host))
            if !who.is_empty() && HostName::parse(host).is_ok() && text.chars().all(fits) =>
        {
            Ok(text.to_owned())
        }
        _ => Err(format!(
            "{text:?} is no mail address; write one, as \"admin@example.org\""
        )),
    }
}

/// The URL of a directory.
fn directory_of(text: &str) -> Result<String, String> {
    let url = text.parse::<http::Uri>().ok();
    let is_https = |url: &http::Uri| url.scheme_str() == Some("https") && url.host().is_some();
    match url.as_ref().is_some_and(is_https) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is no URL of an authority; write it with https://, as \"{LETS_ENCRYPT}\""
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests run in the folder of the crate. A name alone is a file there, not one of PATH.
    #[test]
    fn a_hook_has_a_whole_path() {
        hook_of("sh").unwrap_err();
        let file = "../../test";
        let hook = hook_of(file).unwrap();
        assert!(hook.is_absolute(), "{}", hook.display());
        assert_eq!(
            hook.canonicalize().unwrap(),
            Path::new(file).canonicalize().unwrap()
        );
    }
}
