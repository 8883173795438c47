//! What is asked of a stack in each turn of a program's loop beside frames: news, and time.

use std::net::IpAddr;

use crate::icmp;
use crate::stack::state::Stack;
use crate::tcp;
use crate::time::Instant;

impl Stack {
    // What the program hears.

    /// News of a connection, but for messages that a [handler](Self::handle_streams) deals with.
    #[inline]
    pub fn poll_event(&mut self) -> Option<tcp::Event> {
        match self.streams.is_empty() {
            true => self.tcp.poll_event(),
            false => self.next_unhandled(),
        }
    }

    /// With external neighbours: an address whose link address is needed.
    pub fn poll_unresolved(&mut self) -> Option<IpAddr> {
        self.neighbors.poll_unresolved()
    }

    // Time.

    /// When to call `handle_timeout` next. May be early, is never late.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let others = [
            (!self.loopback.is_empty()).then_some(now),
            self.neighbors.poll_timeout(),
            self.reassembler.poll_timeout(),
        ];
        others
            .into_iter()
            .flatten()
            .chain(self.tcp.poll_timeout(now))
            .min()
    }

    /// Take in what we have sent to ourselves, and see to all deadlines that are over.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        if !self.loopback.is_empty() {
            self.handle_looped(now);
        }
        let is_over = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let due =
            is_over(self.neighbors.poll_timeout()) || is_over(self.reassembler.poll_timeout());
        if due || self.neighbors.has_failed() || self.tcp.wants_time(now) {
            self.see_to_deadlines(now);
        }
    }

    fn see_to_deadlines(&mut self, now: Instant) {
        self.tcp.handle_timeout(now, &mut self.counters);
        if self.neighbors.poll_timeout().is_some_and(|at| at <= now) {
            self.neighbors.handle_timeout(now);
        }
        while let Some((_, frames)) = self.neighbors.poll_failed() {
            self.counters.drop_neighbor_unresolved += frames.len() as u64;
        }
        if self.reassembler.poll_timeout().is_some_and(|at| at <= now) {
            self.expire_fragments(now);
        }
    }

    fn expire_fragments(&mut self, now: Instant) {
        self.reassembler.handle_timeout(now);
        while let Some(quote) = self.reassembler.poll_expired() {
            self.report(now, &quote, icmp::Problem::ReassemblyTimeExceeded, false);
        }
    }
}
