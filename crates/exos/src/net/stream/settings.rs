//! What a stream is set to, and what is known of it: addresses, time limits, options, fields of IP.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use exos_inet::tcp::{ConnectionId, Info, IpFields, Keepalive};

use super::TcpStream;

use crate::net::inner::Inner;

impl TcpStream {
    /// The peer's address and port.
    ///
    /// # Errors
    ///
    /// `NotConnected`: the connection is over.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self.0.net.borrow().connections[self.0.key()].is_over() {
            true => Err(ErrorKind::NotConnected.into()),
            false => Ok(self.0.peer),
        }
    }

    /// Ours.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.local)
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(Rc::clone(&self.0)))
    }

    /// Calls that would wait give `WouldBlock` instead.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.nonblocking.set(nonblocking);
        Ok(())
    }

    /// How long a read waits, after which it gives `WouldBlock`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no time at all.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.read_timeout.set(some_time(timeout)?);
        Ok(())
    }

    /// How long a write waits, after which it gives `WouldBlock`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no time at all.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.write_timeout.set(some_time(timeout)?);
        Ok(())
    }

    /// How long a read waits.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.read_timeout.get())
    }

    /// How long a write waits.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.write_timeout.get())
    }

    /// Off: less than a full segment waits while data is in flight (Nagle). On, the default here: it does not.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.nodelay.set(nodelay);
        self.command(|inner, id| {
            inner.exos.stack.tcp.set_nagle(id, !nodelay);
            inner.has_work();
        });
        Ok(())
    }

    /// Whether Nagle's algorithm is off.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.0.nodelay.get())
    }

    /// How many hops its packets may take (`IP_TTL`, `IPV6_UNICAST_HOPS`): 64 from the beginning.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for what is not 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let hop_limit = hop_limit(ttl)?;
        self.set_ip_fields(IpFields {
            hop_limit,
            ..self.0.ip.get()
        });
        Ok(())
    }

    /// How many hops its packets may take.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(self.0.ip.get().hop_limit.into())
    }

    /// The type-of-service byte, or traffic class, of its packets (`IP_TOS`, `IPV6_TCLASS`). The lower two bits, which are ECN's, are the stack's
    /// and change nothing.
    ///
    /// # Errors
    ///
    /// None; there to go with the others.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.set_ip_fields(IpFields {
            dscp: tos >> 2,
            ..self.0.ip.get()
        });
        Ok(())
    }

    /// The type-of-service byte, or traffic class, of its packets, without the bits of ECN.
    ///
    /// # Errors
    ///
    /// None; there to go with the others.
    pub fn tos(&self) -> io::Result<u8> {
        Ok(self.0.ip.get().dscp << 2)
    }

    fn set_ip_fields(&self, ip: IpFields) {
        self.0.ip.set(ip);
        self.command(|inner, id| inner.exos.stack.tcp.set_ip_fields(id, ip));
    }

    /// What its packets say by now: another process may have set it.
    pub(in crate::net) fn learn_ip_fields(&self) {
        self.command(|inner, id| {
            let connection = inner.exos.stack.tcp.connection(id);
            self.0
                .ip
                .set(connection.map_or_else(IpFields::default, |c| c.ip_fields()));
        });
    }

    /// How long dropping the socket waits for what was written to be acknowledged. With no time at all the connection is reset.
    /// `None`, the default: it does not wait, and the stack delivers in the background.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.0.linger.set(linger);
        Ok(())
    }

    /// How long dropping the socket waits.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.linger.get())
    }

    /// Ask a silent peer whether it is still there, or do not.
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) {
        self.command(|inner, id| inner.exos.stack.tcp.set_keepalive(id, keepalive));
    }

    /// Give the connection up when what was written stays unacknowledged for so long.
    pub fn set_user_timeout(&self, time: Option<Duration>) {
        self.command(|inner, id| inner.exos.stack.tcp.set_user_timeout(id, time));
    }

    /// Let this many bytes be received and not read, in place of as many as the path makes good use of.
    pub fn set_receive_buffer(&self, bytes: u32) {
        self.command(|inner, id| inner.exos.stack.tcp.set_receive_buffer(id, bytes));
    }

    fn command(&self, command: impl FnOnce(&mut Inner, ConnectionId)) {
        self.0.net.run(|inner| {
            let connection = &inner.connections[self.0.key()];
            if !connection.is_over() {
                let id = connection.id;
                command(inner, id);
            }
        });
    }

    /// What the stack knows of the connection, as Linux's `tcp_info`; `None` when it is over.
    pub fn info(&self) -> Option<Info> {
        let inner = self.0.net.borrow();
        let connection = &inner.connections[self.0.key()];
        let of_stack = inner.exos.stack.tcp.connection(connection.id);
        of_stack
            .filter(|_| !connection.is_over())
            .map(exos_inet::tcp::Connection::info)
    }

    /// The unhappy end of the connection, which is told once.
    ///
    /// # Errors
    ///
    /// None; as in `std`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.0.net.borrow().connections[self.0.key()].take_error())
    }
}

/// A number of hops that a program gives.
pub(in crate::net) fn hop_limit(ttl: u32) -> io::Result<u8> {
    match u8::try_from(ttl) {
        Ok(hops @ 1..) => Ok(hops),
        _ => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "a packet takes 1 to 255 hops",
        )),
    }
}

/// A timeout that is none is a mistake, as in `std`.
pub(in crate::net) fn some_time(timeout: Option<Duration>) -> io::Result<Option<Duration>> {
    if timeout == Some(Duration::ZERO) {
        let why = "a timeout of no time at all; None waits for ever";
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    Ok(timeout)
}
