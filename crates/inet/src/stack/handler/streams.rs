//! Messages of TCP connections: to a handler of the port, where there is one, and to the program.
//!
//! A handler is given what has come in order, message by message, when the program asks for news, and the program hears nothing of what was dealt
//! with. A message that the handler gives up is the program's with all that follows on the connection, until the program says that it has
//! answered ([`Stack::resume_handling`]): on a stream answers have to be in the order of what they answer.

use std::collections::HashSet;

use exos_buf::Buffer;

use crate::limits::{HANDLED_BYTES_MAX, HANDLED_REPLY_BYTES_MAX};
use crate::stack::handler::framing::{Framing, Next, StreamHandling};
use crate::stack::handler::{Handled, MessageHandler};
use crate::stack::state::Stack;
use crate::tcp::{ConnectionId, Event, EventSet};

impl Stack {
    /// All messages are the program's.
    pub fn stop_handling(&mut self) {
        self.handling.clear();
        self.streams.clear();
    }

    /// Has a handler deal with the messages of connections that peers open to a port of ours before the program hears of them: of at most
    /// [`HANDLED_BYTES_MAX`] bytes. What of them has not come yet [`readable`](crate::tcp::Tcp::readable) shows, too, so a program reads a
    /// connection only when it hears that it may. Messages that come with the end of the handshake are dealt with when the program is told
    /// `ACCEPTED`: a peer that it refuses then has been answered.
    ///
    /// In place of the handler before at this port. What was given up on a connection stays the program's until it [has
    /// answered](Self::resume_handling).
    ///
    /// Panics where a number has not 1, 2, 4 or 8 bytes, or does not end within such a message.
    pub fn handle_streams(
        &mut self,
        port: u16,
        framing: Framing,
        handler: Box<dyn MessageHandler>,
    ) {
        if let Framing::Length { at, bytes, .. } = framing {
            let end = usize::from(at) + usize::from(bytes);
            assert!(matches!(bytes, 1 | 2 | 4 | 8) && end <= HANDLED_BYTES_MAX);
        }
        if let Some(handling) = self.streams.iter_mut().find(|one| one.port == port) {
            (handling.framing, handling.handler) = (framing, handler);
            return;
        }
        self.streams.push(StreamHandling {
            port,
            framing,
            handler,
            given_up: HashSet::new(),
            reply: [0; HANDLED_BYTES_MAX],
        });
    }

    /// The program hears of all that comes on connections to a port, and of messages of which a part has come.
    pub fn stop_handling_streams(&mut self, port: u16) {
        let Some(at) = self.streams.iter().position(|one| one.port == port) else {
            return;
        };
        self.streams.remove(at);
        for id in self.tcp.connections_where(|flow| flow.local_port() == port) {
            self.tcp.tell_readable(id);
        }
    }

    /// The program has read and answered what was given up on a connection: what follows is the handler's again. True where that is given up,
    /// too, or is what the peer left of a message when it finished: then the program reads on, and no event says so.
    ///
    /// A program that answers sees to it itself that its answers do not pile up before a peer that takes none, as the handler's do not:
    /// while more than [`HANDLED_REPLY_BYTES_MAX`] bytes are [unacknowledged](crate::tcp::Connection::unacknowledged) it reads nothing, and
    /// goes on when `ACKNOWLEDGED` is told.
    pub fn resume_handling(&mut self, id: ConnectionId) -> bool {
        let Some(handling) = self.handling_of(id) else {
            return false;
        };
        self.streams[handling].given_up.remove(&id)
            && (!self.handle_stream(handling, id) || self.has_rest(id))
    }

    /// Something is to be read of a message without an end, of which nothing more comes.
    fn has_rest(&self, id: ConnectionId) -> bool {
        let connection = self.tcp.connection(id);
        let is_over = connection.is_some_and(|c| !c.state().can_receive());
        is_over && !self.tcp.readable(id).is_empty()
    }

