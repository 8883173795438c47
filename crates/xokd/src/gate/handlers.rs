//! Handlers of slots: made of what the daemon has checked, and put behind the slot's entry.
//!
//! As with filters, what takes the kernel long is made elsewhere ([`HandlerWork::make`]) and put in its place when it is there
//! ([`Gate::put_handler`]). A slot has one handler. It goes with the slot; until then what it is not in the way of finds the
//! program, also when the port is another's by now: no packet of that leads to this slot.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use exos_ash::kernel::InKernel;
use exos_ash::{Checked, Layout};
use exos_filter::gate::handling::{Outcome, outcome};
use exos_filter::gate::{Bucket, Handling, Maps, Slot};
use exos_filter::handler::forward::WayOut;
use exos_host::bpf::{Map, Prog};
use exos_host::error::{Context as _, Result};
use exos_wire::Mac;

use super::Gate;
use crate::ledger::SlotId;
use crate::limits::HANDLER_BURST;

/// A handler that a program may have, and what it is to know of the interface.
#[derive(Debug)]
pub struct HandlerConfig {
    /// What is done with messages.
    pub handler: Checked,
    /// The port.
    pub port: u16,
    /// The interface's Ethernet address.
    pub mac: Mac,
    /// Broadcast addresses there.
    pub broadcasts: Vec<std::net::Ipv4Addr>,
    /// Packets may come from a kernel on this machine, with a checksum that is still to be made.
    pub may_be_partial: bool,
    /// How replies leave.
    pub way_out: WayOut,
}

/// What it takes to make a handler's program.
#[derive(Debug)]
pub struct HandlerWork {
    maps: Arc<Maps<Map>>,
    config: HandlerConfig,
}

/// A handler's program, and its memory.
#[derive(Debug)]
pub struct MadeHandler {
    port: u16,
    handling: Handling,
    program: Prog,
    memory: Map,
}

/// What the slot's holder is passed.
#[derive(Debug)]
pub struct LentHandler {
    /// The kernel's number of the memory, by which it is known whether anybody has it.
    pub map: u32,
    /// The memory.
    pub memory: OwnedFd,
}

impl HandlerWork {
    /// Makes the memory and the program, and has the kernel verify it.
    pub fn make(self) -> Result<MadeHandler> {
        let config = self.config;
        let bytes = Layout::of(config.handler.handler()).bytes();
        let memory = Map::mappable_array("exos_ash", bytes as usize, 1)?;
        let in_kernel = InKernel {
            handler: &config.handler,
            memory_fd: memory.raw_fd(),
            mac: config.mac,
            addresses: Vec::new(),
            not_from: config.broadcasts,
            port: config.port,
            may_be_partial: config.may_be_partial,
            way_out: config.way_out,
        };
        let program = in_kernel.in_gate(self.maps.outcomes.raw_fd());
        let program = Prog::load(&program.words(), "exos_ash", true)?;
        Ok(MadeHandler {
            port: config.port,
            handling: Handling {
                steps: u32::try_from(config.handler.steps()).unwrap_or(u32::MAX),
                replies: config.handler.longest_reply().is_some().into(),
                budget: Bucket::default(),
            },
            program,
            memory,
        })
    }
}

impl Gate {
    /// Puts the programs in their places that handlers go on in.
    pub(super) fn put_outcomes(maps: &Maps<Map>) -> Result<()> {
        let fds = maps.map(|map| map.raw_fd());
        for each in Outcome::ALL {
            let program = Prog::load(&outcome(&fds, each).words(), "exos_outcome", true)?;
            maps.outcomes.set_fd(each as u32, program.as_fd())?;
        }
        Ok(())
    }

    /// What it takes to make a slot's handler.
    pub fn handler_work(&self, config: HandlerConfig) -> HandlerWork {
        HandlerWork {
            maps: Arc::clone(&self.maps),
            config,
        }
    }

    /// Has a handler deal with a slot's messages, in place of the one before, with this many steps in a second at most.
    pub fn put_handler(
        &self,
        slot: SlotId,
        made: &MadeHandler,
        steps_per_sec: u64,
    ) -> Result<LentHandler> {
        let memory = made.memory.as_fd().try_clone_to_owned();
        let lent = LentHandler {
            map: made.memory.id()?,
            memory: memory.context(|| "cannot pass a handler's memory")?,
        };
        let key = slot.to_ne_bytes();
        // Nobody's messages meet the one before with the other's port.
        self.set_handled_port(slot, 0)?;
        let handling = Handling {
            budget: budget(steps_per_sec),
            ..made.handling
        };
        self.maps.handling.update(&key, &handling.to_bytes())?;
        self.maps.handlers.set_fd(slot, made.program.as_fd())?;
        self.set_handled_port(slot, made.port)?;
        Ok(lent)
    }

    /// Has a slot's handler take this many steps in a second at most, from now on.
    pub fn set_handler_steps(&self, slot: SlotId, steps_per_sec: u64) -> Result<()> {
        let key = slot.to_ne_bytes();
        let before = self.maps.handling.lookup(&key)?;
        let Some(before) = before.and_then(|bytes| Handling::from_bytes(&bytes)) else {
            return Ok(());
        };
        if before.budget.rate == steps_per_sec {
            return Ok(());
        }
        let handling = Handling {
            budget: budget(steps_per_sec),
            ..before
        };
        self.maps.handling.update(&key, &handling.to_bytes())
    }

    /// Has a slot's program get all messages itself.
    pub fn end_handler(&self, slot: SlotId) -> Result<()> {
        self.set_handled_port(slot, 0)?;
        forget_handler(&self.maps, slot)
    }

    /// The port whose messages a slot's handler gets; 0 where there is none.
    pub fn handled_port(&self, slot: SlotId) -> Result<u16> {
        Ok(self.slot(slot)?.handled_port)
    }

    fn set_handled_port(&self, id: SlotId, port: u16) -> Result<()> {
        let slot = self.slot(id)?;
        if slot.handled_port == port {
            return Ok(());
        }
        let slot = Slot {
            handled_port: port,
            ..slot
        };
        self.maps.slots.update(&id.to_ne_bytes(), &slot.to_bytes())
    }
}

/// A full bucket of this many steps in a second.
fn budget(steps_per_sec: u64) -> Bucket {
    Bucket::new(steps_per_sec, steps_per_sec / HANDLER_BURST)
}

/// Lets go of a slot's handler, to which nothing leads any more.
pub(super) fn forget_handler(maps: &Maps<Map>, slot: SlotId) -> Result<()> {
    maps.handlers.clear(slot).map(drop)
}
