//! A client on Linux's sockets that makes one round trip after the other and notes how long each took.

use super::options::ProgramArgs;
use crate::stage::print_measured;
use exos_host::{Error, Result, error::Context as _};
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Bytes of a request, and of its answer.
const MESSAGE_LEN: usize = 64;

/// Between two requests: far less than anybody can do, so that what is seen is the way and not the server.
const EVERY: Duration = Duration::from_micros(500);

/// An answer that has not come by then does not come.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// What the client saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Pinged {
    /// Round trips.
    pub round_trips: u64,
    /// Their time: the median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}

pub(super) fn run(args: &ProgramArgs) -> Result<()> {
    let to = args.to.ok_or(Error::new("round trips need --to"))?;
    let what = || format!("no round trip to {to}");
    let mut stream = TcpStream::connect_timeout(&to, ANSWER_TIME).context(what)?;
    stream.set_nodelay(true).context(what)?;
    stream.set_read_timeout(Some(ANSWER_TIME)).context(what)?;
    super::program::say_ready()?;
    let mut times = Vec::new();
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < args.seconds {
        let asked = Instant::now();
        stream.write_all(&[b'x'; MESSAGE_LEN]).context(what)?;
        stream.read_exact(&mut [0; MESSAGE_LEN]).context(what)?;
        times.push(asked.elapsed().as_secs_f64() * 1e6);
        std::thread::sleep(EVERY);
    }
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() as f64 * part) as usize).min(times.len() - 1)];
    let pinged = Pinged {
        round_trips: times.len() as u64,
        p50_us: at(0.5),
        p99_us: at(0.99),
    };
    print_measured(&pinged);
    Ok(())
}
