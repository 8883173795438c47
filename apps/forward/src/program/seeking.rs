//! Asks for the link addresses of servers as soon as they are there, so that the first clients need not wait for them, and tells
//! a person where nobody answers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use exos_inet::{Instant, Stack};
use exos_wire::Mac;

use crate::limits::SEEK_TIME;
use crate::service::Services;

/// What was asked for.
#[derive(Default)]
pub struct Seeking {
    /// Of which state of the services.
    known: Option<u64>,
    /// When the answers should be there.
    due: Option<Instant>,
    /// Where nobody has answered, and a person knows.
    told: BTreeSet<IpAddr>,
}

impl Seeking {
    /// Asks, if there are others than before; then the servers where nobody has answered in time, once each.
    /// `find` says where somebody is, and asks where that is not known.
    pub fn turn(
        &mut self,
        now: Instant,
        find: &mut impl FnMut(IpAddr) -> Option<Mac>,
        services: &Services,
    ) -> Vec<IpAddr> {
        let servers = || services.present().map(|(_, s)| IpAddr::from(s.at.address));
        let changes = services.changes();
        if self.known != Some(changes) {
            self.known = Some(changes);
            self.due = Some(now + SEEK_TIME);
            servers().for_each(|server| _ = find(server));
        }
        let mut silent = Vec::new();
        if self.due.take_if(|due| *due <= now).is_some() {
            let before = std::mem::take(&mut self.told);
            for server in servers() {
                if find(server).is_none() && self.told.insert(server) {
                    silent.push(server);
                }
            }
            silent.retain(|server| !before.contains(server));
        }
        silent
    }

    /// When something is due next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}

/// What a person is told of one.
pub fn in_words(stack: &Stack, server: IpAddr) -> String {
    match stack.next_hop(server).filter(|hop| *hop != server) {
        None => format!(
            "nobody has the address {server} on this link: clients get no answer from there"
        ),
        Some(router) => format!(
            "nobody has the router's address {router} on this link: clients get no answer from {server}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::packets::packet::Transport;
    use crate::packets::reach::Reach;
    use crate::service::Listen;
    use exos_inet::{Config, Duration};

    /// Of three servers one is there; the others are told once, and again only when they were there meanwhile.
    #[test]
    fn who_does_not_answer_is_told_once() {
        let at = |n: u8| SocketAddr::from(([10, 0, 0, n], 80));
        let to = |n: u8| (at(n), 1, at(1).ip());
        let listen = Listen {
            transport: Transport::Tcp,
            at: at(1),
            reach: Reach::Nat,
            to: vec![
                to(2),
                to(3),
                ("192.0.2.9:80".parse().unwrap(), 1, at(1).ip()),
            ],
        };
        let mut services = Services::new(&[listen]).unwrap();
        let mut now = Instant::from_millis(1000);
        let mut config = Config::new(Mac([2, 0, 0, 0, 0, 1]), 1500);
        config.addresses = vec![(at(1).ip(), 24)];
        config.gateways = vec![at(254).ip()];
        let mut stack = Stack::new(config, 1, now).unwrap();
        let mut seeking = Seeking::default();
        assert!(turn(&mut seeking, now, &mut stack, &services).is_empty());
        let mut asked = Vec::new();
        let due = seeking.poll_timeout().unwrap();
        while now < due {
            while let Some(frame) = stack.poll_transmit(now) {
                asked.push(frame.head[41]);
                if frame.head[41] == 2 {
                    answer(&mut stack, now);
                }
            }
            now += Duration::from_millis(100);
            stack.handle_timeout(now);
            assert!(now >= due || turn(&mut seeking, now, &mut stack, &services).is_empty());
        }
        assert!([2, 3, 254].iter().all(|n| asked.contains(n)), "{asked:?}");
        let silent = turn(&mut seeking, now, &mut stack, &services);
        assert_eq!(silent, [at(3).ip(), "192.0.2.9".parse().unwrap()]);
        assert!(in_words(&stack, silent[0]).contains("the address 10.0.0.3"));
        assert!(in_words(&stack, silent[1]).contains("router's address 10.0.0.254"));
        assert_eq!(seeking.poll_timeout(), None);
        services.add_server(0, at(4), 1, at(1).ip()).unwrap();
        assert!(turn(&mut seeking, now, &mut stack, &services).is_empty());
        now = seeking.poll_timeout().unwrap();
        assert_eq!(turn(&mut seeking, now, &mut stack, &services), [at(4).ip()]);
    }

    fn turn(
        seeking: &mut Seeking,
        now: Instant,
        stack: &mut Stack,
        services: &Services,
    ) -> Vec<IpAddr> {
        seeking.turn(now, &mut |server| stack.link_address(now, server), services)
    }

    /// The second host says where it is.
    fn answer(stack: &mut Stack, now: Instant) {
        let (ours, theirs) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let builder = etherparse::PacketBuilder::ethernet2(theirs, ours);
        let arp = etherparse::ArpPacket::new(
            etherparse::ArpHardwareId::ETHERNET,
            etherparse::EtherType::IPV4,
            etherparse::ArpOperation::REPLY,
            &theirs,
            &[10, 0, 0, 2],
            &ours,
            &[10, 0, 0, 1],
        );
        let mut frame = Vec::new();
        builder.arp(arp.unwrap()).write(&mut frame).unwrap();
        stack.handle_frame(now, &frame, exos_inet::RxChecksum::Unknown);
    }
}
