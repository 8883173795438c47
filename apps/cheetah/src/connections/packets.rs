//! Connections on a stack of the program's own.

use std::net::{IpAddr, SocketAddr};

use exos_buf::Slice;
use exos_inet::Stack;
use exos_inet::tcp::{Connection, ConnectionId, Event};

use super::transport::{Abort, Transport};
use super::without::Without;

/// A stack for the time of a turn.
pub struct Packets<'a> {
    stack: &'a mut Stack,
    /// What is measured without something.
    without: Option<&'a mut Without>,
    /// The stack's word for connections that are not of clients, and who hears of those.
    others: Option<(u64, &'a mut Vec<Event>)>,
}

impl<'a> Packets<'a> {
    /// With all that the server can do.
    pub fn new(stack: &'a mut Stack) -> Packets<'a> {
        Packets::without(stack, None)
    }

    /// Without some of it.
    pub fn without(stack: &'a mut Stack, without: Option<&'a mut Without>) -> Packets<'a> {
        Packets {
            stack,
            without,
            others: None,
        }
    }

    /// News of connections that the stack knows by this word are for others.
    #[must_use]
    pub(crate) fn but_for(self, others: Option<(u64, &'a mut Vec<Event>)>) -> Packets<'a> {
        Packets { others, ..self }
    }

    #[inline]
    fn poll_any(&mut self) -> Option<Event> {
        match &mut self.without {
            None => self.stack.poll_event(),
            Some(without) => without.poll_event(self.stack),
        }
    }
}

impl Transport for Packets<'_> {
    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        loop {
            let event = self.poll_any()?;
            match &mut self.others {
                Some((word, others)) if event.token == *word => others.push(event),
                _ => return Some(event),
            }
        }
    }

    fn peer(&self, id: ConnectionId) -> Option<IpAddr> {
        let connection = self.stack.tcp.connection(id);
        connection.map(|connection| connection.flow().remote().ip())
    }

    fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        let flow = self.stack.tcp.connection(id)?.flow();
        Some((flow.local(), flow.remote()))
    }

    fn is_from_kernel(&self, id: ConnectionId) -> bool {
        let connection = self.stack.tcp.connection(id);
        connection.is_some_and(Connection::is_taken_on)
    }

    #[inline]
    fn readable(&self, id: ConnectionId) -> &[u8] {
        self.stack.tcp.readable(id)
    }

    #[inline]
    fn consume(&mut self, id: ConnectionId, count: usize) {
        self.stack.tcp.consume(id, count);
    }

    #[inline]
    fn send(&mut self, id: ConnectionId, bytes: Slice) {
        let bytes = match &self.without {
            None => bytes,
            Some(without) => without.kept(bytes),
        };
        self.stack.tcp.send(id, bytes);
    }

    #[inline]
    fn unacknowledged(&self, id: ConnectionId) -> usize {
        let connection = self.stack.tcp.connection(id);
        connection.map_or(0, Connection::unacknowledged)
    }

    fn unsent(&self, id: ConnectionId) -> usize {
        let connection = self.stack.tcp.connection(id);
        connection.map_or(0, Connection::unsent)
    }

    fn finish(&mut self, id: ConnectionId) {
        match &mut self.without {
            None => self.stack.tcp.finish(id),
            Some(without) => without.finish(id, self.stack),
        }
    }

    fn discard_received(&mut self, id: ConnectionId) {
        self.stack.tcp.discard_received(id);
    }

    fn abort(&mut self, id: ConnectionId, _why: Abort) {
        self.stack.tcp.abort(id);
    }
}
