//! Clients of an echo service during a flood, on Linux's sockets: round trips on connections that stood before
//! it began, and new connections.
//!
//! Both at a steady rate, far below what a server can do: so that what is missing is what the flood has kept from
//! being served, and not what its sender has taken from the clients, with whom it shares a core.
//!
//! Time is divided into phases of equal length. The first part of each is not measured: there the flood is being
//! started or has not settled.

use super::options::RawArgs;
use crate::report::median;
use crate::stage::{print_measured, say_ready};
use exos_host::{Error, Result, error::Context as _};
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Connections that stand before the flood.
const ESTABLISHED: usize = 8;

/// Between two round trips of one of them: 4,000 a second of all together.
const ROUND_TRIP_EVERY: Duration = Duration::from_millis(2);

/// Threads that open new connections.
const OPENING: usize = 8;

/// Between two new connections of one of them: 200 a second of all together.
const OPEN_EVERY: Duration = Duration::from_millis(40);

/// Bytes of a round trip.
const MESSAGE_LEN: usize = 64;

/// A new connection that has not been made and answered by then has failed. Linux sends a SYN again after one
/// second, so one that was lost has this and another attempt.
const ATTEMPT_TIME: Duration = Duration::from_secs(4);

/// The part of a phase that is not measured, at its beginning.
pub(super) const SETTLING: f64 = 0.3;

/// What the clients saw in one phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Phase {
    /// Round trips a second on the connections that stood before, of 4,000 tried.
    pub round_trips_per_sec: f64,
    /// Their time: the median.
    pub round_trip_p50_us: f64,
    /// New connections a second that were made and answered, of 200 tried.
    pub new_connections_per_sec: f64,
    /// New connections that were.
    pub new_connections: u64,
    /// New connections that were not in time.
    pub failed_connections: u64,
    /// From asking for a new connection to its answer: the median.
    pub new_connection_p50_us: f64,
}

/// What is counted in a phase.
#[derive(Default)]
struct Counted {
    round_trips_us: Vec<f64>,
    failed: u64,
    connections_us: Vec<f64>,
}

struct Shared {
    begin: Instant,
    phase: Duration,
    counted: Vec<Mutex<Counted>>,
}

impl Shared {
    /// Counts in the phase of now; false when all are over.
    fn count(&self, what: impl FnOnce(&mut Counted)) -> bool {
        let passed = self.begin.elapsed().as_secs_f64() / self.phase.as_secs_f64();
        let Some(counted) = self.counted.get(passed as usize) else {
            return false;
        };
        if passed.fract() >= SETTLING {
            what(&mut counted.lock().expect("no thread panics with it"));
        }
        true
    }
}

/// Runs all phases; prints them as a line of JSON.
pub(super) fn run(args: &RawArgs) -> Result<()> {
    let to = args.to.ok_or(Error::new("the load needs --to"))?;
    let mut standing = (0..ESTABLISHED)
        .map(|_| connect(to).context(|| format!("cannot connect to {to}")))
        .collect::<Result<Vec<_>>>()?;
    let shared = Shared {
        begin: Instant::now(),
        phase: Duration::from_secs_f64(args.seconds),
        counted: (0..args.phases).map(|_| Mutex::default()).collect(),
    };
    say_ready(args.ready.as_deref())?;
    std::thread::scope(|scope| {
        for stream in &mut standing {
            scope.spawn(|| round_trips(stream, &shared));
        }
        for _ in 0..OPENING {
            scope.spawn(|| new_connections(to, &shared));
        }
    });
    let phases: Vec<Phase> = shared.counted.iter().map(|c| phase(c, &shared)).collect();
    print_measured(&phases);
    Ok(())
}

fn phase(counted: &Mutex<Counted>, shared: &Shared) -> Phase {
    let counted = counted.lock().expect("no thread panics with it");
    let secs = shared.phase.as_secs_f64() * (1.0 - SETTLING);
    let connections = counted.connections_us.len() as u64;
    Phase {
        round_trips_per_sec: counted.round_trips_us.len() as f64 / secs,
        round_trip_p50_us: middle(&counted.round_trips_us),
        new_connections_per_sec: connections as f64 / secs,
        new_connections: connections,
        failed_connections: counted.failed,
        new_connection_p50_us: middle(&counted.connections_us),
    }
}

fn middle(times: &[f64]) -> f64 {
    if times.is_empty() {
        0.0
    } else {
        median(times.to_vec())
    }
}

/// The echo service on Linux's sockets, until it is stopped: a thread for each connection.
pub(super) fn echo(args: &RawArgs) -> Result<()> {
    let to = args.to.ok_or(Error::new("the service needs --to"))?;
    let listener = TcpListener::bind(to).context(|| format!("cannot listen on {to}"))?;
    // The standard library asks for a backlog of 128 or so; during a flood the whole of it counts.
    rustix::net::listen(&listener, 4096).context(|| "cannot lengthen the backlog")?;
    say_ready(args.ready.as_deref())?;
    for stream in listener.incoming().flatten() {
        std::thread::spawn(|| serve(stream));
    }
    Ok(())
}

fn serve(mut stream: TcpStream) {
    let mut message = [0; 4096];
    let _ = stream.set_nodelay(true);
    while let Ok(read @ 1..) = stream.read(&mut message) {
        if stream.write_all(&message[..read]).is_err() {
            return;
        }
    }
}

fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, ATTEMPT_TIME)?;
    stream.set_read_timeout(Some(ATTEMPT_TIME))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn round_trip(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(&[b'x'; MESSAGE_LEN])?;
    stream.read_exact(&mut [0; MESSAGE_LEN])
}

fn round_trips(stream: &mut TcpStream, shared: &Shared) {
    let mut next = Instant::now();
    loop {
        let (begin, answered) = (Instant::now(), round_trip(stream));
        let took = begin.elapsed().as_secs_f64() * 1e6;
        // One that breaks stands still from then on, which the rate shows.
        if answered.is_err() || !shared.count(|c| c.round_trips_us.push(took)) {
            return;
        }
        next = pause(next, ROUND_TRIP_EVERY);
    }
}

fn new_connections(to: SocketAddr, shared: &Shared) {
    let mut next = Instant::now();
    loop {
        let begin = Instant::now();
        let answered = connect(to).and_then(|mut stream| round_trip(&mut stream));
        let took = begin.elapsed().as_secs_f64() * 1e6;
        let goes_on = shared.count(|c| match answered {
            Ok(()) => c.connections_us.push(took),
            Err(_) => c.failed += 1,
        });
        if !goes_on {
            return;
        }
        next = pause(next, OPEN_EVERY);
    }
}

/// Waits for the next time of a schedule. What was missed is not made up for.
fn pause(due: Instant, every: Duration) -> Instant {
    let now = Instant::now();
    let next = (due + every).max(now);
    std::thread::sleep(next - now);
    next
}
