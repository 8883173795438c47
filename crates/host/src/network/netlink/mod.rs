//! rtnetlink (rtnetlink(7)): interfaces, addresses, routes and neighbours.
//!
//! One request at a time over one socket, answered before the call returns. The kernel's own explanation of a
//! refusal (extended acknowledgement) becomes part of the error. A [`Netlink`] belongs to the network namespace
//! of the thread that opened it, for good; [`crate::netns::NetNs::netlink`] opens one elsewhere.
//!
//! The work is divided by what is asked about: `links`, `addresses`, `routes`, `neighbours`, `filters` of traffic control,
//! `netdev` for what a driver can do with XDP, `nsid` for whether a namespace is there, and `watch` for notices of
//! changes. `exchange` is how all of them ask.
//!
//! Layout of an answer (netlink(7)): a chain of `nlmsghdr { len u32, type u16, flags u16, seq u32, port u32 }`
//! each padded to 4 bytes, ended by `NLMSG_DONE` for dumps or `NLMSG_ERROR` (code 0 = acknowledged).

mod addresses;
mod exchange;
mod filters;
mod links;
mod neighbours;
mod netdev;
mod nsid;
mod routes;
mod watch;

pub use addresses::Address;
pub use exchange::Netlink;
pub use links::{LinkInfo, VethEnd, XdpInfo, XdpMode};
pub use neighbours::{Neighbour, NeighbourState};
pub use netdev::{Netdev, XdpFeatures};
pub use routes::{Route, RouteEntry};
pub use watch::{Change, Watch};
