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
//! | `input`, `header_prediction` | the way in; the headers that nearly all segments have |
//! | `datagrams` | UDP |
//! | `handler` | what deals with datagrams and messages of connections before the program does |
//! | `messages`, `pings`, `neighbors` | ICMP; what is heard of neighbours |
//! | `output`, `segments`, `body` | the way out; heads of segments, and their data |
//! | `packets`, `passing` | what leaves and is no segment; what others forward |
//! | `path_cache` | link addresses looked up lately |
//! | `loopback` | what goes to our own addresses |
//! | `turns` | news, and time |

mod body;
mod config;
mod datagrams;
mod handler;
mod header_prediction;
mod input;
mod loopback;
mod messages;
mod neighbors;
mod output;
mod packet;
mod packets;
mod passing;
mod path_cache;
mod pings;
mod segments;
mod state;
mod syn_offload;
mod turns;

pub use body::Body;
pub use config::{Config, Neighbors, Offload, RouteTo};
pub use exos_wire::offload::{RxChecksum, TxChecksum};
pub use handler::{Framing, Handled, MessageHandler};
pub use input::Concern;
pub use output::Transmit;
pub use pings::EchoReply;
pub use state::{FastPaths, Stack};
