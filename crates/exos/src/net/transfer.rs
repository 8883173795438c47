//! What the calls of a [`TcpStream`](super::TcpStream) do to the stack: opening, reading, writing, finishing. Those that can have to
//! wait give `None` then.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use exos_buf::{Buffer, Slice};
use exos_inet::Instant;
use exos_inet::tcp::{Flow, Options};

use super::errors;
use super::inner::Inner;
use super::table::Connection;
use crate::clock;
use crate::limits::WRITE_PIECE;
use crate::node::Exos;

impl Inner {
    /// Begins to open a connection, and gives its number, and between whom it is.
    pub(super) fn open(
        &mut self,
        to: SocketAddr,
        from: Option<SocketAddr>,
        options: &Options,
    ) -> io::Result<(usize, Flow)> {
        let now: Instant = clock::now();
        let busy = |exos: &Exos, from| exos.stack.tcp.is_taken(&Flow::new(from, to));
        let lent = match from.filter(|from| from.port() != 0) {
            Some(_) => None,
            None => self.claims.source(&mut self.exos, to, busy)?,
        };
        let from = lent.map(|(_, from)| from).or(from);
        let opened = self.exos.stack.tcp.connect(now, from, to, options);
        let id = opened.map_err(|error| {
            if let Some((source, _)) = lent {
                self.claims.is_free(source);
            }
            errors::of_open(error)
        })?;
        let flow = *self
            .exos
            .stack
            .tcp
            .connection(id)
            .expect("it was just made")
            .flow();
        let mut connection = Connection::new(id, false);
        connection.source = lent.map(|(source, _)| source);
        let key = self.connections.insert(connection);
        self.exos.stack.tcp.set_token(id, key as u64 + 1);
        self.has_work();
        self.claims.trim(&mut self.exos);
        Ok((key, flow))
    }

    pub(super) fn read_with<R>(
        &mut self,
        key: usize,
        read: &mut Option<impl FnOnce(&[u8]) -> (usize, R)>,
    ) -> Option<io::Result<R>> {
        let (connection, tcp) = (&mut self.connections[key], &mut self.exos.stack.tcp);
        if connection.unread(tcp).is_empty()
            && let Err(error) = connection.end()?
        {
            return Some(Err(error));
        }
        let unread = connection.unread(tcp);
        let read = read.take().expect("it is read once");
        let (count, result) = read(unread);
        connection.consume(tcp, count);
        self.has_work();
        Some(Ok(result))
    }

    /// As [`read_with`](Self::read_with), once `least` bytes have come, or all that come.
    pub(super) fn read_least<R>(
        &mut self,
        key: usize,
        least: usize,
        read: &mut Option<impl FnOnce(&[u8]) -> (usize, R)>,
    ) -> Option<io::Result<R>> {
        let connection = &self.connections[key];
        let unread = connection.unread(&self.exos.stack.tcp).len();
        match (1..least).contains(&unread) && !connection.is_whole() {
            true => None,
            false => self.read_with(key, read),
        }
    }

    /// Sends a slice, all of it where there is room for anything.
    pub(super) fn send(
        &mut self,
        key: usize,
        slice: impl FnOnce() -> Slice,
    ) -> Option<io::Result<()>> {
        let room = self.connections[key].room(&self.exos.stack.tcp)?;
        Some(room.and_then(|_| self.queue(key, slice())))
    }

    /// Writes what there is room for.
    pub(super) fn write(
        &mut self,
        key: usize,
        many: &[&[u8]],
        wanted: usize,
    ) -> Option<io::Result<usize>> {
        let room = match self.connections[key].room(&self.exos.stack.tcp) {
            // Nothing fits everywhere.
            None if wanted == 0 => return Some(Ok(0)),
            room => room?,
        };
        Some(room.and_then(|room| {
            if wanted == 0 {
                return Ok(0);
            }
            let count = room.min(wanted).min(WRITE_PIECE);
            self.queue(key, gather(many, count).into())?;
            Ok(count)
        }))
    }

    fn queue(&mut self, key: usize, slice: Slice) -> io::Result<()> {
        self.has_work();
        let id = self.connections[key].id;
        match self.exos.stack.tcp.send(id, slice) {
            true => Ok(()),
            false => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    pub(super) fn finish(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        connection.writes = false;
        self.exos.stack.tcp.finish(connection.id);
        self.has_work();
    }
}

/// The first `count` bytes of many parts.
fn gather(many: &[&[u8]], count: usize) -> Buffer {
    if let [one] = many {
        return Buffer::from(&one[..count]);
    }
    let mut bytes = Vec::with_capacity(count);
    for part in many {
        bytes.extend_from_slice(&part[..part.len().min(count - bytes.len())]);
    }
    Buffer::from(bytes)
}
