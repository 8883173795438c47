//! The kernel's sockets as what carries a loop's connections: [`SocketServer`].

use std::os::fd::BorrowedFd;

use exos::{Error, clock};
use exos_inet::Instant;

use super::carried::Carried;
use crate::connections::Cheetah;
use crate::site::Change;
use crate::sockets::SocketServer;

impl Carried for SocketServer {
    fn cheetah(&self) -> &Cheetah {
        SocketServer::cheetah(self)
    }

    fn cheetah_mut(&mut self) -> &mut Cheetah {
        SocketServer::cheetah_mut(self)
    }

    fn now(&self) -> Instant {
        clock::now()
    }

    fn answer(&mut self, unix_secs: u64) {
        self.handle(clock::now(), unix_secs);
    }

    fn wait(&mut self, until: Option<Instant>, _fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let waited = SocketServer::wait(self, until);
        waited.map_err(|e| Error::io("cannot wait for connections", e))
    }

    fn watch(&self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let watched = SocketServer::watch(self, fd);
        watched.map_err(|e| Error::io("cannot wait for connections", e))
    }

    fn change(&mut self, site: usize, change: Change) {
        SocketServer::change(self, clock::now(), site, change);
    }

    fn retry_all(&mut self) {
        SocketServer::retry_all(self, clock::now());
    }

    fn stop(&mut self) {
        SocketServer::stop(self, clock::now());
    }

    fn describe(&self) -> String {
        "the kernel's sockets".to_owned()
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let counters = SocketServer::counters(self).into_iter();
        counters
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }
}
