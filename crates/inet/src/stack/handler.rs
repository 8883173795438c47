//! What deals with messages before a program's sockets and events do: code of the program's that the stack runs as it takes messages in.
//! Datagrams (`datagrams`) and messages of connections (`streams`) each have handlers by their port.

mod framing;
mod streams;

use crate::limits::HANDLED_BYTES_MAX;

pub use framing::Framing;
pub(in crate::stack) use framing::StreamHandling;

/// Whether a datagram with this payload is for another of several stacks that have an address together.
pub type OfAnother = Box<dyn Fn(&[u8]) -> bool>;

/// What deals with the messages that come to a port.
pub trait MessageHandler {
    /// Deals with a message: the payload of a datagram, or a message of a connection. A reply is written to the beginning of `reply`, of
    /// which only as much leaves as is said.
    fn handle(&mut self, message: &[u8], reply: &mut [u8; HANDLED_BYTES_MAX]) -> Handled;
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// Nothing: it is the program's, as if there were no handler.
    GivenUp,
    /// It was dealt with.
    Done,
    /// It was dealt with, and a reply of this many bytes goes back to where it came from.
    Reply(usize),
}

/// A handler of datagrams, and its port.
pub(in crate::stack) struct Handling {
    pub(in crate::stack) port: u16,
    /// Room for a reply and its headers.
    pub(in crate::stack) frame: Vec<u8>,
    pub(in crate::stack) handler: Box<dyn MessageHandler>,
}
