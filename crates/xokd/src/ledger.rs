//! Who owns what: slots, grants, tickets, ports. Pure: no I/O, no clock.
//!
//! The rule that everything here serves: **granting never takes a packet from another owner.** A packet belongs to
//! the narrowest claim that matches it (`exos_xok::claim`). A new claim is refused when some packet that another
//! slot has now would become the asker's; it may lie *around* narrower claims of others, because those go on
//! winning. A packet changes hands only when its owner says so: by a ticket, or by giving back.
//!
//! - *Narrow*: a connection out of a claim that one holds. Same owner, so nothing changes hands yet.
//! - *General*: all packets that a filter matches and no exact claim (`generals`).
//! - *Share* and *import*: a ticket makes the slot of the one that presents it a holder. Packets go on to the first
//!   holder; when it gives back or dies, to the next. So a grant is handed over by sharing it and giving it back.
//!   Of a *divided* grant all holders get packets, each those of its flows (`divided`).
//! - *Await*: what a program promised to its successor is nobody's for a while when it goes (`successors`).
//!
//! Commands return what the packet path has to be told ([`Change`]), in order. The books themselves and what a slot
//! does with grants of its own are in `books`, what it does with them for others in `passing`, filters in `filters`.
//! Below these: `index` finds what could overlap, `tickets` are what passes grants on, `ports` which are free and rested,
//! `room` says how much a user may have.

mod books;
mod denied;
mod divided;
mod filters;
mod generals;
mod grant;
mod index;
mod passing;
mod ports;
mod room;
mod successors;
mod tickets;

pub use books::Ledger;
pub use denied::Denied;
pub use generals::General;
pub use grant::{Change, Grant, Owner, SlotId};
pub use successors::Awaited;
pub use tickets::Ticket;

#[cfg(test)]
mod tests;
