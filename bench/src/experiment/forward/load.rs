//! One load through a forwarder: client and server, what they saw, and what was used meanwhile.

use super::cell::Cell;
use super::contender::Contender;
use super::forwarding::Forwarding;
use super::network::{Host, Network, SERVER};
use super::outcome::{Run, Used};
use crate::stage::helper::Helping;
use crate::stage::packets::{BesideSettings, Visit};
use crate::stage::web::{Carried, Measured, Seen, WebLoad, WebStage, await_document, whole};
use crate::stage::{Started, cpu, link, scratch};
use exos_host::{Result, affinity};
use exos_lab::{INTERFACE, WireKind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Connections over which requests at a rate are spread: more than are under way at a time.
const RATE_CONNECTIONS: u32 = 16;

/// The part of a load that is watched, after it has begun and before it ends.
const WATCHED: f64 = 0.8;

/// On the offload wire the server is there all the time; on the plain one it is the client's own.
pub(super) fn serve(web: &WebStage, network: &Network, cell: Cell) -> Result<Option<Started>> {
    if network.wire == WireKind::Plain {
        return Ok(None);
    }
    let mut command = network.command(Host::Server, &web.program)?;
    command.args(["serve", "--sockets"]);
    command.arg(web.scratch.directory("documents")?);
    command.args(["--port", &SERVER.port().to_string()]);
    command.args(["--address", &format!("{}/24", SERVER.ip())]);
    let mut server = web.start_on("the server", command, &others(web, cell)?)?;
    web.await_address(&mut server)?;
    Ok(Some(server))
}

/// The cores that client and server have. Where the forwarder may have two they have the rest, or with a note all, if there is no
/// rest.
fn others(web: &WebStage, cell: Cell) -> Result<Vec<usize>> {
    let all = affinity::allowed()?;
    Ok(match &all[..] {
        _ if !cell.is_of_cores => vec![web.cores[1]],
        [_, _, rest @ ..] if !rest.is_empty() => rest.to_vec(),
        _ => {
            let cores = all.len();
            web.note(format!(
                "cores: there are {cores} cores, none of which is left for client and server when the forwarder has two: they share \
                 both with it, and two by one says what that leaves, not what two cores of its own do"
            ));
            all
        }
    })
}

/// Who loads a forwarder, and measures.
enum Client {
    Wrk(Started),
    Packets(Helping<Visit>),
}

/// Starts who forwards, and client and server where they are one; loads it, and stops it.
pub(super) fn run(web: &WebStage, network: &Network, cell: Cell, who: Contender) -> Result<Run> {
    let visits = (!cell.is_by_sockets())
        .then(|| Visits::start(web, network, cell, who))
        .transpose()?;
    let mut forwarding = who.start(web, network, cell)?;
    let client = match visits {
        Some(visits) => Client::Packets(visits.begin(web)?),
        None => {
            // The document comes through as it is. Our client looks at that itself, with each answer.
            let (client, at) = (network.netns(Host::Client), (who, who.address()));
            await_document(web, client, at, cell.size, || forwarding.check())?;
            Client::Wrk(start_wrk(web, network, cell, who)?)
        }
    };
    let before = Times::of(web, network, &forwarding)?;
    std::thread::sleep(Duration::from_secs_f64(WATCHED * web.seconds));
    let used = Times::of(web, network, &forwarding)?.since(&before);
    let seen = match client {
        Client::Wrk(client) => Seen::from(&Measured::read(
            &web.output_of(client, whole(web.seconds).into())?,
        )?),
        Client::Packets(client) => Seen::from(&client.measured(web, web.seconds)?),
    };
    if seen.requests == 0 {
        web.note(format!(
            "{who} forwarded not a single answer under load in {cell}"
        ));
    }
    forwarding.check()?;
    forwarding.stop()?;
    Ok(Run::new(&seen, &used))
}

fn start_wrk(web: &WebStage, network: &Network, cell: Cell, to: Contender) -> Result<Started> {
    let load = WebLoad {
        connections: web.connections,
        seconds: web.seconds,
        connection: cell.connection,
        at: to.address(),
        size: cell.size,
        log: None,
        resuming: None,
        carried: Carried::Http1,
    };
    let command = load.by_wrk(web, |program| network.command(Host::Client, program))?;
    web.start_on("wrk", command, &others(web, cell)?)
}

/// Client and server in one program, which waits until all is there.
struct Visits {
    client: Helping<Visit>,
    go: PathBuf,
}

impl Visits {
    fn start(web: &WebStage, network: &Network, cell: Cell, to: Contender) -> Result<Self> {
        let go = web.new_file("go");
        let server = (to.address(), network.mac(to.host())?);
        let mut visit = Visit::of(server, cell.connection, cell.size, web.seconds);
        visit.beside = Some(BesideSettings {
            netns: network.name(Host::Server).to_owned(),
            at: SERVER,
            go: go.clone(),
        });
        (visit.connections, visit.rate) = match cell.rate {
            Some(rate) => (RATE_CONNECTIONS, Some(rate.into())),
            None => (web.connections, None),
        };
        let command = network.command(Host::Client, &web.helpers)?;
        let mut client = web.begin(command, web.cores[1], &visit)?;
        web.await_said(&mut client.started, "listening")?;
        Ok(Self { client, go })
    }

    /// Has the client begin, and waits until it measures.
    fn begin(mut self, web: &WebStage) -> Result<Helping<Visit>> {
        scratch::write(&self.go, "")?;
        web.await_said(&mut self.client.started, "ready")?;
        Ok(self.client)
    }
}

/// What had been done at a moment.
struct Times {
    at: Instant,
    forwarder_us: f64,
    others: cpu::CoreTime,
    packets: u64,
}

impl Times {
    fn of(web: &WebStage, network: &Network, forwarding: &Forwarding<'_>) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            forwarder_us: forwarding.busy_us()?,
            others: cpu::of_core(web.cores[1])?,
            packets: link::received(network.netns(Host::Forwarder), INTERFACE)?,
        })
    }

    fn since(self, before: &Self) -> Used {
        Used {
            seconds: (self.at - before.at).as_secs_f64(),
            forwarder_us: self.forwarder_us - before.forwarder_us,
            others: self.others - before.others,
            packets: self.packets - before.packets,
        }
    }
}
