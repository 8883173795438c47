//! Which addresses are ours, and where a packet goes next.
//!
//! [`Routes`] holds the addresses of one link, each with its on-link prefix, and routes through
//! gateways. It answers three questions of every packet: is this for us ([`Routes::accepts`]), who
//! gets it next ([`Routes::next_hop`]), and whom does it come from ([`Routes::source_for`]).
//!
//! Beside single addresses there are pools: prefixes of which every address is ours ([`Routes::add_pool`]).
//!
//! Rules: the longest matching prefix wins, and on-link wins over a gateway of equal length. A
//! gateway must be on-link itself. Broadcast and multicast destinations are their own next hop, the
//! stack maps them to group MACs. Lookups are linear: a link has a few addresses and routes, and
//! connections keep what they found.
//!
//! Source selection is RFC 6724 cut to what one link needs: the destination itself if ours, then an
//! address of its scope, then the longest common prefix with it.

mod pools;
mod routes;

pub use exos_wire::Prefix;
pub use routes::{ALL_NODES_LINK, Delivery, RouteError, Routes, link_local};
