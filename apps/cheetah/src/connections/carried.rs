//! What a core's loop asks of whatever carries its connections, in the order of a turn.

use std::os::fd::BorrowedFd;

use exos::Error;
use exos_inet::Instant;

use super::cheetah::Cheetah;
use crate::site::Change;

/// The server on what carries its connections: a stack of its own, or the kernel's sockets.
pub trait Carried {
    /// The server and its connections.
    fn cheetah(&self) -> &Cheetah;

    /// The server and its connections, to be told what they ask for.
    fn cheetah_mut(&mut self) -> &mut Cheetah;

    /// The time of this turn.
    fn now(&self) -> Instant;

    // A turn, in this order.

    /// Takes in what has come.
    fn receive(&mut self) {}

    /// Answers it.
    fn answer(&mut self, unix_secs: u64);

    /// Sends the answers.
    fn send(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Waits for something to do, until then; what comes on these descriptors ends it.
    fn wait(&mut self, until: Option<Instant>, fds: &[BorrowedFd<'_>]) -> Result<(), Error>;

    /// What comes on this descriptor ends each wait from now on, where a wait itself cannot be told.
    fn watch(&self, _fd: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(())
    }

    // Between turns.

    /// Changes what a site serves, by its number, and answers requests that waited for that.
    fn change(&mut self, site: usize, change: Change);

    /// Looks again for all that requests wait for, because everything is served again.
    fn retry_all(&mut self);

    // The end.

    /// Leaves connections that are still to begin to other processes that share the port. False where there are none.
    fn leave_to_others(&mut self) -> bool {
        false
    }

    /// Takes no new connections and no new requests.
    fn stop(&mut self);

    /// Resets those that are left, if they would not end by themselves.
    fn abort_all(&mut self) -> Result<(), Error> {
        Ok(())
    }

    // What it says of itself.

    /// What carries it, for people.
    fn describe(&self) -> String;

    /// Connections that are remembered in TIME-WAIT.
    fn time_wait(&self) -> usize {
        0
    }

    /// When the first certificate ends, in seconds since 1970.
    fn certificate_expires(&self) -> Option<i64> {
        None
    }

    /// What that counts, by name.
    fn counters(&self) -> Vec<(String, u64)>;
}
