//! The forwarder itself: takes a frame, changes it, and says where it goes on to.
//!
//! It performs nothing: frames, time and what is known of the link are given to it, and what becomes of a frame is said
//! ([`Verdict`]). One call, [`Forwarder::handle_frame`], does for a packet all that is done: read it, find its flow, note how
//! that stands, rewrite it.
//!
//! ```text
//!                         to a listener                       from a server to a port of ours
//! Packet::read ──> FlowTable::find by client and listener     Ports::get by server and port
//!                    │ none, and it begins a flow                │
//!                    └─ Maglev ── Ports::find ── insert          │
//!                         │                                      │
//!                  client -> listener                     server -> ours
//!                     becomes ours -> server                 becomes listener -> client
//! ```
//!
//! So it is with address translation. Otherwise ([`Reach`](crate::packets::reach::Reach)) the server sees the client, and its
//! answers are found by both of these; or packets keep their ends, and answers do not come here.
//!
//! | file | what is in it |
//! |---|---|
//! | `frames` | the forwarder, and the way of a frame through it |
//! | `verdict`, `direction` | what becomes of a frame, and in which direction it goes |
//! | `shown`, `prefetch` | memory is read before it is needed |
//! | `new_flows` | how flows begin, and which end for others |
//! | `tracking` | what a packet says of its flow |
//! | `failover` | flows that go to another server |
//! | `errors` | ICMP errors about packets that went on |
//! | `stateless` | packets that go on without a flow |
//! | `links` | what is known of the links, and by which a packet leaves |
//! | `generated`, `made` | packets that are not those that came |
//! | `ending`, `change` | what follows when servers change |
//!
//! What is for neither a listener nor a port of ours is the stack's: it answers echo requests and neighbours, and resets what
//! belongs to no flow.

mod change;
mod direction;
mod ending;
mod errors;
mod failover;
mod frames;
mod generated;
mod links;
mod made;
mod new_flows;
mod prefetch;
mod shown;
mod stateless;
mod tracking;
mod verdict;

pub use frames::Forwarder;
pub use links::link_to;
pub use verdict::{NoServer, Verdict};
