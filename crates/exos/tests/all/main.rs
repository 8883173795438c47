//! All integration tests of this crate, in one program: each module has its own first line.

mod common;
mod cores;
mod download;
mod echo;
mod examples;
mod handlers;
mod memcached;
mod multicast;
mod net;
mod own_loop;
mod queues;
mod recording;
mod report;
mod several_handlers;
mod via;
mod watch;
mod whole;
