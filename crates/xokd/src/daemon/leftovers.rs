//! What slots leave behind: memory that a process keeps after its slot has gone.
//!
//! The kernel has no call that takes a socket or memory from its holder. So a program that gives its slot back, and keeps
//! the descriptors (or a child of it, or whoever they were passed to), has the memory still, and the slot's place in the
//! kernel. That goes on counting as a program of the user's, with all of its memory, until both of these are true:
//!
//! - nobody has a socket of the slot's namespace: the number that the daemon gave to the namespace leads nowhere any more
//!   ([`Netlink::has_namespace`]). As long as there is one the kernel keeps the namespace and the ring's memory;
//! - nobody has the memory open or mapped ([`LentMemory::is_returned`]).
//!
//! A queue of the interface has no namespace. Its socket keeps the queue busy, so there is one such at most for each queue,
//! and only the memory's holders are looked for.
//!
//! A daemon that follows knows the numbers of namespaces from the state file. Whether somebody has the memory it cannot
//! tell, neither of what its predecessor had noted here nor of the slots that it adopts: only the sockets count then.

use exos_host::netlink::Netlink;
use exos_host::shared::LentMemory;

use crate::state;

/// What was left and is not known to be gone.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Vec<Leftover>);

#[derive(Debug)]
struct Leftover {
    /// The interface, by index.
    interface: u32,
    record: state::Leftover,
    memory: Option<LentMemory>,
}

impl Leftovers {
    /// A slot has gone, and this may be left of it.
    pub(super) fn add(
        &mut self,
        interface: u32,
        record: state::Leftover,
        memory: Option<LentMemory>,
    ) {
        self.0.push(Leftover {
            interface,
            record,
            memory,
        });
    }

    /// Forgets what nobody has any more.
    pub(super) fn sweep(&mut self, netlink: &Netlink) {
        self.0.retain(|leftover| leftover.is_held(netlink));
    }

    /// What is left of slots of an interface, as a successor is told.
    pub(super) fn of(&self, interface: u32) -> impl Iterator<Item = state::Leftover> {
        let here = self.0.iter().filter(move |l| l.interface == interface);
        here.map(|leftover| leftover.record.clone())
    }

    /// All of it.
    pub(super) fn records(&self) -> impl Iterator<Item = &state::Leftover> {
        self.0.iter().map(|leftover| &leftover.record)
    }
}

impl Leftover {
    fn is_held(&self, netlink: &Netlink) -> bool {
        // What the kernel does not say is taken for held: it is asked again.
        let has = |number| netlink.has_namespace(number).unwrap_or(true);
        let memory = self.memory.as_ref();
        self.record.namespace.is_some_and(has) || memory.is_some_and(|m| !m.is_returned())
    }
}
