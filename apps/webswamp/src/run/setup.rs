//! What a load is to do, as far as the command line says it: made before anything is opened, so that mistakes show first.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use exos::{Error, clock};
use exos_host::kernel;
use exos_inet::Instant;

use crate::driver::replay::Extent;
use crate::driver::{Driver, Maker};
use crate::engine::{Engine, Shape};
use crate::http3::Quic;
use crate::limits::START_AHEAD;
use crate::moment;
use crate::options::{LoadArgs, ShowArgs, command_line};
use crate::report::{Effort, Generator, Live, Style};
use crate::request::Version;
use crate::schedule::{Beat, Phase, Schedule};
use crate::secured::{Sessions, Shares};
use crate::target::Target;
use exos_program::Idle;
use exos_tls::client::Client;

use super::course::Course;
use super::probe::Speaking;
use super::shown::Shown;
use super::worker::{Beginning, ServerRoute, Worker};

/// What is to be done, on all cores.
pub(crate) struct Setup {
    pub(super) target: Target,
    /// Speaks TLS with it.
    client: Option<Client>,
    version: Version,
    driver: Maker,
    duration: Duration,
    phases: Vec<Phase>,
    /// What there is of a log.
    log: Option<Extent>,
    /// The times of a log, and how fast they go by.
    beats: Option<(Arc<[Beat]>, f64)>,
    idle: Idle,
    /// On how many it is made; asked before a thread is on one of them.
    cores: u32,
}

impl Setup {
    pub(super) fn make(args: &LoadArgs) -> Result<Self, Error> {
        args.http
            .check(args.pipeline, args.early_finish, &args.header)?;
        let duration = args.duration()?;
        let plan = args.plan(duration)?;
        for note in &plan.notes {
            exos_program::info!("exos load: {note}");
        }
        let target = Target::find(&plan.url)?;
        let client = target
            .secured_host()
            .map(|host| args.tls.client(host, &[args.http.protocol()]));
        let client = client.transpose()?;
        let shares = args.tls_resume + args.tls_early;
        if client.is_none() && (args.tls.is_given() || shares > 0.0) {
            return Err(Error::new("no TLS is spoken with a server of scheme http")
                .mend("give a URL of scheme https, or leave --insecure, --cacert, --tls-name, --tls-suite, --tls-group, --tls-resume and --tls-early out"));
        }
        check_early(args, shares)?;
        if args.http.is_http3() {
            check_http3(args, client.is_some())?;
        }
        let phases = if plan.beats.is_none() && args.is_open() {
            args.phases(duration)?
        } else {
            Vec::new()
        };
        Ok(Self {
            target,
            client,
            version: args.http.http,
            driver: plan.driver,
            log: plan.log,
            beats: plan.beats,
            duration,
            phases,
            idle: args.idle(),
            cores: args.core_count(),
        })
    }

