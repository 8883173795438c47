//! All integration tests of this crate, in one program: each module has its own first line.

mod common;
mod corpus;
mod files;
mod live;
mod quic;
mod tcpdump;
mod text;

#[global_allocator]
static HEAP: exos_testing::heap::Counting = exos_testing::heap::Counting;
