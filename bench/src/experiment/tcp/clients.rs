//! Clients of an echo service during a flood, on Linux's sockets: round trips on connections that stood before
//! it began, and new connections.
//!
//! Both at a steady rate, far below what a server can do: so that what is missing is what the flood has kept from
//! being served, and not what its sender has taken from the clients, with whom it shares a core.
//!
//! Time is divided into phases of equal length. The first part of each is not measured: there the flood is being
//! started or has not settled.

use crate::report::{figures, median};
use crate::stage::echo::{connect, round_trip, serve};
use crate::stage::helper::{Helper, say_ready};
use exos_host::{Result, error::Context as _};
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The clients, during all phases.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Clients {
    pub to: SocketAddr,
    pub phases: u32,
    /// How long a phase lasts.
    pub seconds: f64,
}

/// The echo service on Linux's sockets, until it is stopped: a thread for each connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Echo {
    pub at: SocketAddr,
}

/// Connections that stand before the flood.
const ESTABLISHED: usize = 8;

/// Between two round trips of one of them: 4,000 a second of all together.
const ROUND_TRIP_EVERY: Duration = Duration::from_millis(2);

/// Threads that open new connections.
const OPENING: usize = 8;

/// Between two new connections of one of them: 200 a second of all together.
const OPEN_EVERY: Duration = Duration::from_millis(40);

/// The part of a phase that is not measured, at its beginning.
const SETTLING: f64 = 0.3;

figures! {
    /// What the clients saw in one phase.
    #[derive(Default, Deserialize)]
    pub struct Phase {
        /// Round trips a second on the connections that stood before, of 4,000 tried.
        round_trips_per_sec: f64, "trips/s" 0;
        /// Their time: the median.
        round_trip_p50_us: f64, "p50 ms" 2 |r| r.round_trip_p50_us / 1000.0;
        /// New connections a second that were made and answered, of 200 tried.
        new_connections_per_sec: f64, "new/s" 0;
        /// How many that were.
        new_connections: u64;
        /// New connections that were not made and answered within four seconds.
        failed_connections: u64, "failed";
        /// From asking for a new connection to its answer: the median.
        new_connection_p50_us: f64, "new p50 ms" 2 |r| r.new_connection_p50_us / 1000.0;
    }
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

impl Helper for Clients {
    const NAME: &'static str = "clients";
    type Measured = Vec<Phase>;

    fn run(self) -> Result<Vec<Phase>> {
        let to = self.to;
        let mut standing = (0..ESTABLISHED)
            .map(|_| connect(to).context(|| format!("cannot connect to {to}")))
            .collect::<Result<Vec<_>>>()?;
        let shared = Shared {
            begin: Instant::now(),
            phase: Duration::from_secs_f64(self.seconds),
            counted: (0..self.phases).map(|_| Mutex::default()).collect(),
        };
        say_ready()?;
        std::thread::scope(|scope| {
            for stream in &mut standing {
                scope.spawn(|| round_trips(stream, &shared));
            }
            for _ in 0..OPENING {
                scope.spawn(|| new_connections(to, &shared));
            }
        });
        Ok(shared.counted.iter().map(|c| phase(c, &shared)).collect())
    }
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

impl Helper for Echo {
    const NAME: &'static str = "echo";
    type Measured = ();

    fn run(self) -> Result<()> {
        let at = self.at;
        let listener = TcpListener::bind(at).context(|| format!("cannot listen on {at}"))?;
        // The standard library asks for a backlog of 128 or so; during a flood the whole of it counts.
        rustix::net::listen(&listener, 4096).context(|| "cannot lengthen the backlog")?;
        say_ready()?;
        for stream in listener.incoming().flatten() {
            std::thread::spawn(|| serve(stream));
        }
        Ok(())
    }
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
