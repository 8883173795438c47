//! The ports of ours that one server sees flows come from.
//!
//! Each port leads to its flow: a packet from the server is looked up by reading one entry. Ports of other servers are
//! apart from these, so that each server may have some 64,000 flows; of one protocol, from one address of ours.
//!
//! A flow gets the port that its client has, where it is free: then the server sees the ports of a client change as the
//! client chose, which keeps off those that one side has in TIME-WAIT, and a person who compares traces finds what belongs
//! together. Otherwise ports are given out in turns, so that one is used again as late as can be.
//!
//! Entries are in pages that are made when they are needed, so that a server with few flows costs little. A bit for each
//! port says whether it is free, so that the next free one is found however many before it are not.

use exos_host::memory;

use crate::flow::FlowId;
use crate::limits::{CHECK_PORTS, PORT_FIRST, PORTS_TRIED};

/// Ports in a page.
const PAGE_LEN: usize = 1024;

/// All port numbers.
const PORTS: usize = 1 << 16;

/// Pages of ports.
pub const PAGES: usize = PORTS / PAGE_LEN;

/// No flow.
const NONE: u32 = u32::MAX;

/// The ports of one server.
pub struct Ports {
    pages: Vec<Option<Box<[u32; PAGE_LEN]>>>,
    /// A bit for each port that may be given.
    free: Box<[u64; PORTS / 64]>,
    /// Where the next search begins.
    next: u16,
    /// Taken ports.
    taken: u32,
}

/// A port that may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nobody has it.
    Free(u16),
    /// This flow has it, and may be given up.
    Of(FlowId),
}

impl Default for Ports {
    /// All ports but those that have names, and those of checks.
    fn default() -> Self {
        let mut ports = Self {
            pages: (0..PAGES).map(|_| None).collect(),
            free: Box::new([u64::MAX; PORTS / 64]),
            next: PORT_FIRST,
            taken: 0,
        };
        (0..PORT_FIRST)
            .chain(CHECK_PORTS)
            .for_each(|port| ports.keep(port));
        ports
    }
}

impl Ports {
    /// The flow that has a port.
    #[inline]
    pub fn get(&self, port: u16) -> Option<FlowId> {
        let page = self.pages[usize::from(port) / PAGE_LEN].as_ref()?;
        let flow = page[usize::from(port) % PAGE_LEN];
        (flow != NONE).then_some(FlowId(flow))
    }

    /// Has fetched what [`get`](Self::get) will read.
    #[inline]
    pub fn prefetch(&self, port: u16) {
        if let Some(page) = &self.pages[usize::from(port) / PAGE_LEN] {
            memory::prefetch(&page[usize::from(port) % PAGE_LEN]);
        }
    }

    /// How many are taken.
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// Never gives this port.
    pub fn keep(&mut self, port: u16) {
        self.free[usize::from(port) / 64] &= !(1 << (port % 64));
    }

    /// May be given from now on: the opposite of [`keep`](Self::keep), for a port that no flow has.
    pub fn release(&mut self, port: u16) {
        let is_given = port >= PORT_FIRST && !CHECK_PORTS.contains(&port);
        if is_given && self.get(port).is_none() {
            self.free[usize::from(port) / 64] |= 1 << (port % 64);
        }
    }

    /// The flows by ports of one page of [`PAGES`].
    pub fn flows(&self, page: usize) -> impl Iterator<Item = FlowId> {
        let page = self.pages[page].as_deref().into_iter().flatten();
        page.filter(|flow| **flow != NONE).map(|flow| FlowId(*flow))
    }

    /// True for a port that may be given to a flow.
    pub fn is_free(&self, port: u16) -> bool {
        self.free[usize::from(port) / 64] >> (port % 64) & 1 == 1
    }

    /// A port for a flow whose client has the port `wanted`: that one if it is free, else the next free one in turn, else
    /// one of the next, of a flow whose `cost` there is: one of none, or the least.
    pub fn find(&mut self, wanted: u16, cost: impl Fn(FlowId) -> Option<u32>) -> Option<Found> {
        if self.is_free(wanted) {
            return Some(Found::Free(wanted));
        }
        if let Some(port) = self.next_free() {
            self.next = port.wrapping_add(1);
            return Some(Found::Free(port));
        }
        let mut cheapest = None;
        for _ in 0..PORTS_TRIED {
            let port = self.next;
            self.next = port.wrapping_add(1).max(PORT_FIRST);
            let Some((flow, cost)) = self.get(port).and_then(|flow| Some((flow, cost(flow)?)))
            else {
                continue;
            };
            if cost == 0 {
                return Some(Found::Of(flow));
            }
            if cheapest.is_none_or(|(least, _)| cost < least) {
                cheapest = Some((cost, flow));
            }
        }
        cheapest.map(|(_, flow)| Found::Of(flow))
    }

