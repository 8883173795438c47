//! What slots leave behind: memory that a process keeps after its slot has gone.
//!
//! The kernel has no call that takes a socket or memory from its holder. So a program that gives its slot back, and keeps
//! the descriptors (or a child of it, or the one that they were passed to), has the memory still, and the slot's place in the
//! kernel. That goes on counting as a program of the user's, with all of its memory, until all of these are true:
//!
//! - nobody has a socket of the slot's namespace: the number that the daemon gave to the namespace leads nowhere any more
//!   ([`Netlink::has_namespace`]). As long as there is one the kernel keeps the namespace and the ring's memory;
//! - nobody has the memory open or mapped ([`LentMemory::is_let_go`]), and no socket of another namespace, which may be one
//!   that the program made for itself, has its pages ([`LentMemory::take_back`]). The kernel looks for that as long as a
//!   fifth of a second, so a thread asks it: one at a time, for all that have come so far.
//!
//! - nobody has the maps that the slot could send from beside its ring, nor the program that reads them, nor memory of its
//!   handlers: the kernel knows none of their numbers.
//!
//! A queue of the interface has no namespace. Its socket keeps the queue busy, so there is one such at most for each queue,
//! and only the memory's holders are looked for.
//!
//! A daemon that follows knows the numbers of namespaces from the state file. Whether somebody has the memory it cannot
//! tell, neither of what its predecessor had noted here nor of the slots that it adopts: only the sockets count then.

use std::sync::Arc;
use std::thread::JoinHandle;

use exos_host::bpf::map_exists;
use exos_host::netlink::Netlink;
use exos_host::shared::LentMemory;

use crate::state;

/// What was left and is not known to be gone.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    all: Vec<Leftover>,
    /// Asks the kernel about memory that was let go.
    asking: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Leftover {
    /// The interface, by index.
    interface: u32,
    record: state::Leftover,
    memory: Option<Arc<LentMemory>>,
}

impl Leftovers {
    /// A slot has gone, and this may be left of it.
    pub(super) fn add(
        &mut self,
        interface: u32,
        record: state::Leftover,
        memory: Option<LentMemory>,
    ) {
        self.all.push(Leftover {
            interface,
            record,
            memory: memory.map(Arc::new),
        });
    }

    /// Forgets what nobody has any more.
    pub(super) fn sweep(&mut self, netlink: &Netlink) {
        self.all.retain(|leftover| leftover.is_held(netlink));
        if self
            .asking
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            return;
        }
        let memories = self.all.iter().filter_map(|l| l.let_go(netlink));
        let memories: Vec<_> = memories.collect();
        if !memories.is_empty() {
            let ask = move || memories.iter().for_each(|memory| memory.take_back());
            // Without a thread it is asked again at the next sweep.
            self.asking = std::thread::Builder::new().spawn(ask).ok();
        }
    }

    /// What is left of slots of an interface, as a successor is told.
    pub(super) fn of(&self, interface: u32) -> impl Iterator<Item = state::Leftover> {
        let here = self.all.iter().filter(move |l| l.interface == interface);
        here.map(|leftover| leftover.record.clone())
    }

    /// All of it.
    pub(super) fn records(&self) -> impl Iterator<Item = &state::Leftover> {
        self.all.iter().map(|leftover| &leftover.record)
    }
}

impl Leftover {
    fn has_socket(&self, netlink: &Netlink) -> bool {
        // What the kernel does not say is taken for held: it is asked again.
        let has = |number| netlink.has_namespace(number).unwrap_or(true);
        self.record.namespace.is_some_and(has)
    }

    /// Whether anybody has one of the maps, or the program that reads them.
    fn has_maps(&self) -> bool {
        // As above.
        let is_there = |id: &u32| map_exists(*id).unwrap_or(true);
        self.record.maps.iter().any(is_there)
    }

    fn is_held(&self, netlink: &Netlink) -> bool {
        let memory = self.memory.as_ref();
        let has_memory = memory.is_some_and(|m| !m.is_returned());
        has_memory || self.has_maps() || self.has_socket(netlink)
    }

    /// Its memory, when only the kernel can have it still.
    fn let_go(&self, netlink: &Netlink) -> Option<Arc<LentMemory>> {
        let memory = self.memory.as_ref()?;
        let gone = !memory.is_returned() && memory.is_let_go() && !self.has_socket(netlink);
        gone.then(|| memory.clone())
    }
}
