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

use std::os::fd::AsFd as _;

use exos_filter::gate::{Handled, Handling, Maps};
use exos_host::bpf::{Map, Prog};
use exos_host::error::{Error, Result};
use exos_wire::protocol;

use crate::ledger::SlotId;

/// Where the program finds no room, what was said of its place before is said again: nothing stands there that has no program.
pub(super) fn enter_handler(
    maps: &Maps<Map>,
    slot: SlotId,
    handled: Handled,
    program: &Prog,
) -> Result<()> {
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

/// Which handler of a slot is in which of its places.
pub(super) fn handling(maps: &Maps<Map>, slot: SlotId) -> Result<Handling> {
    let bytes = maps.handling.lookup(&slot.to_ne_bytes())?;
    let handling = bytes.and_then(|bytes| Handling::from_bytes(&bytes));
    Ok(handling.unwrap_or_default())
}

/// Lets go of these of a slot's handlers.
pub(super) fn forget_handlers(
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
