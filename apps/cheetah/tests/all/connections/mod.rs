//! Connections: their limits, slow and bad ones, those of HTTP/2 and HTTP/3, applications, and the kernel's sockets.

mod applications;
mod caching;
mod http2;
mod http2_bodies;
mod http2_life;
mod http2_streams;
mod http3;
mod http3_bodies;
mod lent;
mod limits;
mod proxy;
mod proxy_protocol;
mod slow_readers;
mod sockets;
mod sockets_steps;
mod worst_wire;
