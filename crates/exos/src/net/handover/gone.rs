//! Connections that have gone to other processes lately.

use std::collections::VecDeque;

use exos_inet::Instant;
use exos_inet::tcp::Flow;

use crate::clock;
use crate::limits::GONE_SILENCE;
use crate::node::Exos;

/// Connections that have gone to other processes lately, and when.
#[derive(Debug, Default)]
pub(in crate::net) struct Gone(VecDeque<(Instant, Flow)>);

impl Gone {
    pub fn add(&mut self, flow: Flow) {
        self.0.push_back((clock::now(), flow));
    }

    /// Has the stack answer for those whose packets go elsewhere for long enough: what comes here still, or again, is a peer's
    /// whose connection has ended with its process, or that opens another. The time begins when nothing is `owed` to the daemon.
    pub fn forget(&mut self, exos: &mut Exos, owed: bool) {
        if self.0.is_empty() {
            return;
        }
        let now = clock::now();
        if owed {
            self.0.iter_mut().for_each(|(at, _)| *at = now);
        }
        while let Some((_, flow)) = self.0.pop_front_if(|(at, _)| *at + GONE_SILENCE <= now) {
            exos.stack.tcp.forget_taken_out(&flow);
        }
    }
}
