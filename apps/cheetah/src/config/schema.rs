//! The tables of a configuration file, as they are written.
//!
//! Everything may be left out as far as serde is concerned; what must be there, and what values mean, is decided
//! where a table is checked, with the line at hand. A new section is a struct here, a field in [`File`], a check in
//! the module of its own that turns it into its meaning, and a paragraph in docs/serve.md.

use std::collections::BTreeMap;

pub(super) use exos_program::config::link::LinkTables;
pub(super) use exos_program::config::{Number, Text};
use serde::Deserialize;
use toml::Spanned;

/// The whole file.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct File {
    pub(super) port: Option<Number>,
    pub(super) user: Option<Text>,
    pub(super) link: LinkTables,
    pub(super) tcp: TcpTable,
    pub(super) tls: Option<Spanned<TlsTable>>,
    pub(super) acme: Option<Spanned<AcmeTable>>,
    pub(super) log: LogTable,
    pub(super) status: StatusTable,
    pub(super) clients: ClientsTable,
    pub(super) cache: CacheTable,
    pub(super) limits: LimitsTable,
    pub(super) unknown_hosts: Option<Text>,
    pub(super) http2: Option<bool>,
    #[serde(default)]
    pub(super) syn_handler: bool,
    #[serde(default)]
    pub(super) in_kernel: bool,
    pub(super) site: Vec<Spanned<SiteTable>>,
}

/// `[tcp]`: how connections behave.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [tcp]")]
pub(super) struct TcpTable {
    pub(super) congestion: Option<Text>,
    pub(super) ecn: Option<Text>,
    pub(super) sack: Option<bool>,
    pub(super) nagle: Option<bool>,
    pub(super) receive_buffer: Option<Text>,
}

/// `[tls]`: HTTPS.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [tls]")]
pub(super) struct TlsTable {
    pub(super) port: Option<Number>,
    pub(super) minimum_version: Option<Text>,
    pub(super) suites: Vec<Text>,
    pub(super) self_signed: bool,
    pub(super) http3: bool,
    pub(super) early_data: Option<Spanned<bool>>,
    pub(super) client_ca: Option<Text>,
    pub(super) client_certificate: Option<Text>,
    pub(super) client_crl: Option<Spanned<OneOrMany>>,
}

/// `[acme]`: certificates that come by themselves.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [acme]")]
pub(super) struct AcmeTable {
    pub(super) contact: Vec<Text>,
    pub(super) directory: Option<Text>,
    pub(super) staging: bool,
    pub(super) ca: Option<Text>,
    pub(super) state: Option<Text>,
    pub(super) challenge: Option<Text>,
    pub(super) dns_hook: Option<Text>,
}

/// `[[site.certificate]]`: a certificate of a site.
#[derive(Deserialize, Default)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table: [[site.certificate]]"
)]
pub(super) struct CertificateTable {
    pub(super) file: Option<Text>,
    pub(super) key: Option<Text>,
    pub(super) ocsp: Option<Text>,
}

/// `[log]`: the access log.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [log]")]
pub(super) struct LogTable {
    pub(super) file: Option<Text>,
    pub(super) format: Option<Text>,
}

/// `[status]`: the status pages.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [status]")]
pub(super) struct StatusTable {
    pub(super) path: Option<Text>,
    pub(super) allow: Vec<Text>,
}

/// `[clients]`: what clients may do.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [clients]")]
pub(super) struct ClientsTable {
    pub(super) max_connections: Option<Number>,
    pub(super) max_peer_connections: Option<Number>,
    pub(super) max_peer_streams: Option<Number>,
    pub(super) min_read_rate: Option<Number>,
    pub(super) min_head_rate: Option<Number>,
    pub(super) shutdown_timeout: Option<Text>,
    pub(super) proxy_protocol: Vec<Text>,
}

/// `[cache]`: how much of it is in memory.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [cache]")]
pub(super) struct CacheTable {
    pub(super) size: Option<Text>,
    pub(super) file_cache: bool,
}

/// `[limits]`: how much there may be.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [limits]")]
pub(super) struct LimitsTable {
    pub(super) document: Option<Text>,
    pub(super) stream: Option<Text>,
    pub(super) stream_memory: Option<Text>,
    pub(super) files: Option<Number>,
}

/// `[[site]]`: what is served.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [[site]]")]
pub(super) struct SiteTable {
    pub(super) names: Vec<Text>,
    pub(super) default: bool,
    pub(super) root: Option<Text>,
    pub(super) index: Option<Vec<Text>>,
    pub(super) listing: bool,
    pub(super) types: BTreeMap<String, Text>,
    pub(super) error_pages: BTreeMap<String, Text>,
    pub(super) fields: Vec<Spanned<FieldsTable>>,
    pub(super) redirect: Vec<Spanned<RedirectTable>>,
    pub(super) access: Vec<Spanned<AccessTable>>,
    pub(super) fastcgi: Vec<Spanned<FastcgiTable>>,
    pub(super) certificate: Vec<Spanned<CertificateTable>>,
    pub(super) application: Vec<Spanned<ApplicationTable>>,
    pub(super) proxy: Vec<Spanned<ProxyTable>>,
    pub(super) acme: Option<bool>,
    pub(super) https_only: bool,
    pub(super) hsts_days: Option<Number>,
}

