//! A cache that speaks memcached's protocol on port 11211, UDP and TCP. The kernel answers a `get` where it arrives; this program does
//! everything else, and that too where the kernel cannot, which it says when it starts.
//!
//! `cargo build -p exos --example memcached`, then `target/debug/examples/memcached`, as any user whom `exos daemon` allows a port; without a
//! daemon `sudo target/debug/examples/memcached eth0 192.0.2.7/24` with a free address of the interface's network. From another machine:
//! `printf 'set greeting 0 0 5\r\nhello\r\nget greeting\r\n' | nc 192.0.2.7 11211`.
//!
//! It is memcached's classic text protocol (`doc/protocol.txt`), all commands but `gat`, `gats`, `verbosity` and those of its administration
//! (`stats` has no argument). The meta commands (`mg`, `ms` ...) are not among them. A value has up to 1 MiB, where memcached's limit is a
//! little less, and a command is answered with 2 MiB of values at most. Over UDP a forged source is answered, too, with as much: that is for
//! networks whose hosts are known.
//!
//! | file | what is in it |
//! |---|---|
//! | `cache`, `item` | the items, and which of them the kernel answers with |
//! | `answers`, `connections` | what the kernel answers over UDP, by a handler, and over TCP, as requests |
//! | `protocol`, `store`, `words` | commands, and their answers |
//!
//! The cache does nothing by itself but tell the kernel: datagrams and bytes of connections are given to it, with the time, and it says
//! what to answer. From tables that it keeps the kernel answers a `get` of one key ([`Cache::download`], [`Cache::answer_connections_in_kernel`]). All else comes to the program:
//! other commands, several keys or commands at once, keys that there are not, answers that are too long, and what expires within two seconds:
//! the kernel's part has no clock, and an item that expires is taken out before, where the program [says the time](Cache::tell_kernel).

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use exos::inet::tcp::ListenerId;
use exos::inet::udp::UdpHandle;
use exos::signals::Signals;
use exos::{
    Addresses, Buffer, ConnectionId, Daemon, EventSet, Exos, Interface, ListenOptions, Role,
};

pub(crate) mod answers;
pub(crate) mod cache;
mod connections;
pub(crate) mod item;
pub(crate) mod protocol;
mod store;
mod words;

use answers::Shape;
use cache::Cache;
use protocol::Session;

type Error = Box<dyn std::error::Error>;

/// Where it listens.
pub const PORT: u16 = 11211;
/// How often the kernel's part hears of the program at least.
const TURN: Duration = Duration::from_millis(500);
const BYTES_MAX: usize = 256 << 20;
/// What the kernel answers: 16,384 values of some 120 bytes. A veth's buffers have little more room than a request takes.
const IN_KERNEL: Shape = Shape {
    answers: 16_384,
    bytes: 160,
};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let mut exos = match (arguments.next(), arguments.next()) {
        (None, None) => Exos::attach(Daemon {
            datagrams: true,
            ..Daemon::new(Role::Serve(vec![PORT]))
        })?,
        (Some(interface), Some(address)) => {
            let ours = Addresses::new([address.parse()?])?;
            Exos::attach(Interface::new(interface, ours))?
        }
        _ => return Err("memcached [INTERFACE ADDRESS/LENGTH]".into()),
    };
    let signals = Signals::catch()?;
    let mut server = Server::new(&mut exos)?;
    for refused in server.answer_in_kernel(&mut exos) {
        eprintln!("{refused}");
    }
    while !signals.stop_requested() {
        exos.receive();
        server.answer(&mut exos)?;
        exos.send()?;
        let until = exos.now() + TURN;
        exos.wait(Some(until), &[signals.fd()])?;
    }
    exos.answer_requests_here();
    exos.send()?;
    Ok(())
}

/// The cache and whom it serves.
pub struct Server {
    /// What it keeps.
    pub cache: Cache,
    listener: ListenerId,
    datagrams: UdpHandle,
    sessions: HashMap<ConnectionId, Session>,
}

impl Server {
    /// Listens.
    pub fn new(exos: &mut Exos) -> Result<Self, Error> {
        let (tcp, options) = (&mut exos.stack.tcp, ListenOptions::default());
        Ok(Self {
            cache: Cache::new(BYTES_MAX),
            listener: tcp.listen(None, PORT, options)?,
            datagrams: exos.stack.udp.bind(None, PORT)?,
            sessions: HashMap::new(),
        })
    }

    /// Has the kernel answer what it can. Returns a line of each transport over which it does not, and this program answers alone.
    pub fn answer_in_kernel(&mut self, exos: &mut Exos) -> Vec<String> {
        let Self {
            cache, listener, ..
        } = self;
        let over_tcp = cache.answer_connections_in_kernel(exos, *listener, IN_KERNEL);
        let over_udp = cache.download(exos, PORT, IN_KERNEL);
        [("TCP", over_tcp), ("UDP", over_udp)]
            .into_iter()
            .filter_map(|(transport, answered)| {
                let why = answered.err()?;
                Some(format!(
                    "answered by this program over {transport}, since the kernel does not: {why}"
                ))
            })
            .collect()
    }

    /// Answers what has come.
    pub fn answer(&mut self, exos: &mut Exos) -> Result<(), Error> {
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        self.answer_datagrams(exos, seconds.as_secs())?;
        self.answer_connections(exos, seconds.as_secs());
        self.cache.tell_kernel(exos, seconds.as_secs());
        Ok(())
    }

    fn answer_datagrams(&mut self, exos: &mut Exos, seconds: u64) -> Result<(), Error> {
        while let Some(datagram) = exos.stack.udp.receive(self.datagrams)? {
            for answer in self.cache.handle_datagram(&datagram.payload, seconds) {
                let (now, socket) = (exos.now(), self.datagrams);
                let (from, payload) = (Some(datagram.to), Buffer::from(&answer[..]).into());
                if let Err(e) = exos
                    .stack
                    .udp_send(now, socket, from, datagram.from, payload)
                {
                    eprintln!("{e}"); // A stranger may say that it came from port 0: no reason to end.
                }
            }
        }
        Ok(())
    }

    fn answer_connections(&mut self, exos: &mut Exos, seconds: u64) {
        while let Some(event) = exos.stack.poll_event() {
            let (id, tcp) = (event.connection, &mut exos.stack.tcp);
            if event.set.contains(EventSet::READABLE) {
                let bytes = tcp.readable(id).to_vec();
                tcp.consume(id, bytes.len());
                let session = self.sessions.entry(id).or_default();
                let mut reply = session.handle(&mut self.cache, &bytes, seconds);
                loop {
                    let answer = &reply.bytes[..];
                    // A client that reads none of its answers is not waited for.
                    let is_taken = answer.is_empty() || tcp.send(id, Buffer::from(answer).into());
                    if reply.close || !is_taken {
                        session.close();
                        tcp.finish(id);
                        break;
                    }
                    if !reply.more {
                        break;
                    }
                    reply = session.handle(&mut self.cache, &[], seconds);
                }
            }
            if event.set.contains(EventSet::FINISHED) {
                tcp.finish(id);
            }
            if event.set.contains(EventSet::CLOSED) {
                self.sessions.remove(&id);
            }
        }
    }
}
