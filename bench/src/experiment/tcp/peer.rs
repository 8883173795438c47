//! Linux's side: a sender, a receiver and a client on the kernel's sockets, in a process of its own so that
//! it can be placed in a namespace and on a core. What it measured is a line of JSON on standard output.
//!
//! Who listens measures: a receiver the bytes that came, a sender those that were acknowledged, from the moment
//! that all connections stand (and the warm-up is over) for as long as asked. Then it ends, which resets the
//! connections. Who connects only keeps the other busy until then. So in every comparison one and the same
//! program measures, whichever stack is at the other end.

use crate::limits::{CONNECT_TIMEOUT, POLL_INTERVAL};
use crate::stage::helper::{Helper, say_ready};
use exos_host::{Error, Result, error::Context as _, tcp_info};
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a side does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Send as fast as it is taken.
    Send,
    /// Receive as fast as it comes.
    Receive,
}

impl Role {
    /// What the other side does.
    pub const fn other(self) -> Self {
        match self {
            Self::Send => Self::Receive,
            Self::Receive => Self::Send,
        }
    }

    /// The program of ours that does it.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Send => "chargen",
            Self::Receive => "discard",
        }
    }
}

/// Listens, and measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Listener {
    pub role: Role,
    pub address: SocketAddr,
    /// The kernel's congestion control.
    pub congestion: String,
    /// Connections to wait for.
    pub connections: u32,
    /// Seconds from the last connection's beginning that are not measured.
    pub warmup: f64,
    /// Seconds to measure.
    pub seconds: f64,
}

/// Connects, and goes on until the other side ends it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Connector {
    pub role: Role,
    pub address: SocketAddr,
    /// The kernel's congestion control.
    pub congestion: String,
}

/// Bytes given to or taken from the kernel at once: more than that changes nothing.
const CHUNK_LEN: usize = 256 * 1024;

/// What a peer measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// How long it measured.
    pub seconds: f64,
    /// Each connection.
    pub flows: Vec<Flow>,
}

/// One connection, measured by Linux's side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Flow {
    /// The other side.
    pub peer: SocketAddr,
    /// Data bytes that came, or were acknowledged.
    pub bytes: u64,
    /// Segments that Linux sent again, from the connection's beginning.
    pub retransmitted_segments: u32,
    /// Timeouts of its retransmission timer, where the kernel tells.
    pub timeouts: Option<u16>,
}

impl Measured {
    /// Goodput of a connection.
    pub fn mbit_per_sec(&self, flow: usize) -> f64 {
        self.flows[flow].bytes as f64 * 8.0 / 1e6 / self.seconds
    }
}

impl Helper for Listener {
    const NAME: &'static str = "listener";
    type Measured = Measured;

    fn run(self) -> Result<Measured> {
        listen(&self)
    }
}

impl Helper for Connector {
    const NAME: &'static str = "connector";
    type Measured = ();

    fn run(self) -> Result<()> {
        let stream = connect(&self)?;
        match self.role {
            Role::Send => send(stream),
            Role::Receive => receive(stream, &AtomicU64::new(0)),
        }
        Ok(())
    }
}

fn listen(args: &Listener) -> Result<Measured> {
    let address = args.address;
    let listener = TcpListener::bind(address).context(|| format!("cannot listen on {address}"))?;
    set_congestion(&listener, &args.congestion)?;
    say_ready()?;
    let flows = (0..args.connections)
        .map(|_| accept(&listener, args.role))
        .collect::<Result<Vec<_>>>()?;
    std::thread::sleep(Duration::from_secs_f64(args.warmup));
    let bytes = || flows.iter().map(Worker::bytes).collect::<Result<Vec<_>>>();
    let (before, begin) = (bytes()?, Instant::now());
    std::thread::sleep(Duration::from_secs_f64(args.seconds));
    let after = bytes()?;
    let seconds = begin.elapsed().as_secs_f64();
    let flows = flows.iter().zip(before.iter().zip(&after));
    let flows = flows.map(|(flow, (before, after))| flow.measured(after - before));
    Ok(Measured {
        seconds,
        flows: flows.collect::<Result<_>>()?,
    })
}

/// A connection that a thread of its own keeps busy.
struct Worker {
    stream: TcpStream,
    role: Role,
    received: Arc<AtomicU64>,
}

impl Worker {
    fn start(stream: TcpStream, role: Role) -> Result<Self> {
        let theirs = stream.try_clone().context(|| "cannot share a socket")?;
        let received = Arc::new(AtomicU64::new(0));
        let count = received.clone();
        let work = move || match role {
            Role::Send => send(theirs),
            Role::Receive => receive(theirs, &count),
        };
        std::thread::Builder::new()
            .spawn(work)
            .context(|| "cannot start a thread")?;
        Ok(Self {
            stream,
            role,
            received,
        })
    }

    fn bytes(&self) -> Result<u64> {
        match self.role {
            Role::Receive => Ok(self.received.load(Ordering::Relaxed)),
            Role::Send => Ok(tcp_info::of(&self.stream)?.bytes_acked),
        }
    }

    fn measured(&self, bytes: u64) -> Result<Flow> {
        let info = tcp_info::of(&self.stream)?;
        Ok(Flow {
            peer: self
                .stream
                .peer_addr()
                .context(|| "the connection broke while it was measured")?,
            bytes,
            retransmitted_segments: info.retransmitted_segments,
            timeouts: info.timeouts,
        })
    }
}

fn accept(listener: &TcpListener, role: Role) -> Result<Worker> {
    let what = || "cannot take a connection".to_owned();
    listener.set_nonblocking(true).context(what)?;
    let end = Instant::now() + CONNECT_TIMEOUT;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).context(what)?;
                return Worker::start(stream, role);
            }
            Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(Error::io(what(), e)),
            Err(_) if Instant::now() > end => {
                return Err(Error::new("nobody connected in time"));
            }
            // Short, since the measurement begins when this is noticed.
            Err(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Until the other side ends the connection: that is how measurements end.
fn send(mut stream: TcpStream) {
    let chunk = vec![b'x'; CHUNK_LEN];
    while stream.write_all(&chunk).is_ok() {}
}

fn receive(mut stream: TcpStream, count: &AtomicU64) {
    let mut chunk = vec![0; CHUNK_LEN];
    while let Ok(read @ 1..) = stream.read(&mut chunk) {
        count.fetch_add(read as u64, Ordering::Relaxed);
    }
}

/// Tries until somebody listens there.
fn connect(args: &Connector) -> Result<TcpStream> {
    let address = args.address;
    let end = Instant::now() + CONNECT_TIMEOUT;
    loop {
        let (family, kind) = (
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
        );
        let socket = rustix::net::socket(family, kind, None).context(|| "cannot make a socket")?;
        // Before the handshake, as a listener's connections have it.
        set_congestion(&socket, &args.congestion)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(socket.into()),
            Err(_) if Instant::now() < end => std::thread::sleep(POLL_INTERVAL),
            Err(e) => {
                let source = std::io::Error::from(e);
                return Err(Error::io(format!("cannot connect to {address}"), source));
            }
        }
    }
}

fn set_congestion(socket: impl std::os::fd::AsFd, name: &str) -> Result<()> {
    sockopt::set_tcp_congestion(socket, name)
        .context(|| format!("this kernel has no congestion control {name} (modprobe tcp_{name}?)"))
}
