//! Connections that go to another process, as they stand: [`TcpStream::hand_over`] and [`TcpStream::take_over`].
//!
//! Neither side trusts the other with more than the connection: what comes is judged like a packet, and the daemon decides whose
//! the packets are. The connection is on one stack at each moment. Which one, if something fails between, is decided by one byte:
//! the taker has it once it has written that it has; the giver keeps it unless it has read that.
//!
//! ```text
//! giver                                       daemon                      taker
//!   Narrow to the four-tuple, Share ────────────>
//!   (off the stack; segments are met with silence)
//!   connection, ticket ─────────────────────────────────────────────────────>
//!                                                <──────────── Import: it holds the grant, too
//!                                                              (judged, put into the stack)
//!   <────────────────────────────────────────────────────────────────── taken
//!   Release ────────────────────────────────────>  packets go to the taker
//!   gone ───────────────────────────────────────────────────────────────────>  its stack goes on
//!
//!   Withdraw ───────────────────────────────────>  where it was not taken: the giver holds the grant alone
//! ```

mod channel;
pub(super) mod gone;
pub(super) mod message;

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;

use exos_inet::tcp::{DetachedConnection, Flow, Reason};

use self::channel::Channel;
use self::message::{GONE, Head, TAKEN, refusal};
use super::claims;
use super::errors;
use super::inner::Inner;
use super::stack::Net;
use super::stream::TcpStream;
use super::table::Connection;
use crate::clock;
use crate::limits::HANDED_OVER_BYTES_MAX;
use crate::via::GrantId;

/// A connection that was not handed over: the stream goes on here.
#[derive(Debug)]
pub struct NotHandedOver {
    /// The connection. What has come and was not read, and what was written, is all there.
    pub stream: TcpStream,
    /// Why it is here still.
    pub error: io::Error,
}

impl std::fmt::Display for NotHandedOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the connection is not handed over: {}", self.error)
    }
}

impl std::error::Error for NotHandedOver {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<NotHandedOver> for io::Error {
    fn from(not: NotHandedOver) -> Self {
        not.error
    }
}

impl TcpStream {
    /// Gives the connection to the process at the other end of a Unix socket, which takes it by
    /// [`take_over`](Self::take_over): with what has come and was not read, and what was written and is not acknowledged. The peer
    /// notices nothing; what it sends meanwhile it sends again.
    ///
    /// Both processes have their links from one daemon, on the same interface, and may be different users'; or both stacks are
    /// cores of one program. Processes with links of their own have addresses of their own, so that one refuses what the other
    /// gives.
    ///
    /// Waits until the other process has the connection, while the stack runs, or for the Unix socket's read timeout. This
    /// process may end as soon as it returns.
    ///
    /// # Errors
    ///
    /// The stream is here still, and goes on. `ConnectionRefused`: the other process does not take it, for the reason that it
    /// says; the next may be sent by the same Unix socket. `TimedOut`, `BrokenPipe`, `UnexpectedEof`, `InvalidData`: it does not
    /// answer, or what is no answer; the Unix socket is shut down. `Other`: the daemon is away. `PermissionDenied`, `Unsupported`: the daemon refuses, as for a
    /// port that several programs share; the connection is to this stack itself. `NotConnected`: the connection does not stand. `InvalidInput`: it has clones, or
    /// [`HANDED_OVER_BYTES_MAX`] bytes are queued.
    pub fn hand_over(self, to: &UnixStream) -> Result<(), NotHandedOver> {
        match self.give_to(to) {
            Ok(()) => Ok(()),
            Err(error) => Err(NotHandedOver {
                stream: self,
                error,
            }),
        }
    }

