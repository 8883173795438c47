//! Connections: their limits, slow and bad ones, those of HTTP/2 and HTTP/3, applications, and the kernel's sockets.

mod applications;
mod http2;
mod http2_life;
mod http3;
mod limits;
mod proxy;
mod slow_readers;
mod sockets;
mod sockets_steps;
mod worst_wire;
