//! What is left of slots that are closed, and takes the kernel long to take away: their links, their memory, and what their
//! holders send by.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use exos_filter::gate::maps::SECRET_LEN;
use exos_filter::gate::{Maps, Slot};
use exos_host::bpf::Map;
use exos_host::error::Result;

use super::handler_tables::forget_handlers;
use crate::ledger::SlotId;

/// Where what is left of slots that are closed is found.
#[derive(Debug)]
pub struct Remains {
    ifindex: u32,
    folder: PathBuf,
    maps: Arc<Maps<Map>>,
}

impl Remains {
    /// Of the gate of this interface.
    pub(super) fn new(ifindex: u32, folder: &Path, maps: &Arc<Maps<Map>>) -> Self {
        Self {
            ifindex,
            folder: folder.to_path_buf(),
            maps: Arc::clone(maps),
        }
    }

    /// The number of the interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Empties a slot's entry, and has nobody send for it.
    pub(super) fn empty(&self, id: SlotId) -> Result<()> {
        let key = id.to_ne_bytes();
        let entry = self.maps.slots.update(&key, &Slot::default().to_bytes());
        forget_secret(&self.maps, id).and(entry)
    }

    /// Empties the entry of a slot, should closing it have failed, takes off its links, and lets go of its memory. Its pair
    /// must be gone: what comes out of it is to be checked.
    pub fn forget(&self, id: SlotId) -> Result<()> {
        let emptied = self.empty(id);
        for name in [check_name(&self.folder, id), ring_name(&self.folder, id)] {
            let _ = std::fs::remove_file(name);
        }
        let port = self.maps.ports.delete(&id.to_ne_bytes()).map(drop);
        let handlers = forget_handlers(&self.maps, id, |_| true);
        let memory = forget_memory(&self.maps, id);
        emptied.and(port).and(handlers).and(memory)
    }
}

/// Nobody sends live frames for the slot any more.
pub(super) fn forget_secret(maps: &Maps<Map>, id: SlotId) -> Result<()> {
    let nobodys = [0; SECRET_LEN + 8];
    maps.secrets.update(&id.to_ne_bytes(), &nobodys)
}

/// Lets go of all memory that a slot has in the packet path. Where there is none it is not tried: each try waits for the
/// kernel's grace period, until no processor uses the table any more.
pub(super) fn forget_memory(maps: &Maps<Map>, id: SlotId) -> Result<()> {
    let maps = [&maps.arrivals, &maps.queues, &maps.frames];
    let forgotten = maps.map(|map| match map.lookup(&id.to_ne_bytes())? {
        Some(_) => map.clear(id).map(drop),
        None => Ok(()),
    });
    forgotten.into_iter().collect()
}

/// Where the XDP link of a slot's ring is pinned.
pub(super) fn ring_name(folder: &Path, id: SlotId) -> PathBuf {
    folder.join(format!("slot{id}-ring"))
}

/// Where the link of the check of what a slot sends is pinned.
pub(super) fn check_name(folder: &Path, id: SlotId) -> PathBuf {
    folder.join(format!("slot{id}-out"))
}
