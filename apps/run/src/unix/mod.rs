//! Sockets that go by a Unix socket: it takes the place of the network socket in the program, and its other end is ours.
//!
//! | file | job |
//! |---|---|
//! | `sockets` | all of them, by what a descriptor of a program's refers to |
//! | `calls`, `options` | what intercepted calls do to one |
//! | `epoll_sets` | the epoll sets in which it takes that place, too |
//! | `turns` | what goes on when one of the ends is ready |
//! | `flow` | bytes between a Unix socket and a connection |
//! | `datagrams` | datagrams between a Unix socket and a socket of the stack's |

mod calls;
mod datagrams;
mod epoll_sets;
mod flow;
mod options;
mod sockets;
mod turns;

pub(crate) use self::datagrams::DatagramFlow;
pub(crate) use self::flow::{Flow, ready};
pub(crate) use self::sockets::{Connecting, Kind, Listening, Made, UnixSockets, pair};
