//! A server of several processes, on a link of the daemon: one accepts, and gives each connection to the worker that its first
//! line names. What the client says of itself stays together in one process, whichever connection it says it on.
//!
//! `exos daemon` must run. `cargo build -p exos --example prefork`, then `target/debug/examples/prefork`, as any user whom the
//! daemon's policy lets have port 7; `nc ADDRESS 7` several times, with a name as the first line. The answer is the worker's
//! process and then whatever was said.
//!
//! Each process has a link and a stack of its own. The acceptor leaves the line unread, so the worker gets it with the connection.
//! A worker that has died, or does not answer, is left out; a connection that cannot go to a worker otherwise, as while the daemon
//! is away, is dropped. When the acceptor ends, by a signal, the workers go on until their clients have finished.

use std::collections::{HashMap, hash_map::Entry};
use std::env;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use exos::net::{Events, Interest, Net, Poll, TcpListener, TcpStream, Token, Trigger};
use exos::{Daemon, Role, signals::Signals};

type Error = Box<dyn std::error::Error + Send + Sync>;

const PORT: u16 = 7;
const WORKERS: usize = 3;

/// A worker that is silent for longer is left out: it is stopped, say.
const PATIENCE: Duration = Duration::from_secs(10);

/// Of a longer first line only the beginning counts.
const LINE_MAX: usize = 100;

/// Set for a worker, whose standard input is the acceptor's socket.
const WORKER: &str = "PREFORK_WORKER";

fn main() -> Result<(), Error> {
    run()
}

/// The acceptor, or one of the workers that it starts.
pub fn run() -> Result<(), Error> {
    let attach = || Net::attach(Daemon::new(Role::Connect(Vec::new())));
    if env::var_os(WORKER).is_some() {
        let acceptor = io::stdin().as_fd().try_clone_to_owned()?;
        return work(&attach()?, &UnixStream::from(acceptor));
    }
    let workers: io::Result<Vec<UnixStream>> = (0..WORKERS).map(|_| start_worker()).collect();
    accept(&attach()?, workers?)
}

/// Starts this program once more, and gives its end of a socket.
fn start_worker() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(PATIENCE))?;
    Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(WORKER, "yes")
        .stdin(OwnedFd::from(theirs))
        .spawn()?;
    Ok(ours)
}

/// Accepts until a signal comes.
fn accept(net: &Net, mut workers: Vec<UnixStream>) -> Result<(), Error> {
    const LISTENER: Token = Token(usize::MAX);
    const SIGNAL: Token = Token(usize::MAX - 1);
    let signals = Signals::catch()?;
    let listener = TcpListener::bind(net, ("0.0.0.0", PORT))?;
    listener.set_nonblocking(true)?;
    let poll = Poll::new(net)?;
    poll.register(&listener, LISTENER, Interest::READABLE, Trigger::Level)?;
    poll.register_fd(signals.fd(), SIGNAL, Interest::READABLE, Trigger::Level)?;
    println!("port {PORT}");
    let (mut unknown, mut count) = (HashMap::new(), 0);
    let mut events = Events::default();
    while !signals.stop_requested() {
        poll.wait(&mut events, None)?;
        for event in events.iter() {
            if event.token == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    count += 1;
                    stream.set_nonblocking(true)?;
                    poll.register(&stream, Token(count), Interest::READABLE, Trigger::Edge)?;
                    unknown.insert(Token(count), stream);
                }
            } else if let Entry::Occupied(stream) = unknown.entry(event.token) {
                match first_line(stream.get()) {
                    FirstLine::Unfinished => {}
                    FirstLine::Never => drop(stream.remove()),
                    FirstLine::Hash(name) => give(stream.remove(), name, &mut workers)?,
                }
            }
        }
    }
    Ok(())
}

/// What is known of a connection's first line.
enum FirstLine {
    Hash(u64),
    Unfinished,
    /// The peer has gone, or has finished before it.
    Never,
}

