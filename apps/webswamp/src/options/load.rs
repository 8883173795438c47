//! The options of a load.

use std::time::Duration;

use exos::Prefixed;
use exos_host::{Error, Result, affinity};
use exos_inet::route::Prefix;
use exos_program::cores::{self, by_links};
use exos_program::{Idle, SharingLinkArgs, TcpArgs, TlsArgs, UserArgs};
use http::Uri;

use crate::driver::{Common, DriverArgs, Plan};
use crate::engine::Behaviour;
use crate::expect::Expect;
use crate::limits::{
    CONNECTIONS_MAX, LOAD_TIME, OPEN_CONNECTIONS, OPENING_MAX, PIPELINE_MAX, REQUEST_TIME,
};
use crate::moment;
use crate::report::Bound;
use crate::request::Content;
use crate::schedule::{Arrivals, Phase};
use crate::target;
use exos_program::units::parse_duration;

use super::http::HttpArgs;
use super::output::{OutputArgs, ShowArgs};
use super::rate::Step;
use super::values::{header, range, share, some_time, token};

/// A load.
#[derive(clap::Args, Clone, Debug)]
pub struct LoadArgs {
    /// URL to request: http://HOST[:PORT]/PATH or https://...; with --urls, the server of its paths
    #[arg(value_name = "URL", required_unless_present = "urls")]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) driver: DriverArgs,
    /// Number of clients in a closed loop (with --http 2 or 3, of connections, with a client for each stream); with --rate, most
    /// connections at once [default: 64; 10000 with --rate]
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    pub(crate) connections: Option<u32>,
    /// Requests to start per second, whether or not earlier ones are answered: RATE, or steps and ramps as
    /// RATE:TIME,FROM-TO:TIME,...
    #[arg(short, long, value_name = "RATE", value_delimiter = ',')]
    pub(crate) rate: Vec<Step>,
    /// Find the highest rate that meets a latency bound, such as p99<5ms, with loads of 4 s (or --duration) each
    #[arg(long, value_name = "BOUND",
        conflicts_with_all = ["rate", "requests", "think", "replay", "surge", "start_at"])]
    pub(crate) find_peak: Option<Bound>,
    /// Start the requests of --rate at random times (Poisson process) instead of evenly spaced
    #[arg(long, requires = "rate")]
    pub(crate) poisson: bool,
    /// How long the load lasts [default: 30s, or as long as the steps of --rate]
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Duration>,
    /// Stop after this many requests, unless --duration ends first
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Time at the start of the load to leave out of the results
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    pub(crate) warm_up: Duration,
    /// Start at this time, so that several machines start together: 2026-01-31T10:00:00Z, or seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    pub(crate) start_at: Option<f64>,
    /// How long a client waits between a response and its next request
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s", conflicts_with = "rate")]
    pub(crate) think: Duration,
    /// Requests per connection; 1 opens a new connection for each [default: no limit]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests_per_connection: Option<u32>,
    /// Most unanswered requests on a connection at once (HTTP pipelining)
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(PIPELINE_MAX)), conflicts_with_all = ["rate", "think", "replay", "surge", "find_peak"])]
    pub(crate) pipeline: u32,
    /// Longest time that a request may take, including connecting [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) timeout: Option<Duration>,
    /// Request method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET", value_parser = token)]
    pub(crate) method: String,
    /// Request header field (repeatable)
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// Send this file as the request body
    #[arg(long, value_name = "FILE")]
    pub(crate) body: Option<std::path::PathBuf>,
    /// Request this part of the document, in bytes counted from 0: FIRST-LAST, FIRST- or -COUNT
    #[arg(long, value_name = "BYTES", value_parser = range, allow_hyphen_values = true)]
    pub(crate) range: Option<String>,
    #[command(flatten)]
    pub(crate) expect: Expect,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    /// Seed of all random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Acknowledge SYN-ACKs and FINs in packets of their own, instead of with the next data or FIN
    #[arg(long)]
    pub(crate) no_merging: bool,
    /// Send the FIN with the last request of a connection, so that TIME-WAIT is on this side and not on the server's
    #[arg(long)]
    pub(crate) early_finish: bool,
    /// Start even if the server does not accept connections yet
    #[arg(long)]
    pub(crate) no_probe: bool,
    /// What to do while nothing arrives [default: poll if there is a core to spare]
    #[arg(long, value_name = "HOW")]
    pub(crate) idle: Option<Idle>,
    /// Copy response bodies into memory, instead of counting their bytes as they arrive
    #[arg(long)]
    pub(crate) no_count_only: bool,
    /// Do not verify TCP checksums of received packets: damaged data goes unnoticed
    #[arg(long)]
    pub(crate) no_verify_checksums: bool,
    /// Allow loading a server that is neither on this host nor on a network of the interface
    #[arg(long)]
    pub(crate) yes_i_own_this_target: bool,
    /// Use the kernel's TCP (sockets) instead of the program's own TCP/IP stack; needs no privilege
    #[arg(long, conflicts_with_all = ["link", "via", "mode", "xokd", "address", "gateway", "route", "share_address", "no_segmentation", "congestion", "ecn", "no_sack", "receive_buffer", "nagle", "no_merging", "no_count_only", "no_verify_checksums"])]
    pub(crate) sockets: bool,
    /// Connect from all addresses of this prefix, which lies in the network of an --address or is routed to this
    /// program (repeatable, IPv4 and IPv6)
    #[arg(long, value_name = "PREFIX", conflicts_with = "sockets")]
    pub(crate) pool: Vec<Prefixed>,
    /// Number of CPU cores to use, each with its share of the clients, its own TCP/IP stack and interface queues;
    /// --core chooses which [default: one for each interface]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cores: Option<u32>,
    #[command(flatten)]
    pub(crate) user: UserArgs,
    #[command(flatten)]
    pub(crate) link: SharingLinkArgs<false>,
    #[command(flatten)]
    pub(crate) tcp: TcpArgs,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Share of the TLS handshakes that resume an earlier session, from 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.0)]
    pub(crate) tls_resume: f64,
    /// Share of the TLS handshakes with which the request goes as early data (0-RTT), where the server takes such, from 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.0)]
    pub(crate) tls_early: f64,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Clients when nothing is said: enough to keep a server busy.
