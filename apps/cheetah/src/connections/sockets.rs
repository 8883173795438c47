//! Connections on the kernel's sockets.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;

use exos_buf::Slice;
use exos_inet::tcp::{ConnectionId, Event};
use exos_program::sockets::{File, Sockets};

use super::transport::{Abort, Transport};
use crate::site::long::OpenFile;

impl Transport for Sockets {
    fn sends_files(&self, _id: ConnectionId) -> bool {
        true
    }

    fn poll_event(&mut self) -> Option<Event> {
        Sockets::poll_event(self)
    }

    fn peer(&self, id: ConnectionId) -> Option<IpAddr> {
        Sockets::peer(self, id)
    }

    fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        Sockets::ends(self, id)
    }

    fn readable(&self, id: ConnectionId) -> &[u8] {
        Sockets::readable(self, id)
    }

    fn consume(&mut self, id: ConnectionId, count: usize) {
        Sockets::consume(self, id, count);
    }

    fn send(&mut self, id: ConnectionId, bytes: Slice) {
        Sockets::send(self, id, bytes);
    }

    fn send_file(&mut self, id: ConnectionId, file: &Rc<OpenFile>, range: Range<u64>) {
        Sockets::send_file(self, id, file.clone(), range);
    }

    /// What the kernel has taken counts as taken by the client.
    fn unacknowledged(&self, id: ConnectionId) -> usize {
        self.unsent(id)
    }

    fn unsent(&self, id: ConnectionId) -> usize {
        Sockets::unsent(self, id)
    }

    fn finish(&mut self, id: ConnectionId) {
        Sockets::finish(self, id);
    }

    fn discard_received(&mut self, id: ConnectionId) {
        Sockets::discard_received(self, id);
    }

    fn abort(&mut self, id: ConnectionId, _why: Abort) {
        Sockets::abort(self, id);
    }
}

impl File for OpenFile {
    fn fd(&self) -> BorrowedFd<'_> {
        OpenFile::fd(self).as_fd()
    }

    fn is_unchanged(&self) -> bool {
        OpenFile::is_unchanged(self)
    }
}
