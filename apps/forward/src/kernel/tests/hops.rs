//! Neighbours that flows go to.

use std::cell::RefCell;
use std::net::IpAddr;

use super::super::hops::{Addresses, Hops};
use super::*;
use crate::limits::KERNEL_HOPS_MAX;

/// What was written where.
#[derive(Default)]
struct Written(RefCell<Vec<(u32, u8, Option<Mac>)>>);

impl Addresses for Written {
    fn set(&self, hop: u32, link: u8, mac: Option<Mac>) {
        self.0.borrow_mut().push((hop, link, mac));
    }
}

impl Written {
    fn take(&self) -> Vec<(u32, u8, Option<Mac>)> {
        self.0.take()
    }
}

/// A neighbour is one hop for all flows to them; a new link address of theirs is written once.
#[test]
fn hops_follow_neighbours() {
    let (mut stack, mut hops, out) = (stack(), Hops::default(), Written::default());
    let server: IpAddr = "10.0.0.11".parse().unwrap();
    let take = |hops: &mut Hops, stack: &mut Stack, to| hops.take(now(), (1, stack), &out, to);
    let hop = take(&mut hops, &mut stack, server).unwrap();
    assert_eq!(take(&mut hops, &mut stack, server), Some(hop));
    assert_eq!(out.take(), [(hop, 1, None)], "they are asked for");
    hops.refresh(now(), (1, &mut stack), &out);
    out.take();
    for mac in [SERVER_MAC, Mac([2, 0, 0, 0, 0, 12])] {
        stack.set_neighbor(now(), server, mac);
        hops.refresh(now(), (1, &mut stack), &out);
        hops.refresh(now(), (1, &mut stack), &out);
        assert_eq!(out.take(), [(hop, 1, Some(mac))]);
    }
    hops.give(&out, hop);
    assert_eq!(out.take(), [], "another flow names it");
    hops.give(&out, hop);
    assert_eq!(out.take(), [(hop, 1, None)]);
    // Nobody leads there.
    let nowhere = "192.0.2.1".parse().unwrap();
    assert_eq!(take(&mut hops, &mut stack, nowhere), None);
}

/// Numbers are given out again as late as can be, and no more than there are.
#[test]
fn hops_are_bounded() {
    let mut config = Config::new(MAC, 1500);
    config.neighbors = Neighbors::External;
    config.addresses = vec![("10.0.0.20".parse().unwrap(), 8)];
    let mut stack = Stack::new(config, 1, now()).unwrap();
    let (mut hops, out) = (Hops::default(), Written::default());
    let host = |n: u32| IpAddr::from((0x0a01_0000 + n).to_be_bytes());
    let mut take = |hops: &mut Hops, n| hops.take(now(), (0, &mut stack), &out, host(n));
    for n in 0..KERNEL_HOPS_MAX {
        assert_eq!(take(&mut hops, n), Some(n));
    }
    assert_eq!(take(&mut hops, KERNEL_HOPS_MAX), None);
    hops.give(&out, 7);
    hops.give(&out, 5);
    let next = [1, 2, 3].map(|n| take(&mut hops, KERNEL_HOPS_MAX + n));
    assert_eq!(next, [Some(7), Some(5), None]);
}

/// A neighbour that another core's stack was asked for is then found, and followed, by the stack that finds all.
#[test]
fn hops_of_another_stack_are_found_by_the_first() {
    let (mut first, mut other) = (stack(), stack());
    let (mut hops, out) = (Hops::default(), Written::default());
    let server: IpAddr = "10.0.0.11".parse().unwrap();
    hops.refresh(now(), (0, &mut first), &out);
    other.set_neighbor(now(), server, SERVER_MAC);
    let hop = hops.take(now(), (0, &mut other), &out, server).unwrap();
    assert_eq!(out.take(), [(hop, 0, Some(SERVER_MAC))]);
    assert!(hops.have_come() && !hops.have_come());
    hops.look_again();
    hops.refresh(now(), (0, &mut first), &out);
    assert_eq!(out.take(), [(hop, 0, None)], "the first asks for them");
    first.set_neighbor(now(), server, SERVER_MAC);
    hops.refresh(now(), (0, &mut first), &out);
    assert_eq!(out.take(), [(hop, 0, Some(SERVER_MAC))]);
}
