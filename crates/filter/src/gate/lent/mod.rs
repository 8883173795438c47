//! The programs that a slot's holder runs by itself, so that many frames leave by one system call, each of them checked.

mod batch;
mod live;

pub use batch::{Batch, Namespace, batch};
pub use live::{CALL_LEN, METADATA_LEN, Origin, live, metadata};
