//! How requests come to be answered in the kernel, and how that ends.

use exos_inet::Instant;
use exos_inet::tcp::ListenerId;
use rustix::thread::{MembarrierCommand, membarrier};

use super::shared::Shared;
use super::{Capacity, Requests};
use crate::Error;
use crate::node::Exos;

impl Exos {
    /// Has requests to a listener answered in the kernel from now on, and SYNs with it
    /// ([`answer_syns_in_kernel`](Exos::answer_syns_in_kernel)). Say which with [`requests`](Exos::requests). With `reports`, each
    /// answer is told of once ([`Requests::poll_report`]), and none is given where there is no room to tell of it.
    ///
    /// On several cores, of one interface or [several](crate::Core::lead), the first calls this before the others are
    /// [taken](Exos::take_cores), and each of those once it has started, with a listener of its own that is like the first's. All answer the
    /// same requests, whichever core says which, and each takes on what comes by its queues. They end together.
    ///
    /// From now on the stack's limit of connections is `capacity.connections`, together with the kernel's part
    /// ([`share_room`](exos_inet::tcp::Tcp::share_room)).
    ///
    /// It takes the place of handlers that were [downloaded](Exos::download) before. By a daemon it takes no privilege.
    ///
    /// # Errors
    ///
    /// The link is not one of AF_XDP with a program of ours or of the daemon's, which refuses; answers would not arrive (the other end of a
    /// veth has neither GRO nor an XDP program), the interface's MTU is less than a response and 72 bytes, the capacity is not one, the
    /// listener offers other options than usual, the kernel refuses the program, or the first core did not call this.
    pub fn answer_requests_in_kernel(
        &mut self,
        listener: ListenerId,
        capacity: Capacity,
        reports: bool,
    ) -> Result<(), Error> {
        let part = match self.requests_part.take() {
            Some(part) => {
                self.syn_handler(listener)?;
                part
            }
            None => self.begin_to_answer(listener, capacity, reports)?,
        };
        part.shared.share_room(&mut self.stack);
        self.stack.hold_joined(true);
        // Where the stack gave out no cookies, no segment is on its way to it that the kernel's part would take for the beginning of a
        // connection.
        let is_new = self.stack.counters().tcp_syn_cookies_sent == 0;
        let turned = if is_new { self.now() } else { Instant::START };
        let dropped_before = self
            .via
            .as_ref()
            .map_or(0, crate::via::Via::handler_dropped);
        self.requests = Some(Requests::new(part, listener, turned, dropped_before));
        Ok(())
    }

    /// What is answered in the kernel.
    pub fn requests(&mut self) -> Option<&mut Requests> {
        self.requests.as_mut()
    }

    /// Sees to what is answered in the kernel: once a second at least.
    pub fn see_to_requests(&mut self) {
        let now = self.now();
        if let Some(requests) = &mut self.requests {
            requests.turn(now, &mut self.stack);
            requests.look_for_dropped(self.via.as_mut());
        }
    }

    /// All requests and SYNs come to the stack again, and with them the connections that the kernel's part has. Those on which something was
    /// sent that is not known any more, and not acknowledged, are reset. A handler that was [downloaded](Exos::download) beside it leaves the kernel, too.
    /// On several cores each is to call this, and waits for the others, a second at most.
    /// Gives what there was, for what is left to be told of answers.
    ///
    /// Limits are not had together any more. The stack may have [`Capacity::connections`] alone: a program that goes on, on several cores,
    /// says what each may have ([`set_connections_max`](exos_inet::tcp::Tcp::set_connections_max)), and counts the connections of peers
    /// itself, for [`PeerRoom`](super::PeerRoom) does not hear of the end of those that the stack took on.
    pub fn answer_requests_here(&mut self) -> Option<Requests> {
        let now = self.now();
        let mut requests = self.requests.take()?;
        requests.look_for_dropped(self.via.as_mut());
        let Shared { memory, looks, .. } = &*requests.shared;
        let missing = looks.end(memory, requests.core);
        requests.connections.take_over(missing);
        // A daemon that is not there has the kernel go on; its part hands up all that comes.
        let _ = self.remove_from_kernel();
        // What a processor is running hands up before this returns, where the kernel tells (not with nohz_full).
        let _ = membarrier(MembarrierCommand::Global);
        while requests.end(now, &mut self.stack) {
            // Resets leave before there are more. What a link that is full or gone does not take is lost, as on a wire.
            while matches!(self.send(), Ok(1..)) {}
        }
        self.stack.hold_joined(false);
        self.stack
            .stop_offloading_syns(now, requests.connections.listener());
        let connections = requests.shared.capacity.connections as usize;
        self.stack.tcp.set_connections_max(connections);
        self.requests_counted = requests.counters();
        Some(requests)
    }
}
