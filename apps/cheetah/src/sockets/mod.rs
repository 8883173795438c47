//! `exos serve --sockets`: the same server on the kernel's sockets, to be measured against (the papers' Baseline).
//!
//! One thread, epoll, sockets that do not block. Connections, HTTP, documents, log and statistics are those of the other
//! way; what differs is what a general interface makes of them: each connection is accepted by a system call, each request
//! read by one and copied on the way, each response copied into the kernel by another, which keeps it for retransmission.
//! Long files the kernel sends from its own memory (sendfile), and this thread waits for the disk, as servers of this kind
//! do.

mod datagrams;
mod listener;
mod server;

pub use server::SocketServer;
