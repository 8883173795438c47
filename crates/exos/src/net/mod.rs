//! Sockets: [`TcpListener`], [`TcpStream`] and [`UdpSocket`], shaped as those of `std::net`, on a stack of the program's own.
//!
//! ```no_run
//! use std::io::{Read as _, Write as _};
//!
//! use exos::OwnPair;
//! use exos::net::{Net, TcpListener};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let net = Net::attach(OwnPair::new())?; // The stack that all sockets below are on.
//! let listener = TcpListener::bind(&net, "0.0.0.0:7")?;
//! for stream in listener.incoming() {
//!     let mut stream = stream?;
//!     let mut request = [0; 4096];
//!     let count = stream.read(&mut request)?;
//!     stream.write_all(&request[..count])?;
//! } // Dropped: what was written is delivered, and then the connection ends.
//! # Ok(()) }
//! ```
//!
//! A program written for `std::net` changes where it binds and connects: there a [`Net`] comes first. The rest is as there, with
//! these differences:
//!
//! - **A stack belongs to its thread,** and so do its sockets: they are not `Send`. A program on several threads has a `Net`
//!   in each ([`Core`](crate::Core)); in one thread many connections are waited for together with [`Poll`], or as tasks of an
//!   asynchronous runtime (the crate `exos-tokio`).
//! - **There is no thread behind it.** A call that waits runs the whole stack meanwhile: it receives, acknowledges, sends again
//!   what was lost, for all sockets. A program that computes for long calls [`Net::turn`] now and then.
//! - **When what was written leaves.** On a blocking socket before the call returns, as in `std`. On a non-blocking one with the
//!   next call that waits ([`Poll::wait`]) or with [`Net::turn`]: many answers in one system call.
//! - **Nagle's algorithm is off** unless `set_nodelay(false)` is called.
//! - Names are those of the kernel's resolver where a call takes a `ToSocketAddrs`, and of the stack's own with [`Names`].
//! - What is sent can be given without a copy ([`TcpStream::send`]), and what came can be read where it lies
//!   ([`TcpStream::read_with`]), or copied through [pipes](crate::pipes) ([`TcpStream::read_through`], [`UdpSocket::recv_through`]).
//! - A connection goes to another process with [`TcpStream::hand_over`], in place of `SCM_RIGHTS` and of `fork`.
//!
//! | file | job |
//! |---|---|
//! | `stack`, `holder` | [`Net`]: one turn of the stack, waiting until something holds; what its clones share |
//! | `table` | what is known of each socket, and who waits for it |
//! | `stream`, `listener`, `datagrams` | the sockets |
//! | `transfer` | what the calls of a stream do to the stack |
//! | `through` | receiving through pipes |
//! | `names`, `connect` | [`Names`]: a resolver on the stack, and connecting by name |
//! | `poll`, `watches` | [`Poll`]: waiting for many of them, and for descriptors of the kernel's; what is registered |
//! | `claims` | ports of addresses that a daemon lends |
//! | `handover` | connections that go to another process |
//! | `errors` | how the stack's errors are said in `std`'s |

mod claims;
mod connect;
mod datagrams;
mod errors;
mod handover;
mod holder;
mod inner;
mod listener;
mod names;
mod poll;
mod stack;
mod stream;
mod table;
mod through;
mod transfer;
mod watches;

pub use connect::{Connect, Lookup};
pub use datagrams::{BindOptions, UdpSocket};
pub use exos_host::uring::WordWait;
pub use handover::NotHandedOver;
pub use listener::{Incoming, TcpListener};
pub use names::Names;
pub use poll::{Events, Poll};
pub use stack::Net;
pub use stream::TcpStream;
pub use watches::{Interest, PollEvent, Source, Token, Trigger};