    /// The next news that is the program's.
    pub(in crate::stack) fn next_unhandled(&mut self) -> Option<Event> {
        loop {
            let mut event = self.tcp.poll_event()?;
            self.handle_news(&mut event);
            if !event.set.is_empty() {
                return Some(event);
            }
        }
    }

    /// Takes out of the news what a handler has dealt with.
    fn handle_news(&mut self, event: &mut Event) {
        let id = event.connection;
        let Some(handling) = self.handling_of(id) else {
            return;
        };
        if event.set.contains(EventSet::CLOSED) {
            self.streams[handling].given_up.remove(&id);
        } else if event.set.contains(EventSet::READABLE) && self.handle_stream(handling, id) {
            event.set = event.set.without(EventSet::READABLE);
        }
        let is_over = [EventSet::FINISHED, EventSet::CLOSED].map(|end| event.set.contains(end));
        if is_over.contains(&true) && self.has_rest(id) {
            event.set = event.set.with(EventSet::READABLE);
        }
    }

    /// The handler of a connection that a peer opened, by its place.
    fn handling_of(&self, id: ConnectionId) -> Option<usize> {
        let connection = self.tcp.connection(id).filter(|c| !c.is_active())?;
        let port = connection.flow().local_port();
        let mut handlings = self.streams.iter();
        handlings.position(|handling| handling.port == port)
    }

    /// Has the handler deal with what has come. False where something is left that is the program's.
    fn handle_stream(&mut self, handling: usize, id: ConnectionId) -> bool {
        let handling = &mut self.streams[handling];
        if handling.given_up.contains(&id) {
            return false;
        }
        loop {
            let readable = self.tcp.readable(id);
            let length = match handling.framing.next(readable) {
                Next::Whole(length) => length,
                Next::Part => return true,
                Next::Other => break,
            };
            // A reply must not fail once the handler has done its work.
            if !self.tcp.takes_reply(id, HANDLED_REPLY_BYTES_MAX) {
                break;
            }
            let reply = &mut handling.reply;
            let handled = handling.handler.handle(&readable[..length], reply);
            match handled {
                Handled::GivenUp => {
                    self.counters.handler_gave_up += 1;
                    break;
                }
                Handled::Done => self.counters.handler_done += 1,
                Handled::Reply(_) => self.counters.handler_answered += 1,
            }
            self.tcp.consume(id, length);
            if let Handled::Reply(bytes) = handled {
                let reply = Buffer::from(handling.reply[..bytes].to_vec()).whole();
                let is_queued = self.tcp.send(id, reply);
                debug_assert!(is_queued, "there is room");
            }
        }
        handling.given_up.insert(id);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_their_framing_says() {
        let line = |bytes: &[u8]| Framing::Line.next(bytes);
        assert_eq!(line(b""), Next::Part);
        assert_eq!(line(b"get a\r"), Next::Part);
        assert_eq!(line(b"get a\r\nget b"), Next::Whole(7));
        assert_eq!(line(&[b'a'; HANDLED_BYTES_MAX - 1]), Next::Part);
        assert_eq!(line(&[b'a'; HANDLED_BYTES_MAX]), Next::Other);
        let framing = |bytes, more| Framing::Length { at: 1, bytes, more };
        let counted = framing(2, 3);
        assert_eq!(counted.next(&[9, 0]), Next::Part);
        assert_eq!(counted.next(&[9, 0, 1]), Next::Part);
        assert_eq!(counted.next(&[9, 0, 1, 7, 8]), Next::Whole(4));
        assert_eq!(counted.next(&[9, 0, 0, 7, 8]), Next::Whole(3));
        assert_eq!(counted.next(&[9, 0xff, 0xff]), Next::Other);
        let whole = framing(8, 0);
        assert_eq!(whole.next(&[9, 0, 0, 0, 0, 0, 0, 0, 8]), Next::Other);
        assert_eq!(whole.next(&[9, 0, 0, 0, 0, 0, 0, 0, 9]), Next::Whole(9));
        assert_eq!(framing(8, 9).next(&[0xff; 9]), Next::Other);
    }
}
