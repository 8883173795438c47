//! Handlers of slots in the packet path: each is put in a place of its slot's, and taken out of it, while the others go on.
//!
//! ```text
//! slots[N].has_handlers   whether they are looked for    handling[N]        which is in which of the slot's places
//! handlers[N, place]      their programs                 second_stages[N]   what completes the answers of one
//! handler_budgets[N]      steps that they have together
//! ```
//!
//! A handler stands in `handling` before its program is there, and until that is gone: so it is found by what the tables say alone,
//! also by a successor. A message whose handler has no program goes to the slot's program.

use std::os::fd::{AsFd as _, OwnedFd};

use exos_filter::gate::{Bucket, Handled, Handling, Maps, Slot};
use exos_host::bpf::{Map, Prog};
use exos_host::error::{Context as _, Error, Result};
use exos_wire::protocol;

use super::MadeHandler;
use crate::gate::Gate;
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

/// Where the program finds no room, what was said of its place before is said again: nothing stands there that has no program.
fn enter_handler(maps: &Maps<Map>, slot: SlotId, handled: Handled, program: &Prog) -> Result<()> {
    let before = handling(maps, slot)?;
    let place = before.place_of(handled.protocol, handled.port);
    let place = place.ok_or_else(|| Error::new("all places of the slot's are taken"))?;
    let mut after = before;
    after.places[place] = handled;
    let key = slot.to_ne_bytes();
    maps.handling.update(&key, &after.to_bytes())?;
    let entered = maps
        .handlers
        .set_fd(Handling::index(slot, place), program.as_fd());
    entered.inspect_err(|_| {
        let _ = maps.handling.update(&key, &before.to_bytes());
    })
}

fn handling(maps: &Maps<Map>, slot: SlotId) -> Result<Handling> {
    let bytes = maps.handling.lookup(&slot.to_ne_bytes())?;
    let handling = bytes.and_then(|bytes| Handling::from_bytes(&bytes));
    Ok(handling.unwrap_or_default())
}

/// Lets go of these of a slot's handlers.
pub(in crate::gate) fn forget_handlers(
    maps: &Maps<Map>,
    slot: SlotId,
    which: impl Fn(&Handled) -> bool,
) -> Result<()> {
    let before = handling(maps, slot)?;
    let mut after = before;
    for (place, handled) in before.handlers().filter(|(_, handled)| which(handled)) {
        maps.handlers.clear(Handling::index(slot, place))?;
        if handled.protocol == protocol::TCP {
            maps.second_stages.clear(slot)?;
        }
        after.places[place] = Handled::default();
    }
    match after == before {
        true => Ok(()),
        false => maps.handling.update(&slot.to_ne_bytes(), &after.to_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::pins::make_map;
    use exos_filter::gate::maps::SPECS;

    /// r0 = 2, and out.
    const PASSES: [u64; 2] = [0x2_0000_00b7, 0x95];

    fn handled(port: u16, steps: u32) -> Handled {
        Handled {
            port,
            protocol: protocol::UDP,
            replies: false,
            steps,
        }
    }

    /// The array takes no program of another kind than those in it.
    #[test]
    fn a_program_that_finds_no_room_leaves_its_place_as_it_was() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: making tables of the kernel's needs root");
            return;
        }
        let maps = SPECS.try_map(make_map).expect("tables");
        let sound = Prog::load(&PASSES, "sound", true).expect("it is sound");
        let unfit = Prog::load_classifier(&PASSES, "unfit").expect("it is sound");
        let slot = 3;
        let has = || -> Vec<_> {
            let handling = handling(&maps, slot).expect("it is there");
            handling.handlers().map(|(at, one)| (at, *one)).collect()
        };
        enter_handler(&maps, slot, handled(7000, 10), &sound).expect("there is room");
        for (port, steps) in [(7001, 30), (7000, 20)] {
            let entered = enter_handler(&maps, slot, handled(port, steps), &unfit);
            entered.expect_err("it is of traffic control");
            assert_eq!(has(), [(0, handled(7000, 10))], "{port}");
        }
        enter_handler(&maps, slot, handled(7001, 30), &sound).expect("there is room");
        assert_eq!(has(), [(0, handled(7000, 10)), (1, handled(7001, 30))]);
    }
}
