//! Requests answered in the kernel: a client's segments through the program (`BPF_PROG_TEST_RUN`), case by case.
//! Needs the privilege to load programs; without it each test says that it was skipped.

mod answers;
mod bench;
mod client;
mod counted;
mod damage;
mod going_up;
mod mistaken;
mod noise;
mod reports;
mod room;
mod silent;
mod steps;
mod unacknowledged;
mod unusual;
mod wire;

use bench::{Bench, ENTRIES, KEY, VERSION, now};
use client::{Client, Got};
use exos_filter::handler::web::layout::{self, copy, entry, handed, slot};
use exos_wire::Mac;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const DROP: u32 = 1;
const PASS: u32 = 2;
const TX: u32 = 3;
const REDIRECT: u32 = 4;
const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// Ours, and the peer's: IPv4, and IPv6.
const ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)),
    IpAddr::V6(Ipv6Addr::new(0xfd10, 1, 0, 0, 0, 0, 2, 3)),
];
const PEERS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 1, 200, 7)),
    IpAddr::V6(Ipv6Addr::new(0xfd10, 1, 0, 0, 9, 8, 200, 7)),
];
const PORT: u16 = 8080;

const FIN: u8 = 1;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// More than is read.
const UNREAD: &[u8] = &[b'x'; layout::REQUEST_MAX + 100];
const REQUEST: &[u8] = b"GET /small HTTP/1.1\r\nHost: here\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsmall\n";
