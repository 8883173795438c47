//! All shared sockets: their memory, what they are, and who hears of them.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use exos::net::{Interest, Token, Trigger};
use exos_preload::memory::{SOCKETS, Shared};

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

/// Whether an event is one of a shared socket, behind which a program may have more to say soon by the memory alone. What goes by Unix
/// sockets, and what programs ask for by calls that wait for an answer, is told by the kernel each time.
pub(crate) fn is_of_shared(token: usize) -> bool {
    let of_these = |first: usize| (first..first + SOCKETS).contains(&token);
    of_these(SHARED) || of_these(BY_LOOPBACK)
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::processes::PROCESS;

    #[test]
    fn events_of_shared_sockets_are_told_from_others() {
        let last = SOCKETS - 1;
        let shared = [SHARED, SHARED + last, BY_LOOPBACK, BY_LOOPBACK + last];
        assert!(shared.into_iter().all(is_of_shared));
        // Unix sockets, processes that end, and what the loop itself asks for.
        let others = [0, 1, SHARED - 1, PROCESS, BY_LOOPBACK - 1, usize::MAX];
        assert!(!others.into_iter().any(is_of_shared));
    }
}
