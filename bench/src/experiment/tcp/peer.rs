//! Linux's side: a sender, a receiver and a client on the kernel's sockets, in a process of its own so that
//! it can be placed in a namespace and on a core. What it measured is a line of JSON on standard output.
//!
//! Who listens measures: a receiver the bytes that came, a sender those that were acknowledged, from the moment
//! that all connections stand (and the warm-up is over) for so long as asked. Then it ends, which resets the
//! connections. Who connects only keeps the other busy until then. So in every comparison one and the same
//! program measures, whichever stack is at the other end.

use super::options::{PeerArgs, Role};
use crate::limits::{CONNECT_TIMEOUT, POLL_INTERVAL};
use crate::stage::{print_measured, say_ready};
use exos_host::{Error, Result, error::Context as _, tcp_info};
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes given to or taken from the kernel at once: more than that changes nothing.
const CHUNK_LEN: usize = 256 * 1024;

/// What a peer measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    /// How long it measured.
    pub seconds: f64,
    /// Each connection.
    pub flows: Vec<Flow>,
}

/// One connection, measured by Linux's side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Flow {
    /// The other side.
    pub peer: SocketAddr,
    /// Data bytes that came, or were acknowledged.
    pub bytes: u64,
    /// Segments that Linux sent again, from the connection's beginning.
    pub retransmitted_segments: u32,
    /// Timeouts of its retransmission timer, where the kernel tells.
    pub timeouts: Option<u16>,
}

/// Does as the command line says.
pub fn peer(args: &PeerArgs) -> Result<ExitCode> {
    match (args.listen, args.connect) {
        (Some(address), None) => {
            print_measured(&listen(args, address)?);
        }
        (None, Some(address)) => keep_busy(args, connect(args, address)?),
        _ => return Err(Error::new("a peer either listens or connects")),
    }
    Ok(ExitCode::SUCCESS)
}

fn listen(args: &PeerArgs, address: SocketAddr) -> Result<Measured> {
    let listener = TcpListener::bind(address).context(|| format!("cannot listen on {address}"))?;
    set_congestion(&listener, args)?;
    say_ready(args.ready.as_deref())?;
    let flows = (0..args.connections)
        .map(|_| accept(&listener, args.role))
        .collect::<Result<Vec<_>>>()?;
    std::thread::sleep(Duration::from_secs_f64(args.warmup));
    let before = flows
        .iter()
        .map(Worker::bytes)
        .collect::<Result<Vec<_>>>()?;
    let begin = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(args.seconds));
    let after = flows
        .iter()
        .map(Worker::bytes)
        .collect::<Result<Vec<_>>>()?;
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
fn connect(args: &PeerArgs, address: SocketAddr) -> Result<TcpStream> {
    let end = Instant::now() + CONNECT_TIMEOUT;
    loop {
        let family = if address.is_ipv4() {
            rustix::net::AddressFamily::INET
        } else {
            rustix::net::AddressFamily::INET6
        };
        let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None)
            .context(|| "cannot make a socket")?;
        // Before the handshake, as a listener's connections have it.
        set_congestion(&socket, args)?;
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

fn keep_busy(args: &PeerArgs, stream: TcpStream) {
    match args.role {
        Role::Send => send(stream),
        Role::Receive => receive(stream, &AtomicU64::new(0)),
    }
}

fn set_congestion(socket: impl std::os::fd::AsFd, args: &PeerArgs) -> Result<()> {
    let Some(name) = &args.congestion else {
        return Ok(());
    };
    sockopt::set_tcp_congestion(socket, name)
        .context(|| format!("this kernel has no congestion control {name} (modprobe tcp_{name}?)"))
}
