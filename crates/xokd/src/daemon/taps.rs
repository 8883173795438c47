//! Copies of packets for dump clients.
//!
//! A tap belongs to a connection and goes with it. It has one place, the same on all of its interfaces, and one ring
//! buffer, whose descriptor the client gets: with it the client can harm nobody's copies but its own.
//!
//! Its programs are compiled and verified beside the loop (`daemon::work`). A client that may see only its own programs'
//! packets has that compiled into them, so they are made again when one of its programs comes or goes. Until they are in
//! their places the old ones go on: a program that comes is told of its slot when it is copied, and a slot that somebody
//! else could have copied is not given to anybody (`Taps::show`).
//!
//! The descriptor can be kept, or passed on, when the tap has ended. Its memory goes on counting as a tap of the user's
//! until nobody has it: the ring's number in the kernel then leads nowhere (`exos_host::bpf::map_exists`).

mod programs;
mod serving;
mod state;

pub(super) use serving::Wanted;
pub(super) use state::Taps;
