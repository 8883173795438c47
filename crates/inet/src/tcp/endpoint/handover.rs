//! Taking connections out of this stack, and putting others in.

use crate::tcp::endpoint::tcp::Tcp;
use crate::tcp::handover::detached::DetachedConnection;
use crate::tcp::shared::memory::Pressure;
use crate::tcp::table::records::{TIME_WAIT_RECORD_LEN, decode, encode};
use crate::tcp::table::time_wait::Waiting;
use crate::tcp::values::event::{EventSet, OpenError};
use crate::tcp::values::flow::Flow;
use crate::tcp::values::id::ConnectionId;
use crate::tcp::values::local::Local;
use crate::time::Instant;

impl Tcp {
    /// Take a connection out of this stack: nothing of it is left but the memory that its segments are
    /// to be met with silence. The program hears nothing more of it here.
    ///
    /// `None` when it is gone, does not stand yet, or is over and the program has only not heard of it.
    pub fn take_out(&mut self, now: Instant, id: ConnectionId) -> Option<DetachedConnection> {
        let connection = self.slab.get_mut(id)?;
        if !connection.state().is_synchronized() {
            return None;
        }
        let flow = *connection.flow();
        self.unindex(id);
        let connection = self.slab.take(id)?;
        let detached = DetachedConnection::take(connection, now, &mut self.memory);
        self.handed_over.insert(now, flow);
        self.ports.may_have_become_free();
        Some(detached)
    }

    /// Be silent no longer about a connection that was taken out: its packets go to the other stack by now, and what comes
    /// here is nobody's.
    pub fn forget_taken_out(&mut self, flow: &Flow) {
        self.handed_over.remove(flow);
    }

    /// Go on with a connection. On failure it is given back.
    pub(super) fn go_on_with(
        &mut self,
        now: Instant,
        detached: DetachedConnection,
        local: Local,
    ) -> Result<ConnectionId, (OpenError, DetachedConnection)> {
        let flow = *detached.flow();
        let full = !self.has_room();
        if full || self.memory.pressure() == Pressure::Full {
            return Err((OpenError::Full, detached));
        }
        if self.is_taken(&flow) {
            return Err((OpenError::FlowTaken, detached));
        }
        self.handed_over.remove(&flow);
        let mut connection = detached.resume(now, local, &mut self.memory);
        connection.receiver.set_pressure(self.memory.pressure());
        let has_gap = connection.receiver.queue().has_gap();
        if !connection.readable().is_empty() {
            connection.tell(EventSet::READABLE);
        }
        let id = self.insert(connection, flow.table_hash(&self.key));
        if let Some(entry) = self.slab.entry_mut(id) {
            // Its program knows it, and is to hear of its end.
            entry.announced = true;
        }
        if has_gap {
            self.prunable.note(id, &self.slab);
        }
        self.settle(id);
        Ok(id)
    }

    /// Takes out the connections in TIME-WAIT that `leave` says, up to this many, as records for another
    /// stack. This one knows nothing of them any more.
    pub fn take_time_wait(
        &mut self,
        now: Instant,
        count_max: usize,
        leave: impl Fn(&Flow) -> bool,
    ) -> Vec<u8> {
        let leaving = self.time_wait.flows().filter(|(_, flow)| leave(flow));
        let leaving: Vec<(u32, Flow)> = leaving.take(count_max).collect();
        let gone = leaving
            .iter()
            .filter_map(|(hash, flow)| self.time_wait.remove(*hash, flow));
        gone.flat_map(|waiting| encode(&waiting, now)).collect()
    }

    /// Takes over connections in TIME-WAIT: those of the records that `take` says and whose flow is free
    /// here. Returns how many; a record cut short at the end and one that no stack wrote count as none.
    pub fn put_time_wait(
        &mut self,
        now: Instant,
        records: &[u8],
        take: impl Fn(&Flow) -> bool,
    ) -> usize {
        let (records, _) = records.as_chunks::<TIME_WAIT_RECORD_LEN>();
        let mut taken = 0;
        for waiting in records.iter().filter_map(|record| decode(record, now)) {
            if !take(&waiting.flow) || self.is_taken(&waiting.flow) {
                continue;
            }
            let hash = waiting.flow.table_hash(&self.key);
            self.time_wait.insert(now, Waiting { hash, ..waiting });
            taken += 1;
        }
        taken
    }
}

#[cfg(test)]
mod tests;
