//! Letting connections in, and making room for them.
//!
//! Connections are divided by the standing of their users ([`CONNECTIONS`]). When those of a newcomer's standing are all
//! taken, one that holds nothing makes room for them, if there is one of their standing or below that has had its time
//! ([`SLOTLESS_TIME`]): first of the least standing, and of these anyone who has said nothing for longest. So who wants to
//! attach gets in after a while, however many have connected and do not. Nobody is turned away without a word, but
//! for those who have too many themselves.
//!
//! A daemon that has just started has nobody connected, and slots whose programs are about to come back. For each of
//! these a connection is kept free for its user, no matter who comes first.

use std::os::fd::{AsFd as _, OwnedFd};

use exos_host::peer::Peer;
use exos_xok::limits::MESSAGE_BYTES_MAX;
use exos_xok::message::{Farewell, Notice};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::closing::Next;
use super::{Connection, ConnectionId, Cut, Server};
use crate::clock::Now;
use crate::limits::{
    ACCEPT_PAUSE, CONNECTIONS, CONNECTIONS_UNNAMED_MAX, NEWCOMERS_TIME, SLOTLESS_TIME,
};
use crate::policy::Who;
use crate::pool::Standing;

/// What is known of connections elsewhere.
pub trait Guests {
    /// How well the policy knows somebody.
    fn standing(&self, who: &Who) -> Standing;
    /// How many connections a user may have; of one whose groups are not known yet, at most.
    fn connections_max(&self, uid: u32, groups: Option<&[u32]>) -> usize;
    /// Whether a connection has what others depend on: a slot, or packets that it is shown.
    fn holds(&self, id: ConnectionId) -> bool;
    /// Users whose programs have not come back to their slots yet.
    fn awaited(&self) -> Vec<Awaited>;
}

/// A user whose programs are awaited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Awaited {
    /// The user.
    pub uid: u32,
    /// How well the policy knows them.
    pub standing: Standing,
    /// Slots whose programs have not come back.
    pub away: usize,
    /// Slots whose programs are connected.
    pub present: usize,
}

impl Server {
    /// Lets in anyone who waits, as long as a turn lasts by this clock: who connects again and again must not keep us here.
    pub fn accept(&mut self, clock: impl Fn() -> Now, guests: &impl Guests) {
        self.closing.go_on();
        let mut now = clock();
        let until = now + NEWCOMERS_TIME;
        while now < until {
            match self.accept_one() {
                Ok(socket) => self.welcome(socket, now, guests),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // Newcomers stay in the queue, and asking for them at once again would be all that is done.
                    self.full_until = now + ACCEPT_PAUSE;
                    break;
                }
                Err(_) => break,
            }
            now = clock();
        }
    }

    /// The next in the queue, when there is a descriptor for its process, too: anyone who is taken out of the queue cannot be
    /// put back.
    fn accept_one(&self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let _place = rustix::io::fcntl_dupfd_cloexec(&self.listener, 0)?;
        rustix::net::accept_with(&self.listener, flags)
    }

    fn welcome(&mut self, socket: OwnedFd, now: Now, guests: &impl Guests) {
        // Anyone who has too many is turned away for little.
        let uid = socket_peercred(&socket).map(|c| c.uid.as_raw());
        let of_user = self.connections.values().map(|c| c.peer.uid);
        let of_user = of_user.filter(|user| uid == Ok(*user)).count();
        if uid.is_ok_and(|uid| of_user >= guests.connections_max(uid, None)) {
            self.count(Cut::TooMany);
            self.closing.close(socket);
            return;
        }
        let Ok(peer) = Peer::of(&socket) else {
            self.closing.close(socket);
            return; // It has gone again.
        };
        let mut connection = Connection::new(socket, peer, now);
        connection.standing = guests.standing(&connection.who());
        let unnamed = connection.standing == Standing::Unnamed;
        let peer = &connection.peer;
        let too_many = of_user >= guests.connections_max(peer.uid, Some(&peer.groups))
            || unnamed && of_user >= CONNECTIONS_UNNAMED_MAX;
        if too_many || !self.has_room(&connection, now, guests) {
            self.count(Cut::TooMany);
            turn_away(&connection, self.closing.next(&connection.socket));
            self.closing.close(connection.socket);
            return;
        }
        self.last += 1;
        self.connections.insert(self.last, connection);
    }

    /// Whether a newcomer finds room, which is made when it can be.
    fn has_room(&mut self, newcomer: &Connection, now: Now, guests: &impl Guests) -> bool {
        let standing = newcomer.standing;
        let kept = self.kept_free(newcomer.peer.uid, guests);
        if self.is_free(standing, &kept) {
            return true;
        }
        let idle = |(id, c): &(&ConnectionId, &Connection)| {
            let has_had_its_time = now.saturating_sub(c.since) >= SLOTLESS_TIME;
            c.standing <= standing && has_had_its_time && !guests.holds(**id)
        };
        let idle = self.connections.iter().filter(idle);
        let Some((id, _)) = idle.min_by_key(|(_, c)| (c.standing, c.heard)) else {
            return false;
        };
        let id = *id;
        let goodbye = Notice::Goodbye(Farewell::Full).encode();
        self.say(id, goodbye, Vec::new());
        self.cut(id, Cut::MadeRoom);
        // It was one too many at most: whose room it is, is looked at for each newcomer.
        self.is_free(standing, &kept)
    }

    fn is_free(&self, standing: Standing, kept: &[(Standing, usize)]) -> bool {
        let taken = self.connections.values().map(|c| (c.standing, 1));
        let taken = taken.chain(kept.iter().copied());
        CONNECTIONS.check(standing, "connections", taken).is_ok()
    }

    /// Connections that others than this user find free when their programs come back. What a user has beside their slots
    /// they have of these.
    fn kept_free(&self, uid: u32, guests: &impl Guests) -> Vec<(Standing, usize)> {
        let others = guests.awaited().into_iter().filter(|user| user.uid != uid);
        let kept = others.map(|user| {
            let connections = self.connections.values();
            let has = connections.filter(|c| c.peer.uid == user.uid).count();
            let beside = has.saturating_sub(user.present);
            (user.standing, user.away.saturating_sub(beside))
        });
        kept.collect()
    }

    /// Looks again how well the policy knows everybody.
    pub fn set_standings(&mut self, standing: impl Fn(&Who) -> Standing) {
        for connection in self.connections.values_mut() {
            connection.standing = standing(&connection.who());
        }
    }
}

/// Says why. What it has said already is taken first: closed over that, a socket tells its peer of an error before all else.
fn turn_away(connection: &Connection, next: Next) {
    let socket = connection.socket.as_fd();
    if next == Next::Plain {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let _ = rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT);
    }
    let goodbye = Notice::Goodbye(Farewell::Full).encode();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = rustix::net::send(socket, &goodbye, flags);
}
