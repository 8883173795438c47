//! What an attacker needs: an ear on the wire, and frames made from what it heard.

#![allow(dead_code)] // Each test file uses some of it.

use exos_sim::prelude::*;
use exos_wire::tcp::fill_checksum;
use exos_wire::{Sum, ipv4, ipv6, protocol};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

/// What crossed the wire, for the attacker to look at.
pub type Overheard = Rc<RefCell<Vec<(usize, Vec<u8>)>>>;

pub fn overhear(sim: &mut Sim) -> Overheard {
    let heard: Overheard = Rc::default();
    let sink = heard.clone();
    sim.link().drop_if(move |from, frame| {
        sink.borrow_mut().push((from, frame.to_vec()));
        false
    });
    heard
}

/// Where the TCP header begins.
pub fn tcp_at(frame: &[u8]) -> usize {
    14 + if frame[12] == 0x08 {
        ipv4::LEN
    } else {
        ipv6::LEN
    }
}

/// Make the checksum of a TCP frame right again.
pub fn mend(frame: &mut [u8]) {
    let at = tcp_at(frame);
    let address = |from: usize, len: usize| frame[from..from + len].to_vec();
    let ends: [IpAddr; 2] = if at == 34 {
        [26, 30].map(|from| <[u8; 4]>::try_from(address(from, 4)).unwrap().into())
    } else {
        [22, 38].map(|from| <[u8; 16]>::try_from(address(from, 16)).unwrap().into())
    };
    let segment = &mut frame[at..];
    let header_len = (usize::from(segment[12] >> 4) * 4).clamp(20, segment.len());
    let payload = Sum::of(&segment[header_len..]).swapped_if(header_len % 2 == 1);
    let pseudo = Sum::pseudo(ends[0], ends[1], protocol::TCP, segment.len() as u32);
    fill_checksum(&mut segment[..header_len], pseudo.plus(payload));
}

trait SwappedIf {
    fn swapped_if(self, swap: bool) -> Self;
}

impl SwappedIf for Sum {
    fn swapped_if(self, swap: bool) -> Sum {
        if swap { self.swapped() } else { self }
    }
}

/// Make a frame of IPv4 come from elsewhere.
pub fn set_source(frame: &mut [u8], from: Ipv4Addr, port: u16) {
    frame[26..30].copy_from_slice(&from.octets());
    frame[24..26].fill(0);
    let sum = Sum::of(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    mend(frame);
}
