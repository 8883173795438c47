//! The command line of `exos serve`.

use std::path::PathBuf;
use std::sync::Arc;

use exos::wire::Prefix;
use exos::{Error, clock};
use exos_program::{SharingLinkArgs, Stream, TcpArgs, UserArgs};

use crate::config::{
    AcmeArgs, ApplicationArg, CacheSize, Config, DEFAULT_PORT, Root, TlsArgs, add_args,
};
use crate::connections::{BoundsArgs, Specialisation};
use crate::log::{Log, LogArgs, Target};
use crate::secure::Acceptor;
use crate::serve::content::reload::Read;
use crate::serve::content::sites::Fresh;
use crate::site::rules::access::networks::parse_network;
use crate::site::store::cache::FromCache;
use crate::status::StatusArgs;

/// Serve a directory over HTTP on a TCP/IP stack of its own.
///
/// Without --link and without a daemon, it makes a virtual interface pair and prints URLs that a browser on this
/// machine can open at once; without root, it uses a TAP device in a user namespace instead. SIGINT and SIGTERM stop
/// it. It prints statistics on SIGUSR1 and at the end. SIGHUP reloads the configuration file and the documents; SIGUSR2
/// reopens the access log.
#[derive(clap::Args, Clone, Debug)]
pub struct ServeArgs {
    /// Directory to serve [default: an example site]
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Read the configuration from this TOML file (docs/serve.md); options that may be given beside it override it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["directory", "port", "listing", "fastcgi", "application", "proxy"])]
    pub config: Option<PathBuf>,
    /// Check the configuration, print what would be served or all errors, and exit
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub(super) user: UserArgs,
    #[command(flatten)]
    pub(super) link: SharingLinkArgs<true>,
    /// Number of CPU cores to use, each with its own TCP/IP stack and interface queues; --core chooses which [default:
    /// one for each interface]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cores: Option<u32>,
    #[command(flatten)]
    pub(super) tcp: TcpArgs,
    #[command(flatten)]
    pub(super) log: LogArgs,
    #[command(flatten)]
    pub(super) status: StatusArgs,
    #[command(flatten)]
    pub(super) bounds: BoundsArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) acme: AcmeArgs,
    /// TCP port to serve [default: 80]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Serve HTTP/1 only, without HTTP/2
    #[arg(long)]
    pub no_http2: bool,
    /// Memory for documents, such as 512MiB or 25%; what does not fit is read from disk on request [default: half of
    /// the available memory]
    #[arg(long, value_name = "SIZE")]
    pub cache: Option<CacheSize>,
    /// Have documents in the file cache of this user or this host (exos file-cache), by reference: of files that several
    /// servers or other programs have there is one copy (docs/serve.md)
    #[arg(long)]
    pub file_cache: bool,
    /// Turn off optimisations, to measure what each is worth (docs/internals/serve.md)
    #[arg(
        long,
        value_enum,
        value_name = "WHAT,...",
        value_delimiter = ',',
        conflicts_with = "sockets"
    )]
    pub without: Vec<Specialisation>,
    /// Use the kernel's TCP (sockets) instead of the program's own TCP/IP stack, for comparison
    #[arg(long, conflicts_with_all = ["cores", "link", "via", "mode", "xokd", "gateway", "route", "share_address", "reuse_port", "no_segmentation", "congestion", "ecn", "no_sack", "receive_buffer", "nagle"])]
    pub sockets: bool,
    /// Answer SYNs in the kernel with an eBPF program, before the server sees them (AF_XDP only;
    /// docs/serve.md)
    #[arg(long, conflicts_with = "sockets")]
    pub syn_handler: bool,
    /// Answer requests for small documents in the kernel with an eBPF program, before the server sees them (AF_XDP
    /// only; docs/serve.md)
    #[arg(long, conflicts_with_all = ["sockets", "without", "syn_handler"])]
    pub in_kernel: bool,
    /// List the files of directories that have no index document
    #[arg(long)]
    pub listing: bool,
    /// Have a FastCGI application answer requests for an extension or a path: .php=/run/php/php-fpm.sock or
    /// "/app/*=127.0.0.1:9000" (repeatable)
    #[arg(long, value_name = "WHAT=ADDRESS", requires = "directory", value_parser = ApplicationArg::fastcgi)]
    pub fastcgi: Vec<ApplicationArg>,
    /// Have an application answer requests for a path or an extension through memory that it shares with the server:
    /// "/app/*=/run/pages.sock" (repeatable; docs/serve.md)
    #[arg(long, value_name = "WHAT=SOCKET", requires = "directory", value_parser = ApplicationArg::shared)]
    pub application: Vec<ApplicationArg>,
    /// Have other HTTP servers answer requests for a path and all below it: /api=http://127.0.0.1:8080, with commas between
    /// several servers (repeatable; docs/proxy.md)
    #[arg(long, value_name = "PATH=URL,...", value_parser = ApplicationArg::proxy)]
    pub proxy: Vec<ApplicationArg>,
    /// Expect a PROXY protocol header, which names the client, from proxies at this address or prefix, such as 192.0.2.0/24
    /// (repeatable; docs/proxy.md)
    #[arg(long, value_name = "PREFIX", value_parser = parse_network)]
    pub proxy_protocol: Vec<Prefix>,
    /// Print the statistics as one line of JSON on standard output
    #[arg(long)]
    pub json: bool,
}

