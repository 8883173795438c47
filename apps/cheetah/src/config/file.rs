//! The configuration as a whole, by default or from a file.

use std::path::Path;

use exos::wire::Prefix;
use exos_program::UserArgs;
use exos_program::config::{ConfigErrors, Source, tables, text_of};

use super::acme::AcmeConfig;
use super::cache::CacheSize;
use super::lines::{Lines, folder_of};
use super::site::{Root, SiteConfig};
use super::stack::{LinkConfig, TcpConfig};
use super::tls::TlsConfig;
use super::{acme, cache, request_fields, schema, site, stack, tls, watch};
use crate::connections::BoundsArgs;
use crate::limits::{CHUNKS_LEN, CONFIG_LEN_MAX};
use crate::log::LogArgs;
use crate::site::Limits;
use crate::site::hosts::Unknown;
use crate::status::StatusArgs;

/// The port of HTTP (RFC 9110 §4.2.1).
pub const DEFAULT_PORT: u16 = 80;

/// What is to be served, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// The TCP port.
    pub port: u16,
    /// HTTPS, if it is wanted.
    pub tls: Option<TlsConfig>,
    /// How certificates come by themselves, if they do.
    pub acme: Option<AcmeConfig>,
    /// The user that serves.
    pub user: UserArgs,
    /// Where packets come from.
    pub link: LinkConfig,
    /// How many cores serve; as many as are named for the link when left out.
    pub cores: Option<u32>,
    /// How connections behave.
    pub tcp: TcpConfig,
    /// The access log.
    pub log: LogArgs,
    /// The status pages.
    pub status: StatusArgs,
    /// Limits of clients.
    pub bounds: BoundsArgs,
    /// Networks of proxies that say by the PROXY protocol for whom they connect.
    pub proxy_protocol: Vec<Prefix>,
    /// How much memory documents may take.
    pub cache: CacheSize,
    /// Whether documents come from the file cache that processes share.
    pub file_cache: bool,
    /// How long and how many documents may be.
    pub limits: Limits,
    /// Bytes of memory for what is read while it is sent.
    pub stream_memory: u64,
    /// What is served; never empty.
    pub sites: Vec<SiteConfig>,
    /// The number of the site that answers when no other does.
    pub default_site: usize,
    /// What becomes of requests for hosts that no site names.
    pub unknown_hosts: Unknown,
    /// Whether HTTP/2 is spoken to clients that want it.
    pub http2: bool,
    /// Whether the kernel answers SYNs.
    pub syn_handler: bool,
    /// Whether the kernel answers requests, too.
    pub in_kernel: bool,
    /// Where the file names what is opened later.
    pub lines: Lines,
}

impl Config {
    /// Everything by default, and one site.
    pub fn of(root: Root) -> Config {
        Config {
            port: DEFAULT_PORT,
            tls: None,
            acme: None,
            user: UserArgs::default(),
            link: LinkConfig::default(),
            cores: None,
            tcp: TcpConfig::default(),
            log: LogArgs::default(),
            status: StatusArgs::default(),
            bounds: BoundsArgs::default(),
            proxy_protocol: Vec::new(),
            cache: CacheSize::default(),
            file_cache: false,
            limits: Limits::default(),
            stream_memory: CHUNKS_LEN,
            sites: vec![SiteConfig::of(root)],
            default_site: 0,
            unknown_hosts: Unknown::Default,
            http2: true,
            syn_handler: false,
            in_kernel: false,
            lines: Lines::default(),
        }
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn read(file: &Path) -> Result<Config, ConfigErrors> {
        Config::parse(file, &text_of(file, CONFIG_LEN_MAX)?)
    }

    /// Checks the text of a file. Relative paths in it begin where the file lies.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn parse(file: &Path, text: &str) -> Result<Config, ConfigErrors> {
        let source = Source::new(file, text);
        let mut tables: schema::File = tables::read(&source);
        request_fields::share_told(&mut tables.site);
        let port = tables.port.as_ref();
        let mut config = Config {
            port: port
                .and_then(|port| source.number(port, 1, i64::from(u16::MAX)))
                .map_or(DEFAULT_PORT, |port| port as u16),
            tls: tls::tls(&source, &folder_of(file), &tables),
            acme: None,
            user: stack::user(&source, tables.user.as_ref()),
            link: stack::links(&source, &tables.link),
            cores: stack::cores(&source, &tables.link),
            tcp: stack::tcp(&source, &tables.tcp),
            log: watch::log(&source, &folder_of(file), &tables.log),
            status: watch::status(&source, &tables.status),
            bounds: watch::bounds(&source, &tables.clients),
            proxy_protocol: watch::proxies(&source, &tables.clients),
            cache: cache::cache(&source, &tables.cache),
            file_cache: tables.cache.file_cache,
            limits: site::limits(&source, &tables.limits),
            stream_memory: site::stream_memory(&source, &tables.limits),
            sites: site::all(&source, &folder_of(file), &tables.site),
            default_site: site::default_site(&source, &tables.site),
            http2: tables.http2 != Some(false),
            syn_handler: tables.syn_handler,
            in_kernel: tables.in_kernel,
            lines: Lines::of(&source, file, &tables),
            unknown_hosts: site::unknown_hosts(&source, tables.unknown_hosts.as_ref()),
        };
        let Config {
            port,
            tls,
            acme,
            sites,
            ..
        } = &mut config;
        if let Some(tls) = tls {
            *acme = acme::acme(&source, &folder_of(file), &tables, (*port, tls), sites);
        }
        site::name_port(&source, &tables.site, tls.as_ref(), sites);
        source.finish(config)
    }
}
