//! Ports of ours on a link that a daemon lends. It gives a program only what comes to ports that it has claimed, so each
//! is claimed for connections to the server, and used again when its connection is over: the daemon is asked as often as
//! connections stand at once, not as often as they are opened.

use std::collections::VecDeque;
use std::net::SocketAddr;

use exos_inet::tcp::OpenError;

/// Ports that are tried before another is claimed: those whose connections began longest ago.
const TRIES: usize = 4;

/// Claimed ports.
#[derive(Debug, Default)]
pub struct Ports {
    /// The one that was used longest ago is the first.
    claimed: VecDeque<SocketAddr>,
    /// Why there are no more.
    shortage: Option<String>,
    is_told: bool,
}

impl Ports {
    /// Claims this many before they are needed, or as many as there are.
    pub fn prepare(&mut self, count: usize, mut claim: impl FnMut() -> Result<SocketAddr, String>) {
        while self.claimed.len() < count
            && let Ok(from) = claim()
        {
            self.claimed.push_back(from);
        }
    }

    /// Opens a connection from a port that is claimed, or claims another.
    ///
    /// # Errors
    ///
    /// All are in use and no other is to be had, or there is no room for a connection.
    pub fn open<Id>(
        &mut self,
        claim: impl FnOnce() -> Result<SocketAddr, String>,
        mut connect: impl FnMut(SocketAddr) -> Result<Id, OpenError>,
    ) -> Result<Id, OpenError> {
        if let Some(done) = self.reuse(TRIES, &mut connect) {
            return done;
        }
        let refusal = match claim() {
            Ok(from) => {
                self.claimed.push_back(from);
                return connect(from);
            }
            Err(refusal) => refusal,
        };
        if let Some(done) = self.reuse(self.claimed.len(), &mut connect) {
            return done;
        }
        self.shortage.get_or_insert(refusal);
        Err(OpenError::NoPort)
    }

    /// Tries this many; `None` when their connections stand.
    fn reuse<Id>(
        &mut self,
        tries: usize,
        connect: &mut impl FnMut(SocketAddr) -> Result<Id, OpenError>,
    ) -> Option<Result<Id, OpenError>> {
        for _ in 0..tries.min(self.claimed.len()) {
            self.claimed.rotate_left(1);
            let from = *self.claimed.back()?;
            match connect(from) {
                Err(OpenError::FlowTaken) => (),
                done => return Some(done),
            }
        }
        None
    }

    /// Why a request found no port, told once.
    pub fn poll_shortage(&mut self) -> Option<String> {
        let shortage = self.shortage.take().filter(|_| !self.is_told);
        self.is_told |= shortage.is_some();
        shortage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// A daemon that gives this many ports, and a stack with connections.
    #[derive(Default)]
    struct World {
        left: u16,
        open: RefCell<BTreeSet<u16>>,
    }

    impl World {
        fn open(&mut self, ports: &mut Ports) -> Result<u16, OpenError> {
            let left = &mut self.left;
            let claim = || {
                *left = left.checked_sub(1).ok_or("no more for you")?;
                Ok(SocketAddr::from(([10, 0, 0, 1], 1000 + *left)))
            };
            let open = &self.open;
            ports.open(claim, |from| {
                let is_new = open.borrow_mut().insert(from.port());
                is_new.then_some(from.port()).ok_or(OpenError::FlowTaken)
            })
        }
    }

    #[test]
    fn ports_are_used_again() {
        let mut ports = Ports::default();
        let mut world = World {
            left: 3,
            ..World::default()
        };
        for _ in 0..100 {
            let port = world.open(&mut ports).expect("the only one");
            assert_eq!(port, 1002);
            world.open.borrow_mut().clear();
        }
        assert_eq!((world.left, ports.poll_shortage()), (2, None));
    }

    #[test]
    fn ports_are_claimed_ahead() {
        let mut ports = Ports::default();
        let mut left = 3..8u16;
        let mut claim = || {
            let port = left.next().ok_or("no more for you")?;
            Ok(SocketAddr::from(([10, 0, 0, 1], port)))
        };
        ports.prepare(2, &mut claim);
        assert_eq!(ports.claimed.len(), 2);
        // What is refused is told of when it is needed.
        ports.prepare(9, &mut claim);
        assert_eq!((ports.claimed.len(), ports.poll_shortage()), (5, None));
    }

    #[test]
    fn a_refusal_is_told_once() {
        let mut ports = Ports::default();
        let mut world = World {
            left: 20,
            ..World::default()
        };
        for _ in 0..20 {
            world.open(&mut ports).expect("there are twenty");
        }
        for _ in 0..2 {
            assert_eq!(world.open(&mut ports), Err(OpenError::NoPort));
        }
        assert_eq!(ports.poll_shortage().as_deref(), Some("no more for you"));
        assert_eq!(world.open(&mut ports), Err(OpenError::NoPort));
        assert_eq!(ports.poll_shortage(), None);
        // Whichever is free is found.
        world.open.borrow_mut().remove(&1007);
        assert_eq!(world.open(&mut ports), Ok(1007));
    }
}