    /// The first free port from the next in turn on, and then from the first.
    fn next_free(&self) -> Option<u16> {
        let (word, bit) = (usize::from(self.next) / 64, self.next % 64);
        let words = self.free.len();
        // The word in which the search begins is looked at twice: from there on, and in the end as a whole.
        (0..=words).find_map(|n| {
            let at = (word + n) % words;
            let mask = if n == 0 { u64::MAX << bit } else { u64::MAX };
            let free = self.free[at] & mask;
            (free != 0).then(|| (at * 64) as u16 + free.trailing_zeros() as u16)
        })
    }

    /// Gives a free port to a flow.
    pub fn take(&mut self, port: u16, flow: FlowId) {
        assert!(self.is_free(port), "port {port} is not to be given");
        self.keep(port);
        let page = &mut self.pages[usize::from(port) / PAGE_LEN];
        let page = page.get_or_insert_with(|| Box::new([NONE; PAGE_LEN]));
        page[usize::from(port) % PAGE_LEN] = flow.0;
        self.taken += 1;
    }

    /// The port is free again.
    pub fn give(&mut self, port: u16) {
        let page = self.pages[usize::from(port) / PAGE_LEN].as_mut();
        let page = page.expect("a port that was taken");
        let before = std::mem::replace(&mut page[usize::from(port) % PAGE_LEN], NONE);
        assert_ne!(before, NONE, "port {port} is nobody's");
        self.free[usize::from(port) / 64] |= 1 << (port % 64);
        self.taken -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(ports: &mut Ports, wanted: u16, flow: u32) -> u16 {
        match ports.find(wanted, |_| None) {
            Some(Found::Free(port)) => {
                ports.take(port, FlowId(flow));
                port
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_client_s_own_port_where_it_is_free() {
        let mut ports = Ports::default();
        assert_eq!(take(&mut ports, 40_000, 1), 40_000);
        assert_eq!(take(&mut ports, 40_000, 2), PORT_FIRST);
        assert_eq!(
            take(&mut ports, 53, 3),
            PORT_FIRST + 1,
            "not one with a name"
        );
        assert_eq!(ports.get(40_000), Some(FlowId(1)));
        ports.give(40_000);
        assert_eq!((ports.get(40_000), ports.taken()), (None, 2));
    }

    #[test]
    fn all_ports_are_given_once_and_none_that_is_reserved() {
        let mut ports = Ports::default();
        let reserved = [8080, PORT_FIRST, u16::MAX];
        reserved.iter().for_each(|&port| ports.keep(port));
        let count = u32::from(u16::MAX - PORT_FIRST) + 1 - 3 - CHECK_PORTS.len() as u32;
        for flow in 0..count {
            let Some(Found::Free(port)) = ports.find(1, |_| None) else {
                panic!("after {flow}");
            };
            assert!(
                !reserved.contains(&port) && !CHECK_PORTS.contains(&port) && port >= PORT_FIRST
            );
            ports.take(port, FlowId(flow));
        }
        assert_eq!((ports.taken(), ports.find(1, |_| None)), (count, None));
    }

    /// Where all are taken, those of flows that may be given up are found, in turns.
    #[test]
    fn spare_flows_make_room() {
        let mut ports = Ports::default();
        let all = (PORT_FIRST..=u16::MAX).filter(|port| !CHECK_PORTS.contains(port));
        all.for_each(|port| ports.take(port, FlowId(port.into())));
        let is_spare = |flow: FlowId| flow.0.is_multiple_of(10).then_some(0);
        let mut found = Vec::new();
        for _ in 0..100 {
            let Some(Found::Of(flow)) = ports.find(5000, is_spare) else {
                panic!("a tenth may be given up");
            };
            found.push(flow.0);
        }
        assert!(found.is_sorted_by(|a, b| a < b), "{found:?}");
        assert!(found.iter().all(|flow| flow % 10 == 0));
        // Where none is to be had for nothing, the cheapest of those that are looked at.
        let Some(Found::Of(flow)) = ports.find(5000, |flow| Some(70_000 - flow.0)) else {
            panic!("all may be given up");
        };
        let last = found.last().expect("a hundred") + PORTS_TRIED as u32;
        assert_eq!(flow.0, last);
    }
}
