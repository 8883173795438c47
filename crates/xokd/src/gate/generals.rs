//! General filters of slots: a program in the row behind the exact grants, and one of the slot's own for what it sends.

use std::os::fd::AsFd as _;

use exos_filter::Filter;
use exos_filter::gate::limits::GENERALS_MAX;
use exos_filter::gate::{self, SlotKind};
use exos_host::bpf::{Prog, TcxHook};
use exos_host::error::{Error, Result};

use super::Gate;
use super::pins::attach_tcx;
use crate::ledger::SlotId;

/// What a slot has beside its exact grants.
#[derive(Clone, Debug)]
pub struct GeneralFilters {
    /// What comes in to it.
    pub receive: Filter,
    /// What it may send.
    pub send: Filter,
}

impl Gate {
    /// Has a slot receive and send by these filters beside its exact grants, or by those alone.
    pub fn set_general(&mut self, id: SlotId, filters: Option<&GeneralFilters>) -> Result<()> {
        // What goes out is allowed last and forbidden first.
        let Some(filters) = filters else {
            self.check_sending(id, None)?;
            return self.clear_general(id);
        };
        let taken = self.generals.iter().position(|slot| *slot == id);
        let free = || self.generals.iter().position(|slot| *slot == 0);
        let at = taken.or_else(free);
        let at = at.ok_or_else(|| Error::new("all places of general filters are taken"))?;
        let fds = self.maps.map(|map| map.raw_fd());
        let program = gate::general(&fds, at as u32, &filters.receive, id).map_err(too_large)?;
        let program = Prog::load(&program.words(), "exos_general", true)?;
        self.maps.generals.set_fd(at as u32, program.as_fd())?;
        self.generals[at] = id;
        self.count_generals()?;
        self.check_sending(id, Some(&filters.send))
    }

    /// Clears the places of programs that nobody was found for: of slots that an earlier daemon had.
    pub fn forget_generals(&mut self) -> Result<()> {
        for at in 0..GENERALS_MAX {
            if self.generals[at as usize] == 0 {
                self.maps.generals.clear(at)?;
            }
        }
        self.count_generals()
    }

    /// Has a slot that goes receive by no filter any more.
    pub fn clear_general(&mut self, id: SlotId) -> Result<()> {
        if let Some(at) = self.generals.iter().position(|slot| *slot == id) {
            self.maps.generals.clear(at as u32)?;
            self.generals[at] = 0;
            self.count_generals()?;
        }
        Ok(())
    }

    fn count_generals(&mut self) -> Result<()> {
        let count = self.generals.iter().filter(|slot| **slot != 0).count();
        self.config.generals = count as u32;
        self.write_config()
    }

    /// The check of what a slot sends: its own, or everybody's. What is sent on a queue of the device is not checked.
    fn check_sending(&self, id: SlotId, filter: Option<&Filter>) -> Result<()> {
        let slot = self.slot(id)?;
        if slot.kind != SlotKind::Veth {
            return Ok(());
        }
        let own = match filter {
            None => None,
            Some(filter) => {
                let fds = self.maps.map(|map| map.raw_fd());
                let program = gate::outgoing_general(&fds, Some(&self.checksum), filter);
                let words = program.map_err(too_large)?.words();
                Some(Prog::load_classifier(&words, "exos_out_own")?)
            }
        };
        let program = own.as_ref().unwrap_or(&self.out);
        let name = self.check_name(id);
        attach_tcx(&name, slot.ifindex, program, TcxHook::Ingress).map(drop)
    }
}

fn too_large(error: exos_filter::CompileError) -> Error {
    Error::new(format!("the filter cannot be compiled: {error}")).mend("claim its parts")
}
