//! General filters of slots: a program in the row behind the exact grants, and one of the slot's own for what it sends.
//!
//! Programs are replaced in two steps. First everything is made that can run out: programs are verified, the link of the
//! check is opened. When that fails nothing has changed. Then they are put in their places, what is allowed to go out last.
//! Where that fails, which takes more than a lack of descriptors, the slot receives by no filter any more.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;

use exos_filter::Filter;
use exos_filter::gate::limits::GENERALS_MAX;
use exos_filter::gate::{self, SlotKind};
use exos_host::bpf::{Prog, TcxHook, TcxLink};
use exos_host::error::{Error, Result};

use super::Gate;
use super::pins::{attach_tcx, find_tcx};
use crate::ledger::SlotId;

/// What a slot has beside its exact grants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GeneralFilters {
    /// What comes in to it.
    pub receive: Filter,
    /// What it may send.
    pub send: Filter,
}

/// The general filters of all slots, as the kernel has them.
#[derive(Debug, Default)]
pub(super) struct Generals {
    /// The slot of each program; 0 for none.
    places: [SlotId; GENERALS_MAX as usize],
    /// What they were made of, as far as this daemon made them.
    in_force: BTreeMap<SlotId, GeneralFilters>,
    /// How many programs the kernel has verified for them.
    verified: u64,
}

/// A check of what a slot sends, and the link that it is to be in: none while there is no such link.
struct Check {
    program: Option<Prog>,
    link: Option<TcxLink>,
}

impl Gate {
    /// Has a slot receive and send by these filters beside its exact grants, or by those alone. Programs that would be
    /// what they are already are not made again.
    pub fn set_general(&mut self, id: SlotId, filters: Option<&GeneralFilters>) -> Result<()> {
        // What goes out is allowed last and forbidden first.
        let Some(filters) = filters else {
            let check = self.open_check(id, None)?;
            self.put_check(id, check)?;
            return self.clear_general(id);
        };
        let before = self.generals.in_force.get(&id);
        let is_new = |part: fn(&GeneralFilters) -> &Filter| before.map(part) != Some(part(filters));
        let (receives_anew, sends_anew) = (is_new(|f| &f.receive), is_new(|f| &f.send));
        let place = self.place_of(id)?;
        let receive = match receives_anew {
            true => Some(self.verify_receiving(place, id, &filters.receive)?),
            false => None,
        };
        let check = match sends_anew {
            true => self.open_check(id, Some(&filters.send))?,
            false => None,
        };
        let put = receive.map_or(Ok(()), |program| self.put_receiving(place, id, &program));
        if let Err(error) = put.and_then(|()| self.put_check(id, check)) {
            self.clear_general(id)?;
            return Err(error);
        }
        self.generals.in_force.insert(id, filters.clone());
        Ok(())
    }

    /// Clears the places of programs that nobody was found for: of slots that an earlier daemon had.
    pub fn forget_generals(&mut self) -> Result<()> {
        for at in 0..GENERALS_MAX {
            if self.generals.places[at as usize] == 0 {
                self.maps.generals.clear(at)?;
            }
        }
        self.count_generals()
    }

    /// Has a slot that goes receive by no filter any more.
    pub fn clear_general(&mut self, id: SlotId) -> Result<()> {
        self.generals.in_force.remove(&id);
        let place = self.generals.places.iter().position(|slot| *slot == id);
        if let Some(at) = place {
            self.maps.generals.clear(at as u32)?;
            self.generals.places[at] = 0;
            self.count_generals()?;
        }
        Ok(())
    }

    /// How many programs the kernel has verified for filters. Each takes its time, in which the daemon does nothing else.
    pub fn filters_verified(&self) -> u64 {
        self.generals.verified
    }

    /// The place of a slot's program, or one for it.
    fn place_of(&self, id: SlotId) -> Result<u32> {
        let places = &self.generals.places;
        let taken = places.iter().position(|slot| *slot == id);
        let free = || places.iter().position(|slot| *slot == 0);
        let place = taken.or_else(free).map(|at| at as u32);
        place.ok_or_else(|| Error::new("all places of general filters are taken"))
    }

    fn verify_receiving(&mut self, place: u32, id: SlotId, filter: &Filter) -> Result<Prog> {
        let fds = self.maps.map(|map| map.raw_fd());
        let program = gate::general(&fds, place, filter, id).map_err(too_large)?;
        self.generals.verified += 1;
        Ok(Prog::load(&program.words(), "exos_general", true)?)
    }

    fn put_receiving(&mut self, place: u32, id: SlotId, program: &Prog) -> Result<()> {
        self.maps.generals.set_fd(place, program.as_fd())?;
        self.generals.places[place as usize] = id;
        self.count_generals()
    }

    fn count_generals(&mut self) -> Result<()> {
        let places = self.generals.places.iter();
        self.config.generals = places.filter(|slot| **slot != 0).count() as u32;
        self.write_config()
    }

    /// The check of what a slot sends, ready to be put in force: its own, or everybody's where it may send nothing by
    /// filters. `None` for a queue of the device: what is sent there is not checked.
    fn open_check(&mut self, id: SlotId, filter: Option<&Filter>) -> Result<Option<Check>> {
        let slot = self.slot(id)?;
        if slot.kind != SlotKind::Veth {
            return Ok(None);
        }
        let program = match filter.filter(|filter| !filter.is_nothing()) {
            None => None,
            Some(filter) => {
                let fds = self.maps.map(|map| map.raw_fd());
                let program = gate::outgoing_general(&fds, Some(&self.checksum), filter);
                let words = program.map_err(too_large)?.words();
                self.generals.verified += 1;
                Some(Prog::load_classifier(&words, "exos_out_own")?)
            }
        };
        let link = find_tcx(&self.check_name(id), slot.ifindex)?;
        Ok(Some(Check { program, link }))
    }

    fn put_check(&self, id: SlotId, check: Option<Check>) -> Result<()> {
        let Some(Check { program, link }) = check else {
            return Ok(());
        };
        let program = program.as_ref().unwrap_or(&self.out);
        match link {
            Some(link) => link.update(program),
            None => {
                let (name, ifindex) = (self.check_name(id), self.slot(id)?.ifindex);
                attach_tcx(&name, ifindex, program, TcxHook::Ingress).map(drop)
            }
        }
    }
}

fn too_large(error: exos_filter::CompileError) -> Error {
    Error::new(format!("the filter cannot be compiled: {error}")).mend("claim its parts")
}
