//! What the cores of all interfaces have together: the memory, what is answered, and until when connections may begin.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exos_filter::handler::WebHandler;
use exos_filter::handler::web::layout;
use exos_host::bpf::Map;
use exos_inet::Stack;

use super::capacity::Capacity;
use super::looks::Looks;
use super::memory::Memory;
use super::room::{PeerRoom, Room};
use super::table::Table;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) memory: Arc<Memory>,
    /// The kernel's part writes to it; none where the daemon has it.
    scratch: Option<Map>,
    key: u64,
    pub(super) capacity: Capacity,
    pub(super) table: Mutex<Table>,
    pub(super) looks: Looks,
}

/// One core's part of it, before its stack listens.
#[derive(Debug)]
pub(crate) struct Part {
    pub(super) shared: Arc<Shared>,
    pub(super) core: usize,
    /// The kernel's part on the core's interface, or where the daemon has made it what that was made of.
    pub(super) handler: WebHandler,
}

impl Shared {
    /// A part for each core of the interfaces on which these are.
    pub(super) fn divide(
        memory: Memory,
        scratch: Option<Map>,
        handlers: Vec<WebHandler>,
        capacity: Capacity,
    ) -> impl Iterator<Item = Part> {
        let first = &handlers[0];
        let (cores, key) = (first.rings.cores() as usize, first.key);
        // Whether the daemon's has one the daemon knows.
        let second_stage = handlers.iter().any(|it| it.second_stage.is_some());
        let table = Table::new(first.entries, key, scratch.is_none() || second_stage);
        memory.set(layout::ROOM, capacity.connections.into());
        let shared = Arc::new(Self {
            memory: Arc::new(memory),
            scratch,
            key,
            capacity,
            table: Mutex::new(table),
            looks: Looks::of(cores),
        });
        handlers.into_iter().flat_map(move |handler| {
            let shared = shared.clone();
            handler.rings.own().map(move |core| Part {
                shared: shared.clone(),
                core: core as usize,
                handler: handler.clone(),
            })
        })
    }

    /// Whether the daemon has made the kernel's part.
    pub(super) fn is_lent(&self) -> bool {
        self.scratch.is_none()
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Where connections of each peer are limited, how many each has.
    pub(super) fn peer_room(&self) -> Option<PeerRoom> {
        let most = self.capacity.peer_connections;
        most.map(|most| PeerRoom::new(self.memory.clone(), self.key, most))
    }

    /// The limit of connections is one for this stack, those of other cores, and the kernel's part.
    pub(super) fn share_room(&self, stack: &mut Stack) {
        let room = Room::new(
            self.memory.clone(),
            stack.tcp.connections(),
            self.peer_room(),
        );
        stack.tcp.share_room(Arc::new(room));
    }
}

pub(super) fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // Nothing is left half done by the one that panics with it.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
