//! Packets that go on without a look at a flow: later fragments, which follow their first, and packets of no flow where every
//! forwarder would choose the same server.

use super::arrival::Arrival;
use super::frames::Forwarder;
use super::verdict::Verdict;
use crate::flow::Key;
use crate::packets::fragments::Onward;
use crate::packets::packet::Packet;
use crate::packets::rewrite::{Rewrite, Sums};
use crate::packets::traffic::Course;

impl Forwarder {
    /// The first fragment of a packet goes on if it can, and after it those that have waited for it.
    #[cold]
    pub(super) fn send_first(&mut self, came: &mut Arrival, onward: Onward) -> Verdict {
        let now = came.now;
        let onward = self.fragments.begin(now, &came.packet, onward);
        let verdict = self.send(came, &onward);
        if !verdict.goes_on() {
            return verdict;
        }
        self.counters.forwarded_fragments += 1;
        while let Some(mut frame) = self.fragments.take_held(now, &came.packet) {
            let Some(packet) = Packet::read_again(&frame) else {
                continue;
            };
            let mut held = Arrival {
                now,
                packet,
                frame: &mut frame,
                sums: Sums::Complete,
            };
            if let Verdict::Onward(to) = self.handle_later(&mut held) {
                self.generated.push(to, frame);
            }
        }
        verdict
    }

    /// The first fragment of a packet does not go on: what waits for it is given up.
    #[cold]
    pub(super) fn refuse_first(&mut self, packet: &Packet) {
        self.counters.drop_fragment += self.fragments.refuse(packet);
    }

    /// A packet goes on, which may be the first fragment of another.
    #[inline]
    pub(super) fn send_any(&mut self, came: &mut Arrival, onward: Onward) -> Verdict {
        match came.packet.fragment {
            Some(_) => self.send_first(came, onward),
            None => self.send(came, &onward),
        }
    }

    /// A packet of no flow goes to the server that every forwarder would choose.
    #[cold]
    pub(super) fn send_unknown(&mut self, came: &mut Arrival, key: &Key, server: u16) -> Verdict {
        let onward = self.onward_unknown(key, server);
        self.counters.forwarded_without_flow += 1;
        self.send_any(came, onward)
    }

    /// How packets of this client go on to a server without a flow.
    pub(super) fn onward_unknown(&self, key: &Key, server: u16) -> Onward {
        let there = &self.services.servers[usize::from(server)];
        Onward {
            rewrite: Rewrite {
                src: key.client,
                dst: there.at,
                ident: 0,
            },
            course: Course {
                listener: key.listener,
                server,
                to_server: true,
            },
            reach: there.reach,
        }
    }

    /// A later fragment goes where its first one went.
    pub(super) fn handle_later(&mut self, came: &mut Arrival) -> Verdict {
        let Some(onward) = self.fragments.follow(came.now, &came.packet) else {
            self.counters.held_fragments += 1;
            self.counters.drop_fragment += self.fragments.hold(came.now, &came.packet, came.frame);
            return Verdict::Held;
        };
        came.sums = Sums::Complete;
        let verdict = self.send(came, &onward);
        self.counters.forwarded_fragments += u64::from(verdict.goes_on());
        verdict
    }
}
