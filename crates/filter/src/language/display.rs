//! Filters as text that [`Filter::parse`] reads back to an equal filter.
//!
//! Literals that belong together are printed as what people write (`tcp dst port 80`, `ip6 src net fd10::/64`), the
//! others as bytes (`network[9] & 0xf = 3`).

use super::names;
use crate::filter::{Conjunction, Filter};
use crate::layers::{ARP, IPV4, IPV6, VLAN};
use crate::literal::{Base, Literal, Test, Width};
use exos_wire::Mac;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.conjunctions() {
            [] => f.write_str("none"),
            [only] => only.fmt(f),
            several => {
                let texts: Vec<String> = several.iter().map(in_parentheses).collect();
                f.write_str(&texts.join(" or "))
            }
        }
    }
}

/// In parentheses where needed: `and` and `or` have one precedence.
fn in_parentheses(conjunction: &Conjunction) -> String {
    match phrases(conjunction.literals()).as_slice() {
        [one] => one.clone(),
        several => format!("({})", several.join(" and ")),
    }
}

impl fmt::Display for Conjunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.literals() {
            [] => f.write_str("all"),
            literals => f.write_str(&phrases(literals).join(" and ")),
        }
    }
}

/// What people write for the literals, in their order.
fn phrases(literals: &[Literal]) -> Vec<String> {
    let mut left = literals.to_vec();
    let mut found = [
        address_phrases(&mut left),
        port_phrases(&mut left),
        link_phrases(&mut left),
    ]
    .concat();
    let mut all: Vec<String> = left.iter().map(Literal::to_string).collect();
    all.append(&mut found);
    all
}

/// Take the test that compares the whole word at `base` + `offset` out of the literals, if it is there.
fn take(left: &mut Vec<Literal>, wanted: impl Fn(&Test) -> bool) -> Option<Test> {
    let at = left.iter().position(|l| !l.negated && wanted(&l.test))?;
    Some(left.remove(at).test)
}

/// Whether all packets of the conjunction pass this test.
fn has(literals: &[Literal], test: Test) -> bool {
    literals.contains(&test.into())
}

/// `ip src host …`, `arp dst host …`, `ip6 dst net …`: with the type, which is then not printed by itself.
fn address_phrases(left: &mut Vec<Literal>) -> Vec<String> {
    let mut found = Vec::new();
    for (ethertype, name, fields, words) in [
        (IPV4, "ip", [12, 16], 1),
        (ARP, "arp", [14, 24], 1),
        (IPV6, "ip6", [8, 24], 4),
    ] {
        if !has(left, Test::ethertype(ethertype)) {
            continue;
        }
        for (offset, direction) in fields.into_iter().zip(["src", "dst"]) {
            let Some((bytes, bits)) = take_prefix(left, offset, words) else {
                continue;
            };
            let address = match <[u8; 4]>::try_from(bytes.as_slice()) {
                Ok(octets) => IpAddr::from(Ipv4Addr::from(octets)),
                Err(_) => {
                    let octets: [u8; 16] = bytes.try_into().expect("four words");
                    Ipv6Addr::from(octets).into()
                }
            };
            found.push(match bits == 32 * words {
                true => format!("{name} {direction} host {address}"),
                false => format!("{name} {direction} net {address}/{bits}"),
            });
        }
        if !found.is_empty() {
            left.retain(|l| *l != Test::ethertype(ethertype).into());
        }
    }
    found
}

/// Take the words of an address prefix at `offset` of the network header: its bytes and its bits.
fn take_prefix(left: &mut Vec<Literal>, offset: usize, words: usize) -> Option<(Vec<u8>, usize)> {
    let (mut bytes, mut bits) = (Vec::new(), 0);
    for i in 0..words {
        let leading = |t: &Test| t.mask().leading_ones();
        let is_prefix = |t: &Test| {
            let (low, high) = t.bounds();
            let place =
                (t.base(), t.offset(), t.width()) == (Base::Network, offset + 4 * i, Width::Word);
            place && low == high && t.mask() != 0 && leading(t) == t.mask().count_ones()
        };
        // Only whole words may come before the last.
        let word = if bits == 32 * i {
            take(left, is_prefix)
        } else {
            None
        };
        bits += word.as_ref().map_or(0, leading) as usize;
        bytes.extend(word.map_or(0, |t| t.bounds().0).to_be_bytes());
    }
    (bits > 0).then_some((bytes, bits))
}