impl ServeArgs {
    /// What the file and the options say together. What is wrong with the file is said on standard error.
    pub(super) fn configuration(&self) -> Result<Config, Error> {
        let config = match &self.config {
            Some(file) => Config::read(file).map_err(|errors| {
                for line in errors.to_string().lines() {
                    exos_program::error!("exos serve: {line}");
                }
                let (count, file) = (errors.errors.len(), file.display());
                let errors = if count == 1 { "error" } else { "errors" };
                Error::new(format!("{file} has {count} {errors}")).mend("see docs/serve.md")
            })?,
            None => self.without_file()?,
        };
        let mut config = config;
        self.tls.log_keys(config.tls.as_mut())?;
        let mut lines = config.lines.clone();
        if self.log.file.is_some() {
            lines.log = 0;
        }
        if self.link.link.is_some() || self.link.via.is_some() {
            lines.link = 0;
        }
        if config
            .tls
            .as_ref()
            .is_some_and(|tls| tls.port == config.port)
        {
            let both = format!("HTTP and HTTPS cannot both have port {}", config.port);
            return Err(Error::new(both).mend(
                "give one of them another: --port and --tls-port, or port and port below [tls]",
            ));
        }
        let proxy_protocol = match self.proxy_protocol.is_empty() {
            true => config.proxy_protocol,
            false => self.proxy_protocol.clone(),
        };
        let in_kernel = self.in_kernel || config.in_kernel;
        if in_kernel && !proxy_protocol.is_empty() {
            let both = "the kernel answers requests, and the PROXY protocol is not known to it";
            return Err(Error::new(both).mend("leave in_kernel or proxy_protocol out"));
        }
        Ok(Config {
            lines,
            proxy_protocol,
            user: self.user.clone().or(config.user),
            link: self.link.0.clone().or(config.link),
            cores: self.cores.or(config.cores),
            tcp: self.tcp.clone().or(config.tcp),
            log: self.log.clone().or(config.log),
            status: self.status.clone().or(config.status),
            bounds: self.bounds.or(config.bounds),
            cache: self.cache.unwrap_or(config.cache),
            file_cache: self.file_cache || config.file_cache,
            http2: config.http2 && !self.no_http2,
            syn_handler: self.syn_handler || config.syn_handler,
            in_kernel,
            ..config
        })
    }