/// `[[site.fastcgi]]`: what an application answers.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [[site.fastcgi]]")]
pub(super) struct FastcgiTable {
    pub(super) extension: Option<Text>,
    pub(super) path: Option<Text>,
    pub(super) to: Option<Text>,
    pub(super) root: Option<Text>,
    pub(super) files: Option<bool>,
    pub(super) front: Option<Text>,
    pub(super) parameters: BTreeMap<Spanned<String>, Text>,
    pub(super) timeout: Option<Text>,
    pub(super) body: Option<Text>,
    pub(super) connections: Option<Number>,
    pub(super) keep: Option<Number>,
}

/// `[[site.application]]`: what an application answers that shares its buffers.
#[derive(Deserialize, Default)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table: [[site.application]]"
)]
pub(super) struct ApplicationTable {
    pub(super) extension: Option<Text>,
    pub(super) path: Option<Text>,
    pub(super) to: Option<Text>,
    pub(super) root: Option<Text>,
    pub(super) files: Option<bool>,
    pub(super) front: Option<Text>,
    pub(super) parameters: BTreeMap<Spanned<String>, Text>,
    pub(super) timeout: Option<Text>,
    pub(super) body: Option<Text>,
    pub(super) requests: Option<Number>,
}

/// `[[site.proxy]]`: what other servers answer, over HTTP.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [[site.proxy]]")]
pub(super) struct ProxyTable {
    pub(super) path: Option<Text>,
    pub(super) to: Option<Spanned<OneOrMany>>,
    pub(super) files_first: Option<bool>,
    pub(super) raw: Option<bool>,
    pub(super) host: Option<Text>,
    pub(super) trusted: Vec<Text>,
    pub(super) set: BTreeMap<Spanned<String>, Spanned<OneOrMany>>,
    pub(super) tls_fields: BTreeMap<Spanned<String>, Text>,
    /// The fields of this kind in all rules of the file.
    #[serde(skip)]
    pub(super) told: Vec<String>,
    pub(super) upgrades: Option<bool>,
    pub(super) cache: Option<Spanned<CacheOf>>,
    pub(super) check: Option<Spanned<CheckTable>>,
    pub(super) ca: Option<Text>,
    pub(super) tls_name: Option<Text>,
    pub(super) timeout: Option<Text>,
    pub(super) connect_timeout: Option<Text>,
    pub(super) tunnel_timeout: Option<Text>,
    pub(super) keep_timeout: Option<Text>,
    pub(super) fail_timeout: Option<Text>,
    pub(super) body: Option<Text>,
    pub(super) connections: Option<Number>,
    pub(super) keep: Option<Number>,
}

/// `check` of `[[site.proxy]]`: how upstreams are asked whether they are well.
#[derive(Deserialize, Default)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table as { path = \"/health\", interval = \"5s\" }"
)]
pub(super) struct CheckTable {
    pub(super) path: Option<Text>,
    pub(super) host: Option<Text>,
    pub(super) interval: Option<Text>,
    pub(super) timeout: Option<Text>,
    pub(super) fails: Option<Number>,
    pub(super) passes: Option<Number>,
}

/// `cache` of `[[site.proxy]]`: whether answers are kept, and which.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "write true, false, or a table as { answer = \"1MiB\", share = \"25%\" }, with no other keys than answer, share, \
                 obey_clients, guess, stale_while_revalidate, stale_if_error and purge"
)]
pub(super) enum CacheOf {
    Is(bool),
    With(Box<ProxyCacheTable>),
}

/// The table of that.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProxyCacheTable {
    pub(super) answer: Option<String>,
    pub(super) share: Option<String>,
    pub(super) obey_clients: Option<bool>,
    pub(super) guess: Option<String>,
    pub(super) stale_while_revalidate: Option<String>,
    pub(super) stale_if_error: Option<String>,
    pub(super) purge: Vec<String>,
}

/// `[[site.access]]`: who may have some paths.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [[site.access]]")]
pub(super) struct AccessTable {
    pub(super) path: Option<Text>,
    pub(super) rules: Option<Vec<Text>>,
    pub(super) rate: Option<Number>,
    pub(super) burst: Option<Number>,
    pub(super) users: Option<Text>,
    pub(super) realm: Option<Text>,
}

/// `[[site.fields]]`: header fields for the responses of some paths.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [[site.fields]]")]
pub(super) struct FieldsTable {
    pub(super) path: Option<Text>,
    pub(super) set: BTreeMap<String, Spanned<OneOrMany>>,
}

/// A text, or several.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "write a text in double quotes, or a list of such"
)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// `[[site.redirect]]`: another address for some paths.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [[site.redirect]]")]
pub(super) struct RedirectTable {
    pub(super) from: Option<Text>,
    pub(super) to: Option<Text>,
    pub(super) status: Option<Number>,
    pub(super) keep_query: Option<bool>,
}
