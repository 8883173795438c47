//! What an application links: it listens at a Unix socket, hears requests of web servers, and answers with pages made of slices.
//!
//! ```no_run
//! use exos_application::{Answer, Application, Head};
//! use exos_iolite::Shape;
//!
//! fn main() -> exos_iolite::Result<()> {
//!     let mut application = Application::listen("/run/hello.sock", Shape::of(256))?;
//!     // Made once; servers remember these bytes and their sums.
//!     let before = application.pool().copy(b"Hello! You asked for ")?;
//!     application.serve(|request, pool| {
//!         let asked = pool.copy(request.variable("SCRIPT_NAME").unwrap_or(b"nothing"))?;
//!         let head = Head::new(200).field("Content-Type", "text/plain");
//!         Ok(Answer::new(head).kept(before.clone()).fresh(asked))
//!     })
//! }
//! ```
//!
//! What takes longer, or makes its pages bit by bit, has [`Application::wait`] tell it what happens, and answers each request by its
//! [`RequestId`] when it likes. One that has a loop of its own polls the application's descriptor in that. All belongs to one thread; an application that uses several cores has a process, or a socket, for each.

mod account;
mod answer;
mod application;
mod body;
mod event;
mod exchange;
mod heads;
mod link;
mod links;
mod listener;
mod request;
mod watch;

pub use answer::{Answer, Head};
pub use application::Application;
pub use event::{Event, RequestId};
pub use request::Request;
