//! Packets that are for others, and that a program takes all the same: those of some senders, for which it is the way to
//! their peers.
//!
//! What such a sender has for the host's own addresses stays the host's.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use exos_filter::Action;
use exos_host::netlink::Netlink;
use exos_link::Link;

use crate::Error;
use crate::attach::rule;
use crate::node::Exos;

/// Whose packets are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sender {
    /// The end that they come from.
    pub at: SocketAddr,
    /// Of TCP; else of UDP.
    pub tcp: bool,
}

impl Exos {
    /// Takes, beside what is for our addresses, what these senders send to anybody, with errors and later fragments of their
    /// hosts; nothing of others any more.
    ///
    /// # Errors
    ///
    /// The link is no interface with a program of ours, or these are more than a program holds.
    pub fn take_from(&mut self, senders: &[Sender]) -> Result<(), Error> {
        let host = Netlink::new()?.all_addresses()?;
        let host: Vec<IpAddr> = host.iter().map(|address| address.ip).collect();
        let mut rules = self.kept.rules.clone();
        for sender in senders {
            rules.push(rule(&ends_of(sender, &host))?);
        }
        let mut hosts: Vec<IpAddr> = senders.iter().map(|sender| sender.at.ip()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for ip in hosts {
            rules.push(rule(&errors_and_fragments_of(ip, &host))?);
        }
        match &mut self.link {
            Link::Xdp(link) => link.set_rules(&rules, Action::Pass),
            Link::Packet(link) => link.set_rules(&rules, Action::Pass),
            Link::Tap(_) | Link::Memory(_) => Err(crate::handlers::needs_interface(
                "only an interface brings what is for others",
            )),
        }
    }

    /// Takes nothing any more: all that comes passes to the host, or to who listens there to follow us. What is in the link's
    /// rings by then is still to be taken in. Nothing happens where the link is no interface with a program of ours.
    ///
    /// # Errors
    ///
    /// The kernel does not let this process change its map of programs (before 5.19, one that has given up its privilege).
    pub fn let_pass(&mut self) -> Result<(), Error> {
        match &mut self.link {
            Link::Xdp(link) if self.via.is_none() => link.let_pass(),
            Link::Packet(link) => {
                link.let_pass();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn ends_of(sender: &Sender, host: &[IpAddr]) -> String {
    let (protocol, at) = (if sender.tcp { "tcp" } else { "udp" }, sender.at);
    let text = format!("{protocol} src port {} and src host {}", at.port(), at.ip());
    but_for(text, at.ip(), host)
}

fn errors_and_fragments_of(ip: IpAddr, host: &[IpAddr]) -> String {
    let what = match ip {
        // RFC 792, and the offset of a fragment.
        IpAddr::V4(_) => "icmp[0] = 3 or icmp[0] = 11 or icmp[0] = 12 or ip[6:2] & 0x1fff != 0",
        // RFC 4443 §2.1: errors are those below 128. A fragment header begins what follows the first.
        IpAddr::V6(_) => "icmp6[0] < 128 or ip6[6] = 44",
    };
    but_for(format!("src host {ip} and ({what})"), ip, host)
}

/// Nothing that is for these addresses.
fn but_for(mut text: String, ip: IpAddr, host: &[IpAddr]) -> String {
    for address in host.iter().filter(|a| a.is_ipv6() == ip.is_ipv6()) {
        let _ = write!(text, " and not dst host {address}");
    }
    text
}

#[cfg(test)]
mod tests {
    use exos_filter::Filter;

    use super::*;

    /// A frame of IPv4 between these, with flags and offset of a fragment, and what it carries.
    fn v4(src: [u8; 4], dst: [u8; 4], protocol: u8, place: [u8; 2], upper: &[u8]) -> Vec<u8> {
        let mut frame = [
            &[2; 12][..],
            &[8, 0, 0x45, 0, 0, 20 + upper.len() as u8, 0, 0],
        ]
        .concat();
        frame.extend([place[0], place[1], 64, protocol, 0, 0]);
        [&frame[..], &src, &dst, upper].concat()
    }

    fn v6(src: u8, dst: u8, next: u8, upper: &[u8]) -> Vec<u8> {
        let address = |last: u8| [&[0xfd, 0][..], &[0; 13], &[last]].concat();
        let start = [
            &[2; 12][..],
            &[0x86, 0xdd, 0x60, 0, 0, 0, 0, upper.len() as u8, next, 64],
        ];
        [start.concat(), address(src), address(dst), upper.to_vec()].concat()
    }

    #[test]
    fn what_a_sender_sends_to_others_is_taken_and_nothing_else() {
        let host = ["10.0.0.1", "fd00::1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let (server, client, ours) = ([10, 0, 0, 2], [192, 0, 2, 9], [10, 0, 0, 1]);
        let tcp = |port: u8| [&[0, port, 0, 9][..], &[0; 8], &[0x50; 8]].concat();
        let whole = [0, 0];
        let taken = |sender: &str, tcp: bool, frame: &[u8]| {
            let sender = Sender {
                at: sender.parse().unwrap(),
                tcp,
            };
            let texts = [
                ends_of(&sender, &host),
                errors_and_fragments_of(sender.at.ip(), &host),
            ];
            let matches = |text: &String| Filter::parse(text).unwrap().matches(frame);
            texts.iter().any(matches)
        };
        let error = [3, 4, 0, 0, 0, 0, 0, 0];
        for (what, frame, wanted) in [
            ("a segment", v4(server, client, 6, whole, &tcp(80)), true),
            ("to the host", v4(server, ours, 6, whole, &tcp(80)), false),
            (
                "another port",
                v4(server, client, 6, whole, &tcp(81)),
                false,
            ),
            (
                "another host",
                v4(client, server, 6, whole, &tcp(80)),
                false,
            ),
            (
                "another protocol",
                v4(server, client, 17, whole, &tcp(80)),
                false,
            ),
            ("an error", v4(server, client, 1, whole, &error), true),
            ("to the host too", v4(server, ours, 1, whole, &error), false),
            (
                "an echo request",
                v4(server, client, 1, whole, &[8; 8]),
                false,
            ),
            (
                "a later fragment",
                v4(server, client, 17, [0, 1], &[8; 8]),
                true,
            ),
            (
                "a first fragment",
                v4(server, client, 6, [0x20, 0], &tcp(80)),
                true,
            ),
            (
                "not to be cut",
                v4(server, client, 17, [0x40, 0], &tcp(81)),
                false,
            ),
        ] {
            assert_eq!(taken("10.0.0.2:80", true, &frame), wanted, "{what}");
        }
        for (what, frame, wanted) in [
            ("a datagram", v6(2, 9, 17, &[0, 53, 0, 9, 0, 8, 0, 0]), true),
            (
                "to the host",
                v6(2, 1, 17, &[0, 53, 0, 9, 0, 8, 0, 0]),
                false,
            ),
            ("an error", v6(2, 9, 58, &[2, 0, 0, 0, 0, 0, 5, 0]), true),
            ("a neighbour's question", v6(2, 9, 58, &[135; 24]), false),
            (
                "a fragment",
                v6(2, 9, 44, &[17, 0, 0, 9, 0, 0, 0, 1, 5]),
                true,
            ),
        ] {
            assert_eq!(taken("[fd00::2]:53", false, &frame), wanted, "{what}");
        }
    }
}
