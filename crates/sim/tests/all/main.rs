//! All integration tests of this crate, in one program: each module has its own first line.

mod amplification;
mod bbr;
mod closing;
mod cookies;
mod datagrams;
mod forge;
mod handover;
mod handshake;
mod hostile;
mod idle;
mod interop;
mod life;
mod loss;
mod mtu;
mod neighbors;
mod receiving;
mod states;
mod transfer;
mod windows;
