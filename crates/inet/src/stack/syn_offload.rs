//! SYNs answered by somebody else, see `tcp::endpoint::syn_offload`: what they have to know of us.

use std::net::Ipv4Addr;

use exos_buf::Slice;
use exos_wire::tcp::cookie::Recipe;

use crate::route::Prefix;
use crate::stack::state::Stack;
use crate::tcp::{BegunConnection, ConnectionId, Flow, ListenerId};
use crate::time::Instant;

impl Stack {
    /// Somebody answers SYNs to a listener from now on, with this. `None` where they could not answer as we do,
    /// because its connections are not opened with all of MSS, SACK, timestamps and scale, and nothing else.
    pub fn offload_syns(&mut self, now: Instant, listener: ListenerId) -> Option<Recipe> {
        let locals = [false, true].map(|ipv6| self.local(ipv6));
        self.tcp.offload_syns(now, listener, locals)
    }

    /// Nobody answers for a listener any more.
    pub fn stop_offloading_syns(&mut self, now: Instant, listener: ListenerId) {
        self.tcp.stop_offloading_syns(now, listener);
    }

    /// A connection that somebody else has begun for a listener is the stack's from now on, if the stack does not have it already; its
    /// listener's program hears of it as of any other. What of ours is not acknowledged is in `sent`: that is the stack's to send again, and
    /// in the connection's queue as if its program had sent it. `None` where the stack has it, or where there is no room or no such
    /// listener, and its peer is reset.
    pub fn take_on(
        &mut self,
        now: Instant,
        listener: ListenerId,
        begun: &BegunConnection,
        sent: Option<Slice>,
    ) -> Option<ConnectionId> {
        let local = self.local(begun.flow.is_ipv6());
        self.tcp
            .take_on(now, listener, (begun, sent), local, &mut self.counters)
    }

    /// Resets the peer of a connection that somebody else has begun and nobody goes on with. It believes that only if `next` is the number
    /// that it expects: where that is not known, say each that it may be.
    pub fn reset_begun(&mut self, flow: Flow, next: u32) {
        self.tcp.reset_begun(flow, next, &mut self.counters);
    }

    /// Addresses of all hosts on our networks (RFC 919), from which no packet comes.
    pub fn broadcasts_v4(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.addresses().iter().filter_map(Prefix::broadcast)
    }
}