    /// What a reload reads: the file again, and everything that it names. Certificates come into use at once, and ports are those
    /// of `started`, with which the program began.
    pub(super) fn reader(
        &self,
        started: &Config,
        acceptor: Option<Arc<Acceptor>>,
        file_cache: FromCache,
    ) -> Read {
        let args = self.clone();
        let ports = (started.port, started.tls.as_ref().map(|tls| tls.port));
        let spoke_http3 = started.speaks_http3();
        let has_acme = started.acme.is_some();
        Arc::new(move || {
            let mut config = args.configuration().map_err(|e| vec![e])?;
            keep_start(&mut config, ports, has_acme).map_err(|e| vec![e])?;
            if config.speaks_http3() != spoke_http3 {
                exos_program::warn!(
                    "exos serve: to begin or end HTTP/3 takes a restart; until then all is as it was"
                );
            }
            let read = Fresh::read(config.clone(), true, &file_cache)?;
            if let Some(acceptor) = &acceptor {
                acceptor.reload(&config).map_err(|e| vec![e])?;
            }
            Ok(read)
        })
    }

    fn without_file(&self) -> Result<Config, Error> {
        let directory = self.directory.clone();
        let mut config = Config::of(match directory {
            Some(directory) => Root::Directory(directory),
            None if self.proxy.is_empty() => Root::Example,
            None => Root::Nowhere,
        });
        config.port = self.port.unwrap_or(DEFAULT_PORT);
        config.tls = self.tls.config(self.acme.acme.is_some())?;
        self.acme.apply(&mut config)?;
        for site in &mut config.sites {
            let settings = Arc::make_mut(&mut site.settings);
            settings.listing = self.listing;
            let applications = self.fastcgi.iter().chain(&self.application);
            let all = applications.chain(&self.proxy);
            add_args(settings, all, self.directory.as_deref());
        }
        Ok(config)
    }
}

/// Has a configuration be for the ports that a program listens at, HTTP's and HTTPS', and for its thread of ACME.
fn keep_start(
    config: &mut Config,
    (port, encrypted): (u16, Option<u16>),
    has_acme: bool,
) -> Result<(), Error> {
    let restart = "write what was there before, or start the program again";
    let other = |what: &str| Error::new(format!("{what} takes a restart")).mend(restart);
    let wanted = (config.port, config.tls.as_ref().map(|tls| tls.port));
    match (encrypted, wanted.1) {
        _ if config.acme.is_some() != has_acme => {
            return Err(other(match has_acme {
                true => "that there are no automatic certificates any more",
                false => "that there are automatic certificates now",
            }));
        }
        (None, Some(_)) => return Err(other("that there is HTTPS now")),
        (Some(_), None) => return Err(other("that there is no HTTPS any more")),
        _ if wanted != (port, encrypted) => {
            exos_program::warn!("exos serve: {}", other("another port"));
        }
        _ => {}
    }
    config.port = port;
    if let (Some(tls), Some(encrypted)) = (&mut config.tls, encrypted) {
        tls.port = encrypted;
        for site in &mut config.sites {
            if site.settings.https_only.is_some() {
                Arc::make_mut(&mut site.settings).https_only = Some(encrypted);
            }
        }
    }
    Ok(())
}

/// Opens the access log, if one is wanted, for this many loops; its thread runs on these cores.
pub(super) fn open_logs(
    args: &ServeArgs,
    config: &Config,
    cores: &[usize],
    loops: usize,
) -> Result<Option<Vec<Log>>, Error> {
    if args.json && config.log.target() == Some(Target::Output) {
        let both =
            "statistics (--json) and the access log (--log -) cannot both go to standard output";
        return Err(Error::new(both).mend("give the log a file"));
    }
    config.log.open(clock::unix_secs(), cores, loops)
}

/// Where the addresses of the site are printed: not among the lines of the log.
pub(super) fn place_of_addresses(config: &Config) -> Stream {
    match config.log.target() {
        Some(Target::Output) => Stream::Error,
        Some(Target::File(_)) | None => Stream::Output,
    }
}