/// Looks at the first line, and leaves it unread.
fn first_line(stream: &TcpStream) -> FirstLine {
    let mut line = [0; LINE_MAX];
    let known = match stream.peek(&mut line) {
        Ok(0) => return FirstLine::Never,
        Ok(known) => known,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return FirstLine::Unfinished,
        Err(_) => return FirstLine::Never,
    };
    let end = line[..known].iter().position(|byte| *byte == b'\n');
    match end.or((known == LINE_MAX).then_some(LINE_MAX)) {
        Some(end) => {
            let hasher = BuildHasherDefault::<DefaultHasher>::default();
            FirstLine::Hash(hasher.hash_one(&line[..end]))
        }
        None => FirstLine::Unfinished,
    }
}

/// Hands a connection to its worker, or to the next where that one is no more.
fn give(mut stream: TcpStream, name: u64, workers: &mut Vec<UnixStream>) -> Result<(), Error> {
    while !workers.is_empty() {
        let worker = (name % workers.len() as u64) as usize;
        let Err(not) = stream.hand_over(&workers[worker]) else {
            return Ok(());
        };
        match not.error.kind() {
            // The peer has gone meanwhile.
            ErrorKind::NotConnected => return Ok(()),
            // By its socket no connection can go any more.
            ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            | ErrorKind::TimedOut
            | ErrorKind::InvalidData => {
                eprintln!("worker {worker} is left out: {}", not.error);
                workers.remove(worker);
                stream = not.stream;
            }
            _ => {
                eprintln!("a connection is dropped: {}", not.error);
                return Ok(());
            }
        }
    }
    Err("no worker is left".into())
}

/// A client of a worker's, and what is to be sent to it.
struct Client {
    stream: TcpStream,
    unsent: Vec<u8>,
}

/// Serves what the acceptor gives, until that one has ended and all clients have finished.
fn work(net: &Net, acceptor: &UnixStream) -> Result<(), Error> {
    const ACCEPTOR: Token = Token(usize::MAX);
    let poll = Poll::new(net)?;
    poll.register_fd(
        acceptor.as_fd(),
        ACCEPTOR,
        Interest::READABLE,
        Trigger::Level,
    )?;
    let (mut clients, mut count, mut is_over) = (HashMap::new(), 0, false);
    let mut events = Events::default();
    while !is_over || !clients.is_empty() {
        poll.wait(&mut events, None)?;
        for event in events.iter() {
            if event.token != ACCEPTOR {
                let has_ended = clients.get_mut(&event.token).is_some_and(Client::serve);
                if has_ended {
                    clients.remove(&event.token);
                }
                continue;
            }
            match TcpStream::take_over(net, acceptor) {
                Ok(stream) => {
                    count += 1;
                    stream.set_nonblocking(true)?;
                    poll.register(&stream, Token(count), Interest::BOTH, Trigger::Edge)?;
                    let unsent = format!("worker {}\n", std::process::id()).into_bytes();
                    clients.insert(Token(count), Client { stream, unsent });
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe
                    ) =>
                {
                    is_over = true;
                    poll.deregister_fd(acceptor.as_fd())?;
                }
                // The acceptor has heard why, and has the connection.
                Err(error) => eprintln!("a connection is not taken: {error}"),
            }
        }
    }
    Ok(())
}

impl Client {
    /// Sends back what has come, as far as there is room; true when the peer has finished, or the connection is broken.
    fn serve(&mut self) -> bool {
        loop {
            let moved = match self.unsent.is_empty() {
                true => {
                    self.unsent.resize(16 << 10, 0);
                    let read = self.stream.read(&mut self.unsent);
                    self.unsent.truncate(*read.as_ref().unwrap_or(&0));
                    read
                }
                false => {
                    let written = self.stream.write(&self.unsent);
                    self.unsent.drain(..*written.as_ref().unwrap_or(&0));
                    written
                }
            };
            match moved {
                Ok(0) => return true, // Dropped, it is finished behind what was written.
                Ok(_) => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
    }
}
