//! Connections: their limits, slow and bad ones, applications, and the kernel's sockets.

mod applications;
mod limits;
mod proxy;
mod proxy_protocol;
mod slow_readers;
mod sockets;
mod sockets_steps;
mod worst_wire;
