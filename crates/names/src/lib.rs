//! Host names to addresses: a caching stub resolver as a state machine, and the choice of an address to connect to.
//!
//! Nothing here performs I/O (but [`files`], which reads two files when it is told to), reads a clock or draws a random
//! number: names, messages, time and a secret go in; messages to send, addresses and a deadline come out. So it works over
//! the stack of this project, over the kernel's sockets, and in tests without either.
//!
//! A turn of a loop around a [`Resolver`], here with a server that answers at once:
//!
//! ```
//! use exos_inet::Instant;
//! use exos_names::{Action, Config, Event, Families, Resolver};
//!
//! # fn send(_port: u16, _to: std::net::SocketAddr, query: &[u8]) -> Vec<u8> {
//! #     let mut answer = query[..query.len() - 11].to_vec();
//! #     (answer[2], answer[3], answer[7], answer[11]) = (0x81, 0x80, 1, 0);
//! #     answer.extend(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x07");
//! #     answer
//! # }
//! # let secret = 1;
//! let now = Instant::from_millis(1); // Of a clock that never goes back.
//! let config = Config::parse("nameserver 192.0.2.53", "", &|_| None);
//! let mut resolver = Resolver::new(config, secret);
//! let lookup = resolver.lookup(now, "www.example", Families::Ipv4).unwrap();
//!
//! while let Some(action) = resolver.poll_action() {
//!     if let Action::Datagram { query, port, server, message } = action {
//!         let answer = send(port, server, &message);
//!         resolver.handle_datagram(now, query, server, &answer);
//!     }
//! }
//! resolver.handle_timeout(now);
//! while let Some(event) = resolver.poll_event() {
//!     if let Event::Done { result, .. } = event {
//!         assert_eq!(result.unwrap(), ["192.0.2.7".parse::<std::net::IpAddr>().unwrap()]);
//!     }
//! }
//! let sleep_until = resolver.poll_timeout(); // Or until something comes.
//! ```
//!
//! The loop around it over sockets of either kind is in the crate `exos` (`exos::names`, `exos::net::Names`).
//! What the parts are, in the order in which a lookup meets them:
//!
//! | file | job |
//! |---|---|
//! | [`config`], [`files`] | what `/etc/resolv.conf` and `/etc/hosts` say |
//! | [`resolver`] | takes lookups and messages, asks the cache, tells what was found |
//! | `action`, `family` | what comes out of it |
//! | [`name`], `meaning` | syntax of names; addresses, `localhost` and hosts; the search list |
//! | `lookup` | one lookup: both families of one name after the other |
//! | `cache` | what is known, and for how long |
//! | `exchanges` | queries under way: who waits, what is dropped, what is sent |
//! | `exchange` | the table: what an event leads to |
//! | `servers` | which server is asked next, and how |
//! | `message` | a query in bytes, and what an answer's bytes mean |
//! | [`connect`] | which address to connect to, and when |
//! | [`mod@counters`], [`error`], [`limits`] | a name for every drop, a sentence for every failure, a reason for every bound |
//!
//! What it does not do: names in other scripts than ASCII (IDNA), other records than addresses, names of addresses,
//! multicast DNS, DNSSEC, DNS over TLS or HTTPS, sorting of addresses by RFC 6724.
#![forbid(unsafe_code)]

mod action;
mod cache;
pub mod config;
pub mod connect;
pub mod counters;
pub mod error;
mod exchange;
mod exchanges;
mod family;
pub mod files;
pub mod limits;
mod lookup;
mod meaning;
mod message;
pub mod name;
mod random;
pub mod resolver;
mod servers;

pub use action::{Action, Event, LookupId, QueryId};
pub use config::{Config, Hosts};
pub use connect::Connector;
pub use counters::Counters;
pub use error::{Error, ErrorKind};
pub use family::{Families, Family};
pub use files::Files;
pub use name::Name;
pub use resolver::Resolver;
