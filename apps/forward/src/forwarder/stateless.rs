//! Packets that go on without a look at a flow: later fragments, which follow their first, and packets of no flow where every
//! forwarder would choose the same server.

use exos_inet::Instant;

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
    pub(super) fn send_first(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &mut [u8],
        sums: Sums,
        onward: Onward,
    ) -> Verdict {
        let onward = self.fragments.begin(now, packet, onward);
        let verdict = self.send(now, packet, frame, sums, &onward);
        if !verdict.goes_on() {
            return verdict;
        }
        self.counters.forwarded_fragments += 1;
        while let Some(mut frame) = self.fragments.take_held(now, packet) {
            let Some(packet) = Packet::read_again(&frame) else {
                continue;
            };
            if let Verdict::Onward(to) = self.handle_later(now, &packet, &mut frame) {
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

    /// A packet of no flow goes to the server that every forwarder would choose.
    #[cold]
    pub(super) fn send_unknown(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &mut [u8],
        sums: Sums,
        key: &Key,
        server: u16,
    ) -> Verdict {
        let onward = self.onward_unknown(key, server);
        self.counters.forwarded_without_flow += 1;
        match packet.fragment {
            Some(_) => self.send_first(now, packet, frame, sums, onward),
            None => self.send(now, packet, frame, sums, &onward),
        }
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
    pub(super) fn handle_later(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &mut [u8],
    ) -> Verdict {
        let Some(onward) = self.fragments.follow(now, packet) else {
            self.counters.held_fragments += 1;
            self.counters.drop_fragment += self.fragments.hold(now, packet, frame);
            return Verdict::Held;
        };
        let verdict = self.send(now, packet, frame, Sums::Complete, &onward);
        self.counters.forwarded_fragments += u64::from(verdict.goes_on());
        verdict
    }
}
