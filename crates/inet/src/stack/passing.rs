//! Packets that pass through: a program that forwards them itself has the stack say where they go.
//!
//! Such a program looks at frames before the stack does, and gives it those that it does not forward: questions for
//! neighbours, echo requests, and what belongs to nobody. Routes, neighbours and the answers to strangers are
//! therefore those of every other program.

use std::net::IpAddr;

use exos_wire::Mac;

use crate::stack::output::NextHop;
use crate::stack::state::Stack;
use crate::time::Instant;

impl Stack {
    /// The link address to which packets to `to` go. `None` where that is not known yet, or no route leads there:
    /// [`Self::pass`] then. It is to be asked for each packet, since the answer may change, and since asking says that
    /// the neighbour is in use.
    #[inline]
    pub fn link_address(&mut self, now: Instant, to: IpAddr) -> Option<Mac> {
        match self.path_to(now, to) {
            NextHop::Known(mac) => Some(mac),
            NextHop::Pending(_) | NextHop::Loopback | NextHop::None => None,
        }
    }

    /// The neighbour by which packets to `to` go; `None` where no route leads there. Its own link address is asked for with
    /// [`Self::link_address`] too.
    pub fn next_hop(&self, to: IpAddr) -> Option<IpAddr> {
        self.routes.next_hop(to)
    }

    /// True when a route leads there.
    pub fn has_route(&self, to: IpAddr) -> bool {
        self.routes.next_hop(to).is_some()
    }

    /// Send a frame to `to`, complete but for the link addresses. It waits while its neighbour is asked for, as ours do.
    /// None is passed to an address of ours.
    pub fn pass(&mut self, now: Instant, to: IpAddr, mut frame: Vec<u8>) {
        let hop = self.path_to(now, to);
        let mac = match hop {
            NextHop::Known(mac) => mac,
            NextHop::Pending(_) | NextHop::Loopback | NextHop::None => Mac::ZERO,
        };
        frame[..6].copy_from_slice(&mac.0);
        frame[6..12].copy_from_slice(&self.config.mac.0);
        match hop {
            NextHop::Known(_) => self.queue_frame(frame),
            NextHop::Pending(neighbor) => self.neighbors.queue(neighbor, frame),
            NextHop::Loopback | NextHop::None => self.counters.drop_ip_no_route += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use exos_wire::arp::{self, ArpPacket};

    use super::*;
    use crate::neighbor::frames::frame_of;
    use crate::stack::{Config, RxChecksum};

    const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn stack() -> Stack {
        let mut config = Config::new(OURS, 1500);
        config.addresses = vec![([10, 0, 0, 1].into(), 24)];
        let mut stack = Stack::new(config, 1, Instant::START).unwrap();
        while stack.poll_transmit(Instant::START).is_some() {}
        stack
    }

    fn sent(stack: &mut Stack, now: Instant) -> Vec<Vec<u8>> {
        let next = || Some(stack.poll_transmit(now)?.head.to_vec());
        std::iter::from_fn(next).collect()
    }

    /// Packets to a neighbour wait until they have answered, as many as come with a burst; then their link address is known.
    #[test]
    fn frames_wait_for_their_neighbour() {
        const BURST: u8 = 250;
        let (mut stack, now) = (stack(), Instant::from_millis(1));
        let to = IpAddr::from([10, 0, 0, 2]);
        let frame = |n| frame_of(Mac::ZERO, Mac::ZERO, 0x0800, &[n; 40]);
        assert_eq!(stack.link_address(now, to), None);
        for _ in 0..2 {
            (0..BURST).for_each(|n| stack.pass(now, to, frame(n)));
        }
        let asked = sent(&mut stack, now);
        assert_eq!(asked.len(), 1, "a question, and not the frame");
        let answer = ArpPacket {
            operation: arp::REPLY,
            sender_mac: THEIRS,
            sender_ip: Ipv4Addr::new(10, 0, 0, 2),
            target_mac: OURS,
            target_ip: Ipv4Addr::new(10, 0, 0, 1),
        };
        let mut bytes = [0; arp::LEN];
        answer.emit(&mut bytes);
        let answer = frame_of(THEIRS, OURS, 0x0806, &bytes);
        stack.handle_frame(now, &answer, RxChecksum::Unknown);
        let passed = sent(&mut stack, now);
        assert_eq!(passed.len(), 2 * usize::from(BURST));
        for (passed, n) in passed.iter().zip((0..BURST).cycle()) {
            assert_eq!(passed, &frame_of(OURS, THEIRS, 0x0800, &[n; 40]));
        }
        assert_eq!(stack.link_address(now, to), Some(THEIRS));
    }

    #[test]
    fn what_has_no_route_is_counted() {
        let (mut stack, now) = (stack(), Instant::from_millis(1));
        let to = IpAddr::from([192, 0, 2, 1]);
        assert!(!stack.has_route(to) && stack.has_route([10, 0, 0, 2].into()));
        assert_eq!(stack.link_address(now, to), None);
        stack.pass(now, to, vec![0; 60]);
        assert_eq!(sent(&mut stack, now).len(), 0);
        assert_eq!(stack.counters().drop_ip_no_route, 1);
    }
}
