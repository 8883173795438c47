//! Connections: their limits, slow and bad ones, and the kernel's sockets.

mod limits;
mod slow_readers;
mod sockets;
mod sockets_steps;
mod worst_wire;
