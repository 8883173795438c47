//! The stack of one link: takes frames apart, gives each part to its owner, and puts frames together.
//!
//! It performs nothing. Polling order, for each turn of a program's loop:
//!
//! 1. `handle_frame` for every frame that arrived, then `handle_timeout`;
//! 2. `poll_event` until there is none, the program giving its commands: those of connections through
//!    `tcp`, those of datagrams through `udp` and `udp_send`, others by the methods here;
//! 3. `poll_transmit` until there is none, or `poll_transmit_within` where the link may have no room for all;
//! 4. sleep until `poll_timeout`, or until frames arrive.
//!
//! In another order nothing breaks, but acknowledgements may leave without the data that they could
//! have ridden on.
//!
//! | file | job |
//! |---|---|
//! | `state`, `config` | what a stack is made of, and made with |
//! | `input` | the way in: packets taken apart, the headers that nearly all segments have, UDP, ICMP |
//! | `handler` | what deals with datagrams and messages of connections before the program does |
//! | `joined` | segments that came in fragments, where others may have their connections |
//! | `pings`, `neighbors` | answers to pings; what is heard of neighbours |
//! | `output` | the way out: heads of segments and their data, packets that are no segments, link addresses looked up lately |
//! | `passing` | what others forward |
//! | `loopback` | what goes to our own addresses |
//! | `turns` | news, and time |

mod config;
mod handler;
mod input;
mod joined;
mod loopback;
mod neighbors;
mod output;
mod passing;
mod pings;
mod state;
mod syn_offload;
mod turns;

pub use config::{Config, Neighbors, Offload, RouteTo};
pub use exos_wire::offload::{RxChecksum, TxChecksum};
pub use handler::{Framing, Handled, MessageHandler, OfAnother};
pub use input::Concern;
pub use joined::segment::JoinedSegment;
pub use output::Transmit;
pub use output::body::Body;
pub use pings::EchoReply;
pub use state::{FastPaths, Stack};
