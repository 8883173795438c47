//! What was told of the neighbours, so that only what is new is told again.

use std::collections::HashMap;
use std::net::IpAddr;

use exos_wire::Mac;
use exos_xok::tables::{Neighbour, NeighbourState};

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// By address; none when it is to be told again, though it be the same.
    all: HashMap<IpAddr, Option<(Mac, NeighbourState)>>,
}

impl Reported {
    /// Somebody asks for this neighbour: the tables, which have less room than the stack, may not have it any more.
    pub(super) fn tell_again(&mut self, ip: IpAddr) {
        if let Some(reported) = self.all.get_mut(&ip) {
            *reported = None;
        }
    }

    /// Of all that are known now, those that are known otherwise than they were told; and those that are not any more.
    pub(super) fn news(&mut self, known: &[Neighbour]) -> (Vec<Neighbour>, Vec<IpAddr>) {
        let mut before = std::mem::take(&mut self.all);
        let mut new = Vec::new();
        for row in known {
            let now = Some((row.mac, row.state));
            if before.remove(&row.ip) != Some(now) {
                new.push(*row);
            }
            self.all.insert(row.ip, now);
        }
        (new, before.into_keys().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(last: u8, state: NeighbourState) -> Neighbour {
        Neighbour {
            interface: 3,
            ip: IpAddr::from([192, 0, 2, last]),
            mac: Mac([2, 0, 0, 0, 0, last]),
            state,
            confirmed_ns: 0,
        }
    }

    #[test]
    fn what_is_new_is_told_once_and_what_is_asked_for_again() {
        use NeighbourState::{Reachable, Stale};
        let mut reported = Reported::default();
        let (one, other) = (row(1, Reachable), row(2, Reachable));
        assert_eq!(reported.news(&[one, other]), (vec![one, other], vec![]));
        assert_eq!(reported.news(&[one, other]), (vec![], vec![]));
        let stale = row(2, Stale);
        assert_eq!(reported.news(&[one, stale]), (vec![stale], vec![]));
        reported.tell_again(one.ip);
        reported.tell_again(row(3, Stale).ip);
        assert_eq!(reported.news(&[one, stale]), (vec![one], vec![]));
        // Asked for, and forgotten before it was told again.
        reported.tell_again(one.ip);
        assert_eq!(reported.news(&[stale]), (vec![], vec![one.ip]));
        assert_eq!(reported.news(&[]), (vec![], vec![stale.ip]));
    }
}