    fn give_to(&self, to: &UnixStream) -> io::Result<()> {
        if !self.is_only_handle() {
            let why = "the stream has clones; drop them before it is handed over";
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        let (net, nodelay) = (self.net(), self.nodelay()?);
        let channel = Channel::new(net, to)?;
        let leaving = net.run(|inner| inner.detach(self.key(), nodelay))?;
        let given = channel.give(&leaving.message);
        net.run(|inner| match given {
            Ok(()) => inner.let_go(self.key(), &leaving),
            Err(_) => inner.take_back(self.key(), leaving),
        });
        given?;
        // Who has ended meanwhile needs no word.
        let _ = channel.send(&[GONE]);
        Ok(())
    }

    /// Takes a connection that the process at the other end of a Unix socket gives by [`hand_over`](Self::hand_over). It is
    /// blocking, without timeouts, as if it were accepted. It goes on at once, whatever becomes of the giver. If this process
    /// dies without an end of its connections, their peers get resets for what they send then.
    ///
    /// Waits until one comes, while the stack runs, or for the Unix socket's read timeout. To wait for other things beside, have a
    /// [`Poll`](super::Poll) wait for the Unix socket first.
    ///
    /// # Errors
    ///
    /// The giver has the connection still, and hears why. `UnexpectedEof`, `BrokenPipe`: it has ended or given up; `TimedOut`:
    /// nothing comes; `InvalidData`: what comes is no connection. `AddrInUse`, `OutOfMemory`, `NetworkUnreachable`: the connection
    /// does not fit here. `PermissionDenied`: the daemon refuses, as what the giver has taken back; `Unsupported`: one of the two has its link from a daemon and the
    /// other has not.
    pub fn take_over(net: &Net, from: &UnixStream) -> io::Result<Self> {
        let channel = Channel::new(net, from)?;
        let (head, bytes) = channel.receive_connection().inspect_err(|error| {
            if error.kind() == ErrorKind::InvalidData {
                channel.close();
            }
        })?;
        let adopted = net.run(|inner| inner.adopt(&head, &bytes));
        let (key, flow) = adopted.inspect_err(|error| {
            let _ = channel.send(&refusal(&error.to_string()));
        })?;
        if let Err(error) = channel.send(&[TAKEN]) {
            net.run(|inner| inner.disown(key, &flow));
            return Err(error);
        }
        channel.await_letting_go();
        let stream = Self::of(net, key, &flow);
        stream.set_nodelay(head.settings.nodelay)?;
        stream.learn_ip_fields();
        Ok(stream)
    }
}

/// A connection off its stack, until it is known who has it.
pub(super) struct Leaving {
    detached: DetachedConnection,
    /// Of its packets, where a daemon lends the link.
    grant: Option<GrantId>,
    message: Vec<u8>,
}

impl Inner {
    /// Takes a connection off the stack, ready to be sent.
    fn detach(&mut self, key: usize, nodelay: bool) -> io::Result<Leaving> {
        let connection = &self.connections[key];
        let id = connection.id;
        let of_stack = self.exos.stack.tcp.connection(id);
        let standing = of_stack.filter(|c| !connection.is_over() && c.state().is_synchronized());
        let flow = *standing.ok_or(ErrorKind::NotConnected)?.flow();
        let settings = connection.settings(nodelay);
        if self.exos.stack.has_address(flow.remote().ip()) {
            let why =
                "both ends of the connection are of this stack, within which its packets stay";
            return Err(io::Error::new(ErrorKind::Unsupported, why));
        }
        let offered = match self.exos.via() {
            Some(via) => Some(via.offer(&flow).map_err(errors::of)?),
            None => None,
        };
        let Some(detached) = self.exos.stack.tcp.take_out(clock::now(), id) else {
            // It is over, and the program has only not heard of it.
            claims::give_back(&mut self.exos, offered.map(|(grant, _)| grant).as_slice());
            return Err(ErrorKind::NotConnected.into());
        };
        let bytes = detached.encode();
        let head = Head {
            ticket: offered.map(|(_, ticket)| ticket),
            settings,
            length: bytes.len() as u32,
        };
        let leaving = Leaving {
            detached,
            grant: offered.map(|(grant, _)| grant),
            message: [&head.encode()[..], &bytes].concat(),
        };
        if bytes.len() > HANDED_OVER_BYTES_MAX {
            self.take_back(key, leaving);
            let why = format!(
                "the connection has {} bytes queued, of which {HANDED_OVER_BYTES_MAX} can be handed over; let them be sent or read first",
                bytes.len()
            );
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        Ok(leaving)
    }

    /// Another process has the connection: its packets are to go there.
    fn let_go(&mut self, key: usize, leaving: &Leaving) {
        let connection = &mut self.connections[key];
        connection.closed(Reason::Done, &[]);
        let source = connection.source.take();
        let flow = *leaving.detached.flow();
        let Some(grant) = leaving.grant else {
            // They come to this core as before, which hands on what it does not know.
            return self.exos.stack.tcp.forget_taken_out(&flow);
        };
        self.claims.has_gone(&mut self.exos, grant, source);
        self.gone.add(flow);
    }

    /// Nobody else has the connection: it goes on here.
    fn take_back(&mut self, key: usize, leaving: Leaving) {
        let Leaving {
            detached, grant, ..
        } = leaving;
        let flow = *detached.flow();
        let put = self.exos.stack.tcp.put_in(clock::now(), detached);
        let connection = &mut self.connections[key];
        match put {
            Ok(id) => {
                connection.id = id;
                self.exos.stack.tcp.set_token(id, key as u64 + 1);
            }
            // There is no room any more, or the address has gone meanwhile.
            Err(_) => connection.closed(Reason::Aborted, &[]),
        }
        if let Some(grant) = grant {
            if let Some(via) = self.exos.via() {
                via.withdraw(grant);
            }
            match connection.source {
                Some(source) => self.claims.was_offered(source),
                None => connection.source = Some(self.claims.keep(&flow, grant)),
            }
        }
        self.has_work();
    }

    /// Puts a connection of another process into the stack. Gives its number, and between whom it is.
    fn adopt(&mut self, head: &Head, bytes: &[u8]) -> io::Result<(usize, Flow)> {
        let detached = DetachedConnection::decode(bytes)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        let flow = *detached.flow();
        let grant = match (head.ticket, self.exos.via()) {
            (Some(ticket), Some(via)) => Some(via.take(&flow, ticket).map_err(errors::of)?),
            (None, None) => None,
            _ => {
                let why = "one of the two processes has its link from a daemon, the other has not; attach both to one daemon";
                return Err(io::Error::new(ErrorKind::Unsupported, why));
            }
        };
        let put = self.exos.stack.tcp.put_in(clock::now(), detached);
        let id = put.map_err(|(error, _)| {
            claims::give_back(&mut self.exos, grant.as_slice());
            errors::of_open(error)
        })?;
        let mut connection = Connection::resumed(id, head.settings);
        connection.source = grant.map(|grant| self.claims.keep(&flow, grant));
        let key = self.connections.insert(connection);
        self.exos.stack.tcp.set_token(id, key as u64 + 1);
        self.has_work();
        Ok((key, flow))
    }

    /// The giver does not know that a connection was taken, and keeps it.
    fn disown(&mut self, key: usize, flow: &Flow) {
        let tcp = &mut self.exos.stack.tcp;
        drop(tcp.take_out(clock::now(), self.connections[key].id));
        tcp.forget_taken_out(flow);
        self.forget(key);
    }
}
