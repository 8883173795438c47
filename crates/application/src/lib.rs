//! Pages that another process makes, over buffers that both share: requests go to an *application* over one pipe, answers come back over
//! another (IO-Lite, sections 3.10 and 5.3, in place of FastCGI's copies).
//!
//! An application has a process of its own, so what goes wrong in it harms no server. It makes pages of slices: what it generated once and
//! keeps is sent by reference, and a server that has seen it before neither copies nor sums it again.
//!
//! ```text
//!  server                                                          application
//!  Link ── requests: variables, bodies, room for content ─────────> Application
//!       <─ answers: heads, content by reference, room for bodies ──
//! ```
//!
//! A link carries many requests at once, by number; none of them can keep the others waiting, as each may have so much content under way
//! and no more. When the application ends, what was under way on its links is over.
//!
//! | module | what is in it |
//! |---|---|
//! | [`answering`] | what an application links: start with [`Application`] |
//! | [`asking`] | what a server does: [`Link`](asking::Link) |
//! | [`record`] | what passes between them |
//! | [`limits`] | how much there may be |
//!
//! # Trust
//!
//! A server trusts an application with nothing but the content of its answers. It copies a piece before it looks at it, or sends it, and
//! remembers the copy of a piece that the application keeps, by the identity of its bytes; an application that changes them afterwards,
//! against its word, has the server send what they were. What breaks the rules ends the link.
//!
//! A server can read all of the application's pool.

#![forbid(unsafe_code)]

pub mod answering;
pub mod asking;
pub mod limits;
mod outgoing;
pub mod record;
mod socket;

pub use answering::{Answer, Application, Event, Head, Request, RequestId};
