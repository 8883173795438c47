//! The example `memcached`, as a server: with what it has the kernel answer, or alone.

use super::server::attached;
use crate::stage::helper::{Helper, say_ready};
use exos::requests::Requests;
use exos::signals::Signals;
use exos_host::{Error, Result};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

#[path = "../../../../crates/exos/examples/memcached/main.rs"]
#[allow(dead_code)] // Its `main`.
mod memcached;

pub(super) use memcached::PORT;

/// How often it tells the kernel's part that it is there.
const TURN: Duration = Duration::from_millis(500);

/// The server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CacheServer {
    /// Its address, which the kernel does not have.
    pub at: IpAddr,
    /// The kernel answers what it can.
    pub in_kernel: bool,
    /// Where the daemon listens that lends it its link; none of the interface itself.
    pub daemon: Option<PathBuf>,
}

/// What it measured of itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct CacheServed {
    /// Requests of connections that the kernel answered.
    pub connection_gets: u64,
}

impl Helper for CacheServer {
    const NAME: &'static str = "cache";
    type Measured = CacheServed;

    fn run(self) -> Result<CacheServed> {
        let signals = Signals::catch()?;
        let mut exos = attached((self.at, PORT), self.daemon)?;
        let failed = |error: Box<dyn std::error::Error>| Error::new(error.to_string());
        let mut server = memcached::Server::new(&mut exos).map_err(failed)?;
        if self.in_kernel {
            let refused = server.answer_in_kernel(&mut exos);
            if !refused.is_empty() {
                return Err(Error::new(refused.join("; ")));
            }
        }
        say_ready()?;
        while !signals.stop_requested() {
            exos.receive();
            server.answer(&mut exos).map_err(failed)?;
            exos.send()?;
            let until = exos.now() + TURN;
            exos.wait(Some(until), &[signals.fd()])?;
        }
        // What the cache was not told of yet the kernel's part says at its end.
        let mut ended = exos.answer_requests_here();
        exos.send()?;
        let untold = ended.iter_mut().flat_map(Requests::answered);
        let untold: u64 = untold.map(|one| one.count).sum();
        Ok(CacheServed {
            connection_gets: server.cache.connection_gets() + untold,
        })
    }
}
