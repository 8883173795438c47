//! Sockets on a stack of the program's own, for tokio and hyper: [`TcpListener`], [`TcpStream`] and [`UdpSocket`] shaped as those
//! of `tokio::net`.
//!
//! ```no_run
//! use exos::OwnPair;
//! use exos_tokio::{Net, TcpListener};
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let net = Net::attach(OwnPair::new())?;
//! let listener = TcpListener::bind(&net, "0.0.0.0:7")?;
//! exos_tokio::block_on(&net, async {
//!     loop {
//!         let (mut stream, _) = listener.accept().await?;
//!         tokio::task::spawn_local(async move {
//!             let mut bytes = [0; 4096];
//!             while let Ok(count @ 1..) = stream.read(&mut bytes).await {
//!                 if stream.write_all(&bytes[..count]).await.is_err() {
//!                     break;
//!                 }
//!             }
//!         });
//!     }
//! #   #[allow(unreachable_code)]
//! #   Ok::<(), std::io::Error>(())
//! })??;
//! # Ok(()) }
//! ```
//!
//! A stack belongs to its thread: so its tasks are of a `LocalSet`, which [`block_on`] makes, on a runtime of one thread. A program on
//! several threads has a stack and a runtime in each. Beside our sockets everything of tokio's works as ever: timers, channels,
//! sockets and files of the kernel's, `spawn_blocking`.
//!
//! What tasks write leaves with the stack's next turn, when all tasks that can go on have gone on: many answers in one system call.
//! Nothing is lost when a future is dropped: bytes are taken from a socket, or given to it, within one poll.
//!
//! | file | job |
//! |---|---|
//! | `run` | [`block_on`], and the task that runs the stack ([`drive`]) |
//! | `stream`, `listener`, `datagrams` | the sockets |
//! | `names` | [`lookup`] and [`TcpStream::connect_name`] |
//! | `hyper` | hyper's traits: [`TcpStream`] is its I/O, [`LocalExecutor`] its executor |
#![deny(unsafe_code)]

mod datagrams;
#[cfg(feature = "hyper")]
mod hyper;
mod listener;
mod names;
mod run;
mod stream;

pub use crate::datagrams::UdpSocket;
#[cfg(feature = "hyper")]
pub use crate::hyper::LocalExecutor;
pub use crate::listener::TcpListener;
pub use crate::names::lookup;
pub use crate::run::{block_on, drive};
pub use crate::stream::TcpStream;
pub use exos::net::{Names, Net};
