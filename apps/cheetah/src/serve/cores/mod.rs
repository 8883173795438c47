//! One loop for each core, and all of them together: places, threads, who leads, what they say to one another, when they wait.

pub(in crate::serve) mod connection_limit;
pub(in crate::serve) mod leader;
pub(in crate::serve) mod placement;
pub(in crate::serve) mod server_loop;
pub(in crate::serve) mod threads;
pub(in crate::serve) mod wait;
pub(in crate::serve) mod worker;
