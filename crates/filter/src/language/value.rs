//! Values behind qualifiers: addresses, networks, ports, numbers.

use super::cursor::Token;
use super::names;
use super::parser::{Hosts, Parser, Qualifiers, Result};
use super::primitive::{self, Direction, Kind, Protocol};
use super::text::{address, integer, is_host_name, partial_network};
use crate::filter::Filter;
use crate::literal::Test;
use exos_wire::{Mac, Prefix};

impl<'a> Parser<'a> {
    pub(super) fn value(&mut self, q: Qualifiers, start: Token<'a>) -> Result<Filter> {
        match (q.kind, q.protocol) {
            (Some(Kind::Port), _) => self.port(q),
            (Some(Kind::PortRange), _) => self.port_range(q),
            (Some(Kind::Proto), _) if q.direction.is_some() => {
                Err(self.cursor.error(start, "`proto` has no direction"))
            }
            (Some(Kind::Proto), Some(Protocol::Ether)) => self.ethertype(),
            (Some(Kind::Proto), _) => self.protocol_number(q),
            (Some(Kind::Host) | None, Some(Protocol::Ether)) => self.mac(q),
            (kind, _) => self.address(q, kind),
        }
    }

    pub(super) fn mac(&mut self, q: Qualifiers) -> Result<Filter> {
        let token = self.cursor.peek();
        let Ok(mac) = token.text.parse::<Mac>() else {
            return Err(self
                .cursor
                .expected("a MAC address such as `02:00:00:00:00:01`"));
        };
        self.cursor.next();
        self.sized(
            token,
            primitive::ether_host(q.direction.unwrap_or(Direction::Either), mac.0),
        )
    }

    pub(super) fn address(&mut self, q: Qualifiers, kind: Option<Kind>) -> Result<Filter> {
        let token = self.cursor.peek();
        let partial = if kind == Some(Kind::Net) {
            partial_network(token.text)
        } else {
            None
        };
        let Some(prefix) = address(token.text).or(partial) else {
            if let Some(hosts) = self.hosts
                && is_host_name(token.text)
                && q.are_of_host()
            {
                return self.host(q, hosts);
            }
            return Err(self.cursor.expected(match kind {
                Some(Kind::Net) => "a network such as `10.0.0.0/8` or `fd10::/64`",
                Some(_) => "an address such as `10.0.0.1` or `fd10::1` (names are not looked up)",
                None => "`host`, `net`, `port` or `portrange`, or an address",
            }));
        };
        if kind == Some(Kind::Host) && prefix != Prefix::host(prefix.addr) {
            return Err(self.cursor.error(
                token,
                "expected an address without a prefix length; `net` takes one",
            ));
        }
        let network = Prefix {
            addr: prefix.first(),
            ..prefix
        };
        if prefix != network {
            let message =
                format!("the address has bits beyond its prefix: did you mean `{network}`?");
            return Err(self.cursor.error(token, message));
        }
        self.cursor.next();
        let direction = q.direction.unwrap_or(Direction::Either);
        match primitive::network(q.protocol, direction, network) {
            Some(filter) => self.sized(token, filter),
            None => Err(self.cursor.error(
                token,
                "this protocol has no such address: use `ip`, `ip6`, `arp` or none",
            )),
        }
    }

    /// All addresses of a host that is named.
    fn host(&mut self, q: Qualifiers, hosts: &Hosts<'_>) -> Result<Filter> {
        let token = self.cursor.peek();
        let addresses = hosts(token.text).map_err(|why| self.cursor.error(token, why))?;
        let direction = q.direction.unwrap_or(Direction::Either);
        let each = addresses
            .iter()
            .filter_map(|ip| primitive::network(q.protocol, direction, Prefix::host(*ip)));
        let mut either: Option<Filter> = None;
        for filter in each {
            let filter = self.sized(token, filter)?;
            either = Some(match either {
                Some(others) => {
                    let both = others.or_within(&filter, &mut self.work);
                    self.sized(token, both)?
                }
                None => filter,
            });
        }
        let none = || {
            self.cursor
                .error(token, "the host has no address of this protocol's")
        };
        let either = either.ok_or_else(none)?;
        self.cursor.next();
        Ok(either)
    }

    pub(super) fn port(&mut self, q: Qualifiers) -> Result<Filter> {
        let token = self.cursor.peek();
        let port = self.port_number(token)?;
        self.cursor.next();
        self.ports(q, token, port, port)
    }

    pub(super) fn port_range(&mut self, q: Qualifiers) -> Result<Filter> {
        let token = self.cursor.peek();
        let Some((low, high)) = token.text.split_once('-') else {
            return Err(self.cursor.expected("a range of ports such as `5000-6000`"));
        };
        let low = self.port_number(Token {
            text: low,
            at: token.at,
        })?;
        let high = self.port_number(Token {
            text: high,
            at: token.at + token.text.len() - high.len(),
        })?;
        if low > high {
            let message = format!("the range is backwards: did you mean `{high}-{low}`?");
            return Err(self.cursor.error(token, message));
        }
        self.cursor.next();
        self.ports(q, token, low, high)
    }

    pub(super) fn ports(
        &self,
        q: Qualifiers,
        token: Token<'_>,
        low: u16,
        high: u16,
    ) -> Result<Filter> {
        match primitive::ports(
            q.protocol,
            q.direction.unwrap_or(Direction::Either),
            low,
            high,
        ) {
            Some(filter) => self.sized(token, filter),
            None => Err(self
                .cursor
                .error(token, "only `tcp`, `udp` and `sctp` have ports")),
        }
    }

    pub(super) fn port_number(&self, token: Token<'_>) -> Result<u16> {
        let number = integer(token.text).and_then(|n| u16::try_from(n).ok());
        number
            .or_else(|| names::find(names::PORTS, token.text))
            .ok_or_else(|| {
                let found = if token.text.is_empty() {
                    "the end".to_owned()
                } else {
                    format!("`{}`", token.text)
                };
                self.cursor.error(
                    token,
                    format!(
                        "expected a port from 0 to 65535 or a name such as `http`, found {found}"
                    ),
                )
            })
    }

    pub(super) fn ethertype(&mut self) -> Result<Filter> {
        let token = self.cursor.peek();
        let value = match names::find(names::ETHERTYPES, token.text) {
            Some(value) => {
                self.cursor.next();
                value
            }
            None => self.number(0xffff, "an Ethertype such as `0x0800` or `ip`")? as u16,
        };
        Ok(Filter::test(Test::ethertype(value)))
    }

    pub(super) fn protocol_number(&mut self, q: Qualifiers) -> Result<Filter> {
        let token = self.cursor.peek();
        let value = match names::find(names::PROTOCOLS, token.text) {
            Some(value) => {
                self.cursor.next();
                value
            }
            None => self.number(0xff, "a protocol such as `6` or `tcp`")? as u8,
        };
        match primitive::protocol_number(q.protocol, value) {
            Some(filter) => self.sized(token, filter),
            None => Err(self
                .cursor
                .error(token, "`proto` goes with `ether`, `ip`, `ip6` or alone")),
        }
    }

    /// A number, decimal or hexadecimal, up to `max`.
    pub(super) fn number(&mut self, max: u32, what: &str) -> Result<u32> {
        let token = self.cursor.peek();
        match integer(token.text).filter(|&n| n <= max) {
            Some(n) => {
                self.cursor.next();
                Ok(n)
            }
            None => Err(self.cursor.expected(what)),
        }
    }
}
