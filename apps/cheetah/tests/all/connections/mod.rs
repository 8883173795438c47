//! Connections: their limits, slow and bad ones, applications, and the kernel's sockets.

mod applications;
mod limits;
mod proxy;
mod slow_readers;
mod sockets;
mod sockets_steps;
mod worst_wire;
