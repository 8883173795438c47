//! One loop for each core, and all of them together: places, threads, who leads, what they say to one another, when they wait.

pub(in crate::serve) mod lead;
pub(in crate::serve) mod places;
pub(in crate::serve) mod room;
pub(in crate::serve) mod server_loop;
pub(in crate::serve) mod threads;
pub(in crate::serve) mod wait;
pub(in crate::serve) mod worker;