    /// What is to be spoken with the server.
    pub(super) fn speaking(&self) -> Speaking<'_> {
        Speaking {
            client: self.client.as_ref(),
            version: self.version,
        }
    }

    /// This setup with another driver.
    pub(super) fn with(self, driver: Maker) -> Self {
        Self { driver, ..self }
    }

    /// The driver of a core, made in its thread.
    pub(super) fn driver(&self, worker: &Worker<'_>) -> Box<dyn Driver> {
        (self.driver)(worker.part())
    }

    /// The begin of the load of a server, now or when it was said.
    pub(super) fn beginning(
        &self,
        args: &LoadArgs,
        server_routes: Vec<ServerRoute>,
        is_alone: bool,
    ) -> Beginning {
        let (now, unix_now) = (clock::now(), moment::unix_now());
        let soon = if is_alone { now } else { now + START_AHEAD };
        let start = args
            .start_at
            .map_or(soon, |at| moment::of_unix(now, unix_now, at).max(soon));
        Beginning {
            server_routes,
            start,
            unix_secs: unix_now + (start - now).as_secs_f64(),
        }
    }

    /// A core's part of it.
    pub(super) fn begin<'a>(
        &self,
        args: &LoadArgs,
        worker: Worker<'a>,
        driver: Box<dyn Driver>,
        beginning: &Beginning,
    ) -> Result<Course<'a>, Error> {
        let (start, part) = (beginning.start, worker.part());
        let behaviour = args.behaviour().part(part);
        let shape = self.shape(args, start, &worker);
        let measured_from = start + args.warm_up;
        let style = style(args.show, &worker);
        let seed = args.seed.wrapping_add(part.nth().into());
        let sessions = self.client.as_ref().filter(|_| !behaviour.is_http3);
        Ok(Course {
            sessions: sessions.map(|client| {
                Sessions::new(client, shares(args), seed).needing(args.http.needed())
            }),
            engine: Engine::new(behaviour, shape, driver, start, measured_from),
            start,
            until: start + self.duration,
            lasts_until: self.lasts_until(args, start),
            effort: Effort::start(start),
            // Who looks on keeps those waiting that run on the core too.
            idle: if worker.place.shares_core {
                Idle::Sleep
            } else {
                self.idle
            },
            generator: self.generator(args, beginning),
            live: Live::start(style, start, self.duration)?,
            shown: Shown::default(),
            worker,
        })
    }

    /// What speaks HTTP/3 on a core, where it is spoken: to this server, over this number of sockets, by which datagrams
    /// are not fragmented where it is said how long they may be found to be at most.
    pub(super) fn quic(
        &self,
        args: &LoadArgs,
        worker: &Worker<'_>,
        carried: (SocketAddr, usize, Option<u16>),
        now: Instant,
    ) -> Result<Option<Quic>, Error> {
        let Some(client) = self.client.as_ref().filter(|_| args.http.is_http3()) else {
            return Ok(None);
        };
        let seed = args.seed.wrapping_add(worker.part().nth().into());
        Quic::new(client, carried, (shares(args), seed), now).map(Some)
    }

    /// When a core's requests begin.
    fn shape(&self, args: &LoadArgs, start: Instant, worker: &Worker<'_>) -> Shape {
        let schedule = match &self.beats {
            Some((beats, speed)) => Schedule::replay(beats.clone(), *speed, start),
            None if args.is_open() => {
                let phases = self.phases.clone();
                Schedule::new(phases, args.arrivals(), args.seed, start)
            }
            None => return Shape::Closed,
        };
        let end = start + self.duration;
        Shape::Open(schedule.part(worker.part()).until(end))
    }

    /// Until when a rate lasts.
    fn lasts_until(&self, args: &LoadArgs, start: Instant) -> Option<Instant> {
        let time: Duration = self.phases.iter().map(|phase| phase.time).sum();
        let lasts = !self.phases.is_empty() && args.requests.is_none();
        lasts.then_some(start + time.min(self.duration))
    }

    /// Who makes it, before anything was made.
    fn generator(&self, args: &LoadArgs, beginning: &Beginning) -> Generator {
        Generator {
            url: self.target.url.to_string(),
            address: addresses(&beginning.server_routes),
            started_unix_secs: beginning.unix_secs,
            host: kernel::host_name(),
            command: command_line(std::env::args()),
            parameters: args.parameters(self.duration, self.idle, self.cores),
            log: self.log.clone(),
            responses: 0,
            busy_share: 0.0,
            processor_secs: 0.0,
            cores: Vec::new(),
        }
    }
}

/// The parts of all handshakes that are not to be full ones.
fn shares(args: &LoadArgs) -> Shares {
    Shares {
        resumed: args.tls_resume,
        early: args.tls_early,
    }
}

/// Refuses what handshakes cannot be, and what would send more with a hello than a request that changes nothing.
fn check_early(args: &LoadArgs, shares: f64) -> Result<(), Error> {
    if shares > 1.0 {
        return Err(
            Error::new("--tls-resume and --tls-early are more than all handshakes")
                .mend("give shares that come to 1 or less together; the rest are full handshakes"),
        );
    }
    if args.tls_early > 0.0 && args.pipeline > 1 {
        return Err(
            Error::new("with --pipeline the other requests would go as early data, too")
                .mend("leave --pipeline or --tls-early out"),
        );
    }
    Ok(())
}

/// Refuses what there is no HTTP/3 for.
fn check_http3(args: &LoadArgs, is_secured: bool) -> Result<(), Error> {
    if !is_secured {
        return Err(
            Error::new("HTTP/3 is spoken over TLS alone").mend("give a URL of scheme https")
        );
    }
    if !args.sockets && args.core_count() > 1 {
        return Err(Error::new(
            "over HTTP/3 a core of a server's answers by any queue of the interface, which a core of ours may not read",
        )
        .mend("load from one core (--cores 1, one --link), or over --sockets"));
    }
    Ok(())
}

/// The server's addresses that are loaded, each once.
fn addresses(server_routes: &[ServerRoute]) -> String {
    let mut all: Vec<String> = server_routes
        .iter()
        .map(|server_route| server_route.to.to_string())
        .collect();
    all.dedup();
    all.join(", ")
}

/// How the load is shown: by the first core alone.
fn style(show: ShowArgs, worker: &Worker<'_>) -> Style {
    if worker.is_first() {
        show.style(std::io::stderr().is_terminal())
    } else {
        Style::Nothing
    }
}
