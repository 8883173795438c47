//! Handlers of slots, put into the tables of the packet path and taken out of them ([`handler_tables`](crate::gate::handler_tables)).

use std::os::fd::{AsFd as _, OwnedFd};

use exos_filter::gate::{Bucket, Handled, Slot};
use exos_host::error::{Context as _, Result};
use exos_wire::protocol;

use super::MadeHandler;
use crate::gate::Gate;
use crate::gate::handler_tables::{enter_handler, forget_handlers, handling};
use crate::ledger::SlotId;
use crate::limits::HANDLER_BURST;

impl Gate {
    /// Has a handler deal with what comes to its port of a slot's, in place of the one of this port before; one that answers requests, in
    /// place of all. All of the slot's take this many steps in a second at most. The handler's memory is for the slot's holder.
    ///
    /// # Errors
    ///
    /// The kernel refuses, or the slot has no place for it ([`Self::has_place`]).
    pub fn put_handler(
        &self,
        slot: SlotId,
        made: &MadeHandler,
        steps_per_sec: u64,
    ) -> Result<OwnedFd> {
        let memory = made.memory.as_fd().try_clone_to_owned();
        let memory = memory.context(|| "cannot pass a handler's memory")?;
        // Where there is no room those before go on.
        if made.second_stage.is_some() {
            self.lead_to_second_stages()?;
        }
        if made.handled.protocol == protocol::TCP {
            self.end_handlers(slot, |_| true)?;
        }
        if let Some(program) = &made.second_stage {
            self.maps.second_stages.set_fd(slot, program.as_fd())?;
        }
        let handled = made.handled;
        let entered = self
            .set_handler_steps(slot, steps_per_sec)
            .and_then(|()| enter_handler(&self.maps, slot, handled, &made.program));
        if entered.is_err() && made.second_stage.is_some() {
            let _ = self.maps.second_stages.clear(slot);
        }
        entered?;
        self.note_handlers(slot).inspect_err(|_| {
            let _ = forget_handlers(&self.maps, slot, |one| *one == handled);
        })?;
        Ok(memory)
    }

    /// Whether a slot has a place for the handler of this port: its own, or a free one.
    pub fn has_place(&self, slot: SlotId, protocol: u8, port: u16) -> Result<bool> {
        let handling = handling(&self.maps, slot)?;
        Ok(handling.place_of(protocol, port).is_some())
    }

    /// The handlers that a slot has.
    pub fn handlers(&self, slot: SlotId) -> Result<Vec<Handled>> {
        let handling = handling(&self.maps, slot)?;
        Ok(handling.handlers().map(|(_, handled)| *handled).collect())
    }

    /// Has a slot's handlers take this many steps in a second at most, all together, from now on.
    pub fn set_handler_steps(&self, slot: SlotId, steps_per_sec: u64) -> Result<()> {
        let (key, budgets) = (slot.to_ne_bytes(), &self.maps.handler_budgets);
        let before = budgets.lookup(&key)?;
        let before = before.and_then(|bytes| Bucket::from_bytes(&bytes));
        // Not where it is the same: who downloads again and again has no more steps by that.
        if before.is_some_and(|before| before.rate == steps_per_sec) {
            return Ok(());
        }
        let budget = Bucket::new(steps_per_sec, steps_per_sec / HANDLER_BURST);
        budgets.update(&key, &budget.to_bytes())
    }

    /// Has a slot's program get the messages of these of its handlers itself.
    pub fn end_handlers(&self, slot: SlotId, which: impl Fn(&Handled) -> bool) -> Result<()> {
        forget_handlers(&self.maps, slot, which)?;
        self.note_handlers(slot)
    }

    /// Has a slot's entry say whether it has handlers.
    fn note_handlers(&self, id: SlotId) -> Result<()> {
        let slot = self.slot(id)?;
        let has_handlers = handling(&self.maps, id)?.handlers().next().is_some();
        if slot.has_handlers == has_handlers {
            return Ok(());
        }
        let slot = Slot {
            has_handlers,
            ..slot
        };
        self.maps.slots.update(&id.to_ne_bytes(), &slot.to_bytes())
    }
}