/// `tcp dst port …`: with the protocol, which is then not printed by itself.
fn port_phrases(left: &mut Vec<Literal>) -> Vec<String> {
    let mut found = Vec::new();
    let Some(name) = ["tcp", "udp", "sctp"]
        .into_iter()
        .find(|name| has(left, protocol_test(name)))
    else {
        return found;
    };
    for (offset, direction) in [(0, "src"), (2, "dst")] {
        let is_port = |t: &Test| {
            (t.base(), t.offset(), t.width(), t.mask())
                == (Base::Transport, offset, Width::Half, 0xffff)
        };
        found.extend(take(left, is_port).map(|t| match t.bounds() {
            (low, high) if low == high => format!("{name} {direction} port {low}"),
            (low, high) => format!("{name} {direction} portrange {low}-{high}"),
        }));
    }
    if !found.is_empty() {
        left.retain(|l| *l != protocol_test(name).into());
    }
    found
}

fn protocol_test(name: &str) -> Test {
    Test::protocol(names::find(names::PROTOCOLS, name).expect("a name of the table"))
}

/// `ether src host …`, `vlan …`.
fn link_phrases(left: &mut Vec<Literal>) -> Vec<String> {
    let mut found = Vec::new();
    for (offset, direction) in [(6, "src"), (0, "dst")] {
        let whole = |offset, width: Width| {
            move |t: &Test| {
                let (low, high) = t.bounds();
                (t.base(), t.offset(), t.width(), t.mask())
                    == (Base::Link, offset, width, width.max())
                    && low == high
            }
        };
        if !left
            .iter()
            .any(|l| !l.negated && whole(offset + 4, Width::Half)(&l.test))
        {
            continue;
        }
        let Some(first) = take(left, whole(offset, Width::Word)) else {
            continue;
        };
        let last = take(left, whole(offset + 4, Width::Half)).expect("looked for above");
        let [a, b, c, d] = first.bounds().0.to_be_bytes();
        let [e, f] = (last.bounds().0 as u16).to_be_bytes();
        found.push(format!(
            "ether {direction} host {}",
            Mac([a, b, c, d, e, f])
        ));
    }
    let tag = Test::equal(Base::Link, 12, Width::Half, VLAN.into());
    if take(left, |t| *t == tag).is_some() {
        let number = take(left, |t| {
            let (low, high) = t.bounds();
            let place =
                (t.base(), t.offset(), t.width(), t.mask()) == (Base::Link, 14, Width::Half, 0xfff);
            place && low == high
        });
        found.push(number.map_or("vlan".to_owned(), |t| format!("vlan {}", t.bounds().0)));
    }
    found
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The longest frame without a byte has as many bytes as lie before it.
        if self.negated && is_length(&self.test) {
            return write!(f, "less {}", self.test.offset());
        }
        if self.negated {
            f.write_str("not ")?;
        }
        self.test.fmt(f)
    }
}

/// A test that only asks for one byte of the frame.
fn is_length(test: &Test) -> bool {
    test.base() == Base::Link && test.is_presence() && test.width() == Width::Byte
}

impl fmt::Display for Test {
    /// One primitive.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.bounds();
        match (self.base(), low == high) {
            (Base::Type, true) if self.mask() == 0xffff => return ethertype(f, low as u16),
            (Base::Protocol, true) if self.mask() == 0xff => return protocol(f, low as u8),
            _ if is_length(self) => return write!(f, "greater {}", self.end()),
            _ => {}
        }
        word(f, self)?;
        match (low, high) {
            (low, high) if low == high => write!(f, " = {low:#x}"),
            (low, high) if high >= self.mask() => write!(f, " >= {low:#x}"),
            (0, high) => write!(f, " <= {high:#x}"),
            (low, high) => write!(f, " = {low:#x}-{high:#x}"),
        }
    }
}

/// The left side of a comparison.
fn word(f: &mut fmt::Formatter<'_>, test: &Test) -> fmt::Result {
    let base = match test.base() {
        Base::Type => "type",
        Base::Protocol => "protocol",
        Base::Network => "network",
        Base::Transport => "transport",
        Base::Link => "ether",
    };
    write!(f, "{base}[{}", test.offset())?;
    if test.width() != Width::Byte {
        write!(f, ":{}", test.width().bytes())?;
    }
    f.write_str("]")?;
    if test.mask() != test.width().max() {
        write!(f, " & {:#x}", test.mask())?;
    }
    Ok(())
}

fn ethertype(f: &mut fmt::Formatter<'_>, value: u16) -> fmt::Result {
    match names::ETHERTYPES.iter().find(|(_, v)| *v == value) {
        Some((name, _)) => f.write_str(name),
        None => write!(f, "ether proto {value:#06x}"),
    }
}

fn protocol(f: &mut fmt::Formatter<'_>, value: u8) -> fmt::Result {
    match names::PROTOCOLS.iter().find(|(_, v)| *v == value) {
        // The other names stand for one version of IP as well.
        Some((name @ ("tcp" | "udp" | "sctp" | "esp"), _)) => f.write_str(name),
        _ => write!(f, "proto {value}"),
    }
}