const CLIENTS: u32 = 64;

impl LoadArgs {
    /// What it does while it has nothing to do. To be asked before a thread is pinned to a core.
    pub(crate) fn idle(&self) -> Idle {
        let count = self.link.count();
        match self.core_count() as usize {
            // Loops share cores, and who looks on keeps the other waiting.
            cores if cores < count => Idle::Sleep,
            cores => Idle::or_by_room(self.idle, cores),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.rate.is_empty() || self.driver.is_timed()
    }

    /// What is loaded, as it was said.
    pub(crate) fn name(&self) -> String {
        let list = self
            .driver
            .urls
            .as_ref()
            .map(|path| path.display().to_string());
        self.url.clone().or(list).unwrap_or_default()
    }

    /// On how many cores it is made.
    pub(crate) fn core_count(&self) -> u32 {
        let by_links = || {
            let allowed = affinity::allowed().unwrap_or_default();
            by_links(self.link.count(), &allowed) as u32
        };
        let listed = match self.link.core.len() {
            0 => by_links(),
            listed => listed as u32,
        };
        self.cores.unwrap_or(listed)
    }

    /// The cores of each link, of those that this process may use; none for one loop that runs anywhere.
    ///
    /// # Errors
    ///
    /// There are not as many, others are named, or there is nothing to do for some.
    pub(crate) fn places(&self, allowed: &[usize]) -> Result<Vec<Vec<usize>>> {
        let links = self.link.each()?;
        let (count, clients) = (self.core_count(), self.behaviour().slots);
        let loops = count.max(links.len() as u32);
        if clients < loops {
            let (what, fewer) = match loops > count {
                true => ("links", "fewer of them".to_owned()),
                false => ("cores", format!("--cores {clients}")),
            };
            return Err(Error::new(format!(
                "{loops} {what} have a client each at least, and there are {clients}"
            ))
            .mend(format!("give --connections {loops} or more, or {fewer}")));
        }
        cores::places(&links, count as usize, &self.link.core, allowed)
    }

    /// The pools of each link: where there are several, those in the network of one of its addresses.
    ///
    /// # Errors
    ///
    /// One of them is in no such network.
    pub(crate) fn pools(&self) -> Result<Vec<Vec<Prefixed>>> {
        let links = self.link.each()?;
        if links.len() == 1 {
            return Ok(vec![self.pool.clone()]);
        }
        let mut each = vec![Vec::new(); links.len()];
        for pool in &self.pool {
            let holds = |address: &Prefixed| {
                let network = Prefix::new(address.ip, address.prefix);
                network.is_ok_and(|network| network.contains(pool.ip))
            };
            let holder = links.iter().position(|link| link.address.iter().any(holds));
            let Some(link) = holder else {
                return Err(
                    Error::new(format!("the pool {pool} is in no network of a link"))
                        .mend("with several links, choose a part of the network of an --address"),
                );
            };
            each[link].push(*pool);
        }
        Ok(each)
    }

    /// Loads at one rate.
    pub(crate) fn set_rate(&mut self, rate: f64) {
        self.rate = vec![Step {
            from: rate,
            to: rate,
            time: None,
        }];
    }

    /// Whether each load of these options opens a link that takes privilege, which is given up with the first.
    pub(crate) fn opens_links_as_root(&self) -> bool {
        let is_lent = self.link.is_lent().unwrap_or(false);
        self.user.user.is_some() && !self.sockets && !is_lent
    }

    pub(crate) fn behaviour(&self) -> Behaviour {
        let slots = if self.is_open() {
            OPEN_CONNECTIONS
        } else {
            CLIENTS
        };
        Behaviour {
            slots: self.connections.unwrap_or(slots),
            opening: OPENING_MAX,
            requests_per_connection: self.requests_per_connection.unwrap_or(u32::MAX),
            pipeline: self.pipeline,
            streams: self.http.streams(),
            is_http3: self.http.is_http3(),
            requests: self.requests.unwrap_or(u64::MAX),
            timeout: self.timeout.unwrap_or(REQUEST_TIME),
            merging: !self.no_merging,
            early_finish: self.early_finish,
            count_only: !self.no_count_only,
            expect: self.expect.clone(),
        }
    }

    /// How long the load lasts.
    ///
    /// # Errors
    ///
    /// What was said of it contradicts itself.
    pub(crate) fn duration(&self) -> Result<Duration> {
        let steps: Option<Duration> = self.rate.iter().map(|step| step.time).sum();
        let duration = match (self.duration, steps) {
            (Some(all), _) => all,
            (None, Some(steps)) if !self.rate.is_empty() => steps,
            (None, _) => LOAD_TIME,
        };
        if self.warm_up >= duration {
            return Err(Error::new("the warm-up takes the whole load")
                .mend("give a longer --duration, or a shorter --warm-up"));
        }
        Ok(duration)
    }

    /// The steps of the rate: each as long as it says, the last without a time to the end.
    pub(crate) fn phases(&self, duration: Duration) -> Result<Vec<Phase>> {
        let mut left = duration;
        let mut phases = Vec::new();
        for (n, step) in self.rate.iter().enumerate() {
            if step.time.is_none() && n + 1 < self.rate.len() {
                return Err(Error::new(format!("step {} of --rate says no time", n + 1))
                    .mend("write each as RATE:TIME; the last may go without"));
            }
            let time = step.time.unwrap_or(left);
            left = left.saturating_sub(time);
            phases.push(Phase {
                time,
                from: step.from,
                to: step.to,
            });
        }
        phases.retain(|phase| !phase.time.is_zero());
        if phases.iter().all(|phase| phase.from + phase.to == 0.0) {
            return Err(Error::new("a rate of 0 begins nothing").mend("give a higher --rate"));
        }
        Ok(phases)
    }

    pub(crate) fn arrivals(&self) -> Arrivals {
        if self.poisson {
            Arrivals::Poisson
        } else {
            Arrivals::Even
        }
    }

    /// Reads the files that the load needs.
    pub(crate) fn plan(&self, duration: Duration) -> Result<Plan> {
        if self.driver.is_timed() && !self.think.is_zero() {
            return Err(
                Error::new("nobody thinks where a log says when requests begin")
                    .mend("leave --think out, or say --as-fast-as-possible"),
            );
        }
        let mut plan = self.driver.plan(&Common {
            url: self.url.as_deref(),
            content: self.content()?,
            think: self.think,
            // Not the same chance that decides on arrivals.
            seed: !self.seed,
            has_rate: !self.rate.is_empty(),
        })?;
        plan.say_what_is_cut(duration);
        Ok(plan)
    }

    /// A request of the URL, as the options have it.
    pub(crate) fn content_of_url(&self) -> Result<Content> {
        let url = self.url.as_deref().expect("it is required with no list");
        Ok(self.content()?.of(&target::url(url)?))
    }

    /// What is the same in all requests.
    fn content(&self) -> Result<Content> {
        let body = self.body.as_ref().map(|path| {
            std::fs::read(path).map_err(|e| Error::io(format!("cannot read {}", path.display()), e))
        });
        let range = self
            .range
            .iter()
            .map(|range| ("Range".to_owned(), format!("bytes={range}")));
        let headers = self.header.iter().cloned().chain(range).collect();
        Ok(Content {
            method: self.method.clone(),
            headers,
            version: self.http.http,
            body: body.transpose()?,
            ..Content::get(&Uri::from_static("/"))
        })
    }
}

#[cfg(test)]
mod tests;
