//! Sites: `[[site]]` and `[limits]`.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;

use super::schema::{LimitsTable, SiteTable, Text};
use super::tls::TlsConfig;
use super::units::size_within;
use super::{rules, tls};
use crate::limits::{CHUNKS_LEN, CHUNKS_LEN_MIN, MEMORY_LEN_MAX, SITE_FILES_MAX};
use crate::site::hosts::{HostName, Unknown};
use crate::site::{Limits, Settings};
use exos_program::config::Source;
use exos_tls::files::Files;

/// Where the documents of a site are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// In the program: the example site.
    Example,
    /// Nowhere: upstreams answer.
    Nowhere,
    /// In a directory.
    Directory(PathBuf),
}

/// One site.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// The hosts whose site it is.
    pub names: Vec<HostName>,
    /// Where its documents are.
    pub root: Root,
    /// Its certificates, where it has its own.
    pub certificates: Vec<Files>,
    /// Those that come by themselves.
    pub managed: Vec<Managed>,
    /// How they are found, named and sent.
    pub settings: Arc<Settings>,
}

impl SiteConfig {
    /// Everything by default.
    pub fn of(root: Root) -> SiteConfig {
        SiteConfig {
            names: Vec::new(),
            certificates: Vec::new(),
            managed: Vec::new(),
            root,
            settings: Arc::default(),
        }
    }
}

/// A certificate of a site that comes by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Managed {
    /// The host.
    pub name: String,
    /// Where the certificate is when it has come, with its key.
    pub file: PathBuf,
}

impl Managed {
    /// Certificate and key, as those that are named in a configuration.
    pub fn files(&self) -> Files {
        Files {
            certificate: self.file.clone(),
            key: self.file.clone(),
            ocsp: None,
        }
    }
}

/// `[limits]`.
pub(super) fn limits(source: &Source, table: &LimitsTable) -> Limits {
    let mut limits = Limits::default();
    let size = |text: &Option<_>, to| {
        let text = text.as_ref()?;
        source.value(text, |text| size_within(text, 1, to))
    };
    if let Some(len) = size(&table.document, u64::MAX) {
        limits.document_len = len;
    }
    if let Some(len) = size(&table.stream, MEMORY_LEN_MAX) {
        limits.memory_len = len;
    }
    let files = table.files.as_ref();
    if let Some(files) = files.and_then(|n| source.number(n, 1, SITE_FILES_MAX as i64)) {
        limits.files = files as usize;
    }
    limits
}

/// `stream_memory` of `[limits]`.
pub(super) fn stream_memory(source: &Source, table: &LimitsTable) -> u64 {
    let text = table.stream_memory.as_ref();
    let memory = text
        .and_then(|text| source.value(text, |text| size_within(text, CHUNKS_LEN_MIN, u64::MAX)));
    memory.unwrap_or(CHUNKS_LEN)
}

/// Every `[[site]]`. `folder` is where relative paths begin.
pub(super) fn all(
    source: &Source,
    folder: &Path,
    tables: &[Spanned<SiteTable>],
) -> Vec<SiteConfig> {
    if tables.is_empty() {
        let write = "write [[site]], and root = \"/srv/www\" below it";
        source.note_missing_whole(format!("names no site; {write}"));
    }
    let mut seen = HashMap::new();
    tables
        .iter()
        .map(|table| one(source, folder, table, &mut seen))
        .collect()
}

/// One `[[site]]`. `seen` has the names of those before it, with their lines.
fn one(
    source: &Source,
    folder: &Path,
    table: &Spanned<SiteTable>,
    seen: &mut HashMap<HostName, usize>,
) -> SiteConfig {
    let (span, table) = (table.span(), table.get_ref());
    // Upstreams alone need no documents; those who follow these verify passwords, too.
    let has_users = (table.access.iter()).any(|access| access.get_ref().users.is_some());
    let has_applications = !table.fastcgi.is_empty() || !table.application.is_empty();
    let is_proxy = !table.proxy.is_empty() && !has_users && !has_applications;
    if table.root.is_none() && !is_proxy {
        source.note_missing(
            &span,
            "the site has no documents; write root = \"/srv/www\"",
        );
    }
    let root = table.root.as_ref().map(|root| folder.join(root.get_ref()));
    let names = table.names.iter().filter_map(|text| {
        let name = source.value(text, HostName::parse)?;
        let line = source.line(&text.span());
        if let Some(before) = seen.insert(name.clone(), line) {
            let what = format!(
                "{:?} is named in line {before} too; a host has one site",
                text.get_ref()
            );
            source.note(&text.span(), what);
        }
        Some(name)
    });
    SiteConfig {
        names: names.collect(),
        certificates: tls::certificates(source, folder, &table.certificate),
        managed: Vec::new(),
        root: root.map_or(Root::Nowhere, Root::Directory),
        settings: Arc::new(rules::settings(source, folder, &span, table)),
    }
}

/// The number of the site that answers when no other does: the one that says so, else the first.
pub(super) fn default_site(source: &Source, tables: &[Spanned<SiteTable>]) -> usize {
    let says_so = |(at, table): (usize, &Spanned<SiteTable>)| table.get_ref().default.then_some(at);
    let mut defaults = tables.iter().enumerate().filter_map(says_so);
    let default = defaults.next().unwrap_or(0);
    let place = |at: usize| -> Range<usize> { tables[at].span() };
    if let Some(second) = defaults.next() {
        let what = format!(
            "there is a default site in line {} already; write default = true once",
            source.line(&place(default))
        );
        source.note(&place(second), what);
    }
    for (at, table) in tables.iter().enumerate() {
        if at != default && table.get_ref().names.is_empty() {
            let what =
                "nothing leads to this site; write names = [\"example.org\"], or default = true";
            source.note_missing(&place(at), what);
        }
    }
    default
}

/// Has plain requests be sent to the port of HTTPS, of the sites that are `https_only`.
pub(super) fn name_port(
    source: &Source,
    tables: &[Spanned<SiteTable>],
    tls: Option<&TlsConfig>,
    sites: &mut [SiteConfig],
) {
    for (table, site) in tables.iter().zip(sites) {
        if !table.get_ref().https_only {
            continue;
        }
        match tls {
            Some(tls) => Arc::make_mut(&mut site.settings).https_only = Some(tls.port),
            None => source.note_missing(
                &table.span(),
                "the site is https_only, and there is no HTTPS; write [[site.certificate]] below it",
            ),
        }
    }
}

/// `unknown_hosts`.
pub(super) fn unknown_hosts(source: &Source, text: Option<&Text>) -> Unknown {
    let unknown = text.and_then(|text| {
        source.value(text, |text| match text {
            "default" => Ok(Unknown::Default),
            "refuse" => Ok(Unknown::Refuse),
            _ => Err(format!(
                "{text:?} is not understood; write \"default\" or \"refuse\""
            )),
        })
    });
    unknown.unwrap_or_default()
}
