//! Next hops of flows in the kernel: a number for each neighbour that some flow's packets go to.
//!
//! The kernel has a table of links and link addresses, and flows name places in it. One that is not known is empty there: packets
//! to it come to user space, which asks for it. Numbers that were given back are given out again as late as can be, since
//! a packet may be on its way through the program at that moment.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use exos_inet::{Instant, Stack};
use exos_wire::Mac;

use crate::limits::KERNEL_HOPS_MAX;

/// Where link addresses are written to.
pub trait Addresses {
    /// The link that a hop is on, and its address there; `None` where that is not known.
    fn set(&self, hop: u32, link: u8, mac: Option<Mac>);
}

/// All hops that are in use.
#[derive(Default)]
pub struct Hops {
    by_neighbour: HashMap<(u8, IpAddr), u32>,
    hops: Vec<Hop>,
    free: VecDeque<u32>,
    /// The neighbours' generation of which everything is written, on each link.
    generations: Vec<u64>,
    /// Some have come since [`Hops::have_come`] was asked.
    have_come: bool,
}

struct Hop {
    /// By its number.
    link: u8,
    neighbour: IpAddr,
    mac: Option<Mac>,
    /// Flows that name it; none for one that is free.
    users: u32,
}

impl Hops {
    /// The hop of packets to this host, which leave by this link with its stack, for one flow more. `None` where no route leads
    /// there, or all numbers are in use.
    pub fn take(
        &mut self,
        now: Instant,
        (link, stack): (u8, &mut Stack),
        out: &impl Addresses,
        to: IpAddr,
    ) -> Option<u32> {
        let neighbour = stack.next_hop(to)?;
        if let Some(&hop) = self.by_neighbour.get(&(link, neighbour)) {
            self.hops[hop as usize].users += 1;
            return Some(hop);
        }
        let hop = self.place()?;
        let mac = stack.link_address(now, neighbour);
        let entry = Hop {
            link,
            neighbour,
            mac,
            users: 1,
        };
        match self.hops.get_mut(hop as usize) {
            Some(place) => *place = entry,
            None => self.hops.push(entry),
        }
        self.by_neighbour.insert((link, neighbour), hop);
        self.have_come = true;
        out.set(hop, link, mac);
        Some(hop)
    }

    fn place(&mut self) -> Option<u32> {
        let next = self.hops.len() as u32;
        match next < KERNEL_HOPS_MAX {
            true => Some(next),
            false => self.free.pop_front(),
        }
    }

    /// One flow less names it. Nothing happens where none does: the number comes from memory that others can write.
    pub fn give(&mut self, out: &impl Addresses, hop: u32) {
        let entry = self.hops.get_mut(hop as usize);
        let Some(entry) = entry.filter(|hop| hop.users > 0) else {
            return;
        };
        entry.users -= 1;
        if entry.users == 0 {
            self.by_neighbour.remove(&(entry.link, entry.neighbour));
            entry.mac = None;
            out.set(hop, entry.link, None);
            self.free.push_back(hop);
        }
    }

    /// Whether hops have come since this was last asked.
    pub fn have_come(&mut self) -> bool {
        std::mem::take(&mut self.have_come)
    }

    /// The next [`refresh`](Self::refresh) asks its stack for all neighbours: another one was asked for some.
    pub fn look_again(&mut self) {
        self.generations.clear();
    }

    /// Writes the link addresses that have changed on a link, with this stack. Asking for them says that the neighbours are in use.
    pub fn refresh(&mut self, now: Instant, (link, stack): (u8, &mut Stack), out: &impl Addresses) {
        let generation = stack.neighbors().generation();
        let place = usize::from(link);
        if self.generations.len() <= place {
            self.generations.resize(place + 1, u64::MAX);
        }
        if std::mem::replace(&mut self.generations[place], generation) == generation {
            return;
        }
        for (number, hop) in (0..).zip(&mut self.hops) {
            if hop.users == 0 || hop.link != link {
                continue;
            }
            let mac = stack.link_address(now, hop.neighbour);
            if hop.mac != mac {
                hop.mac = mac;
                out.set(number, link, mac);
            }
        }
    }
}

#[cfg(test)]
impl Hops {
    /// No flow names any.
    pub(super) fn are_free(&self) -> bool {
        self.hops.iter().all(|hop| hop.users == 0)
    }

    /// The neighbour of a hop.
    pub(super) fn neighbour(&self, hop: u32) -> IpAddr {
        self.hops[hop as usize].neighbour
    }

    /// How many are in use.
    pub(super) fn len(&self) -> usize {
        self.hops.iter().filter(|hop| hop.users > 0).count()
    }
}
