//! HTTP/3: QUIC's connections and their requests, beside the connections of TCP (RFC 9000, RFC 9114).
//!
//! QUIC is `quinn-proto`'s: datagrams and times go in, datagrams come out, with [`exos_quic`] around. What is in its streams `exos-http3` reads. Each request is
//! as a connection of one request to all that answers it, as a stream of HTTP/2 is: its head is kept as the text that HTTP/1.1 has
//! for it, and its response comes as a header block and slices of a body.
//!
//! In a turn: [`Quic::begin_turn`], [`Quic::receive`] for each datagram that has come, then [`Beside`] is what carries the server's
//! connections, and at the end [`Quic::transmit`] until it gives nothing.
//!
//! | file | what is in it |
//! |---|---|
//! | [`endpoint`] | the order of a turn: datagrams in and out, and which connections begin |
//! | [`links`] | all connections: what becomes of datagrams and times; what the server says of their requests |
//! | [`link`] | a connection: its requests as they come, what leaves, its end |
//! | [`control`] | the streams of a connection that go one way: settings, priorities |
//! | [`request`] | a request: its text and body in, its response out |
//! | [`queue`] | what is to leave of a response |
//! | [`streams`] | which request is on which stream |
//! | [`requests`] | all requests, by the identities that the server knows them by |
//! | [`sections`] | the field sections of responses, which are often the same |
//! | [`shared`] | what all connections share; of that, [`news`]: what the server is to hear of requests |
//! | [`waiting`] | how much of a connection's requests may wait for the server |
//! | [`beside`] | the transport |
//! | [`config`] | what connections begin with: certificates, windows |
//! | [`counters`] | what happened, by name |

mod beside;
mod config;
mod control;
mod counters;
mod endpoint;
mod handshake;
mod link;
mod links;
mod news;
mod queue;
mod request;
mod requests;
mod sections;
mod shared;
mod streams;
mod waiting;

pub use beside::Beside;
pub use endpoint::Quic;
pub(crate) use requests::is_request;
