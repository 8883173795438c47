//! All shared sockets: their memory, what they are, and who hears of them.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use exos::net::{Interest, Token, Trigger};
use exos_preload::memory::Shared;

use super::entry::Kind;
use super::marks::Marks;
use super::news::News;
use super::table::Table;
use super::untouched::Templates;
use crate::context::Context;

/// Tokens from here on: shared sockets by their numbers, then what sharing needs.
pub(crate) const SHARED: usize = 1 << 40;

/// Tokens from here on: what comes by loopback for shared sockets for datagrams, by their numbers.
pub(super) const BY_LOOPBACK: usize = SHARED << 1;

pub(crate) struct SharedSockets {
    pub(super) memory: Rc<Shared>,
    pub(super) table: Table,
    pub(super) news: News,
    pub(super) marks: Marks,
    pub(super) templates: Templates,
    /// Connections that were opened without a look at the socket.
    pub(super) untouched: u64,
}

impl SharedSockets {
    pub fn new(memory: Rc<Shared>) -> Self {
        Self {
            table: Table::new(Rc::clone(&memory)),
            news: News::new(Rc::clone(&memory)),
            marks: Marks::default(),
            templates: Templates::default(),
            untouched: 0,
            memory,
        }
    }

    /// The users of sockets that listen there.
    pub fn listeners_at(&self, at: SocketAddr) -> impl Iterator<Item = u32> {
        self.table
            .iter()
            .filter_map(move |(_, entry)| match &entry.kind {
                Kind::Listening(listener) if entry.local == at => Some(listener.user),
                _ => None,
            })
    }

    /// Whether a shared socket has this port.
    pub fn has_port(&self, port: u16) -> bool {
        self.table
            .iter()
            .any(|(_, entry)| entry.local.port() == port)
    }

    /// Has a socket's news come as events.
    pub(super) fn wait_for(&mut self, cx: &Context, number: u32) -> io::Result<()> {
        let [token, by_loopback] = [SHARED, BY_LOOPBACK].map(|from| Token(from + number as usize));
        let (both, edge) = (Interest::BOTH, Trigger::Edge);
        match self.table.get_mut(number).map(|entry| &mut entry.kind) {
            Some(Kind::Listening(listener)) => listener.register(cx, token),
            Some(Kind::Datagrams(datagrams)) => match &mut datagrams.socket {
                Some(socket) => socket.register(cx, [token, by_loopback]),
                None => Ok(()),
            },
            Some(Kind::Connecting(stream, _)) => cx.poll.register(&*stream, token, both, edge),
            Some(Kind::Flowing(flowing)) => cx.poll.register(&flowing.stream, token, both, edge),
            Some(Kind::Kernels(..) | Kind::Failed | Kind::Unshared(_)) | None => Ok(()),
        }
    }
}
