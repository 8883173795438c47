//! HTTP/1.0 and 1.1 on the server's side, without I/O.
//!
//! A request's way through the files:
//!
//! 1. [`connection`]: bytes of a TCP connection in, slices of buffers out; what is not consumed
//!    stays in the TCP receive buffer, so a connection holds no bytes of its own;
//! 2. [`message::request`](crate::message::request): one head becomes a request or a fault; its
//!    [target](crate::message::target) becomes the path of a document: an `exchange`;
//! 3. `answering`, of the [`server`]: `admission` says whether its client may have anything, `choice` what it leads to;
//! 4. `response`: preconditions (If-Modified-Since and its kin), and parts;
//! 5. `sending`: the answer, put together from slices that exist already: an opening, shared by all responses of one
//!    second, and the document's fields and body, made when the site was loaded; else a [page](crate::site::page). What is
//!    not in memory is a [`Tail`], said in `long`; what a request waits for is [`missing`]. What an application answers is
//!    [`asking`], and by `applications` the server's.
//!
//! # Decisions where the RFCs leave a choice
//!
//! | case | here |
//! |---|---|
//! | line ends with LF alone | accepted (RFC 9112 §2.2 MAY) |
//! | empty lines before a request | ignored (§2.2) |
//! | whole URI as target | its host decides, not Host (RFC 9112 §3.2.2); any host where there is one site |
//! | host that no site names | the default site, or 421, as configured |
//! | `..` above the root | 400; below it, resolved like `.` and empty segments |
//! | `%2F` | a separator like any other, as in nginx; `%00` is refused |
//! | Transfer-Encoding in a request for a document | 411 for chunked, 501 otherwise, then closed |
//! | Content-Length twice, or beside Transfer-Encoding | 400, then closed |
//! | body on GET and HEAD | skipped up to a limit, else 413, then closed |
//! | HEAD that is refused before it is understood | no content all the same (RFC 9110 §9.3.2) |
//! | unknown method / known but not offered, for a document | 501 / 405 with Allow |
//! | HTTP/2.0, HTTP/1.2, HTTP/0.9 version numbers | 505, then closed; no version at all is 400 |
//! | Range | single and several parts for GET; parts that touch are one, at the place of the first (§15.3.7.2) |
//! | Range with more parts than a limit, malformed, twice, or of another unit | ignored (§14.2, §17.15) |
//! | Range with several parts, of a coded variant | ignored: a body of parts cannot say that the parts alone are coded |
//! | If-Range with a date, of a document with variants | does not hold: the date does not tell variants apart (RFC 9110 §8.8.2.2) |
//! | Accept-Encoding that nothing matches | the document as it is (RFC 9110 §12.4.1), also for `identity;q=0` |
//! | OPTIONS | 200 with Allow, for `*` and for whatever GET finds |
//! | `Expect: 100-continue` for a document | final answer at once; closed after it if a body was announced |
//! | status line | `HTTP/1.1` for 1.0 clients too (RFC 9110 §2.5) |

mod admission;
mod answering;
mod applications;
pub mod asking;
mod attempt;
mod choice;
pub mod connection;
pub mod counters;
mod exchange;
mod kept;
mod logging;
mod long;
pub mod missing;
mod outcome;
mod rendered;
mod response;
mod sending;
pub mod server;
mod stream;

pub use asking::Asking;
pub use attempt::Attempt;
pub use connection::{Handled, Next, ServerConnection};
pub use counters::Counters;
pub use kept::role::Use;
pub use missing::Missing;
pub use rendered::Rendered;
pub use response::opening::Manner;
pub use response::tail::{Piece, Tail};
pub use server::Server;
pub(crate) use stream::Streamed;
