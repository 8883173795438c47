//! General filters of slots: a program in the row behind the exact grants, and one of the slot's own for what it sends.
//!
//! Programs are replaced in three steps. [`Gate::plan_general`] says what is to be made. That is made elsewhere, by
//! [`GeneralWork::make`], because it takes the kernel long; when it fails nothing has changed. Then
//! ([`Gate::put_general`]) the link of the check is opened, and programs are put in their places, what is allowed to go out
//! last. Where that fails, which takes more than a lack of descriptors, the slot receives by no filter any more.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use exos_filter::Filter;
use exos_filter::gate::{self, Checksum, Maps, SlotKind};
use exos_host::bpf::{Map, Prog, TcxHook, TcxLink};
use exos_host::error::{Error, Result};

use super::Gate;
use super::general_table::GeneralFilters;
use super::load::{load_incoming, load_outgoing};
use super::pins::{attach_tc, find_tcx};
use crate::ledger::SlotId;

/// What it takes to make the programs of a slot's filters. It takes long, and is done elsewhere.
#[derive(Debug)]
pub struct GeneralWork {
    maps: Arc<Maps<Map>>,
    checksum: Option<Checksum>,
    place: u32,
    slot: SlotId,
    /// For what comes in, where that is another than before.
    receive: Option<Filter>,
    /// For what is sent, likewise.
    send: Option<Filter>,
}

/// The programs of a slot's filters that are others than before.
#[derive(Debug)]
pub struct GeneralPrograms {
    place: u32,
    receive: Option<Prog>,
    /// Without a program everybody's check: nothing is sent by filters.
    send: Option<Option<Prog>>,
}

impl GeneralWork {
    /// Compiles the programs and has the kernel verify them.
    pub fn make(self) -> Result<GeneralPrograms> {
        let fds = self.maps.map(|map| map.raw_fd());
        let receive = |filter: Filter| -> Result<Prog> {
            let program = gate::general(&fds, self.place, &filter, self.slot);
            load_incoming(&program.map_err(too_large)?, "exos_general")
        };
        let send = |filter: Filter| -> Result<Option<Prog>> {
            if filter.is_nothing() {
                return Ok(None);
            }
            let program = gate::outgoing_general(&fds, self.checksum.as_ref(), &filter);
            load_outgoing(&program.map_err(too_large)?, "exos_out_own").map(Some)
        };
        Ok(GeneralPrograms {
            place: self.place,
            receive: self.receive.map(receive).transpose()?,
            send: self.send.map(send).transpose()?,
        })
    }
}

/// A check of what a slot sends, and the link that it is to be in: none while there is no such link, or where the kernel has
/// none.
struct Check {
    program: Option<Prog>,
    link: Option<TcxLink>,
}

impl Gate {
    /// What it takes to have a slot receive and send by these filters beside its exact grants; `None` when it does already.
    /// The slot has a place for its program from now on.
    pub fn plan_general(
        &mut self,
        id: SlotId,
        filters: &GeneralFilters,
    ) -> Result<Option<GeneralWork>> {
        let before = self.generals.in_force(id);
        if before == Some(filters) {
            return Ok(None);
        }
        let new = |part: fn(&GeneralFilters) -> &Filter| {
            (before.map(part) != Some(part(filters))).then(|| part(filters).clone())
        };
        let (receive, send) = (new(|f| &f.receive), new(|f| &f.send));
        // What is sent on a queue of the device is not checked.
        let is_checked = self.slot(id)?.kind == SlotKind::Veth;
        let send = send.filter(|_| is_checked);
        let verified = [&receive, &send].into_iter().flatten();
        let verified = verified.filter(|filter| !filter.is_nothing()).count();
        let place = self.generals.take_place(id)?;
        self.filters_verified += verified as u64;
        Ok(Some(GeneralWork {
            maps: Arc::clone(&self.maps),
            checksum: self.checksum,
            place,
            slot: id,
            receive,
            send,
        }))
    }

    /// Puts the programs of a slot's filters in their places.
    pub fn put_general(
        &mut self,
        id: SlotId,
        filters: &GeneralFilters,
        programs: GeneralPrograms,
    ) -> Result<()> {
        // What can run out is here before anything is replaced; what goes out is allowed last.
        let check = match programs.send {
            Some(program) => self.open_check(id, program)?,
            None => None,
        };
        let receive = programs.receive.as_ref();
        let put = receive.map_or(Ok(()), |program| {
            self.put_receiving(programs.place, program)
        });
        if let Err(error) = put.and_then(|()| self.put_check(id, check)) {
            self.clear_general(id)?;
            return Err(error);
        }
        self.generals.put_in_force(id, filters.clone());
        Ok(())
    }

    /// Has a slot receive and send by no filter. What goes out is forbidden first.
    pub fn end_general(&mut self, id: SlotId) -> Result<()> {
        let check = self.open_check(id, None)?;
        self.put_check(id, check)?;
        self.clear_general(id)
    }

    /// Clears the places of programs that nobody was found for: of slots that an earlier daemon had.
    pub fn forget_generals(&mut self) -> Result<()> {
        for place in self.generals.free_places() {
            self.maps.generals.clear(place)?;
        }
        self.count_generals()
    }

    /// Has a slot that goes receive by no filter any more.
    pub fn clear_general(&mut self, id: SlotId) -> Result<()> {
        if let Some(place) = self.generals.end(id) {
            self.maps.generals.clear(place)?;
            self.generals.free(place);
            self.count_generals()?;
        }
        Ok(())
    }

    /// How many programs the kernel was to verify for filters.
    pub fn filters_verified(&self) -> u64 {
        self.filters_verified
    }

    fn put_receiving(&mut self, place: u32, program: &Prog) -> Result<()> {
        self.maps.generals.set_fd(place, program.as_fd())?;
        self.count_generals()
    }

    fn count_generals(&mut self) -> Result<()> {
        self.config.generals = self.generals.taken();
        self.write_config()
    }

    /// The check of what a slot sends, ready to be put in force: its own, or everybody's where it may send nothing by
    /// filters. `None` for a queue of the device: what is sent there is not checked.
    fn open_check(&self, id: SlotId, program: Option<Prog>) -> Result<Option<Check>> {
        let slot = self.slot(id)?;
        if slot.kind != SlotKind::Veth {
            return Ok(None);
        }
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
                attach_tc(&name, ifindex, program, TcxHook::Ingress)
            }
        }
    }
}

fn too_large(error: exos_filter::CompileError) -> Error {
    Error::new(format!("the filter cannot be compiled: {error}")).mend("claim its parts")
}
