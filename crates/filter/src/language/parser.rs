//! The grammar, by recursive descent. Filters are combined as they are read.

use super::ParseError;
use super::cursor::{Cursor, Token};
use super::names;
use super::primitive::{self, Direction, Kind, Protocol};
use crate::filter::{Filter, TooLarge};
use crate::limits::{NESTING_MAX, OFFSET_MAX, TEXT_MAX};
use crate::literal::{Base, Literal, Test, Width};
use exos_wire::Mac;
use std::net::{IpAddr, Ipv4Addr};

/// What stands before a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Qualifiers {
    protocol: Option<Protocol>,
    direction: Option<Direction>,
    kind: Option<Kind>,
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    /// Of the last value: repeated by a value alone.
    last: Option<Qualifiers>,
    depth: usize,
}

type Result<T> = std::result::Result<T, ParseError>;

const PRIMITIVE: &str = "a primitive such as `tcp`, `host 10.0.0.1` or `port 80`";

pub(super) fn parse(text: &str) -> Result<Filter> {
    let mut parser = Parser {
        cursor: Cursor::new(text),
        last: None,
        depth: 0,
    };
    if text.len() > TEXT_MAX {
        let end = Token { text: "", at: 0 };
        return Err(parser
            .cursor
            .error(end, format!("the text is longer than {TEXT_MAX} bytes")));
    }
    if parser.cursor.peek().text.is_empty() {
        return Ok(Filter::everything());
    }
    let filter = parser.expression()?;
    if !parser.cursor.peek().text.is_empty() {
        return Err(parser.cursor.expected("`and`, `or` or the end"));
    }
    Ok(filter)
}

impl<'a> Parser<'a> {
    fn expression(&mut self) -> Result<Filter> {
        let mut filter = self.term()?;
        loop {
            let operator = self.cursor.peek();
            filter = if self.cursor.take(&["and", "&&"]) {
                let right = self.term()?;
                self.sized(operator, filter.and(&right))?
            } else if self.cursor.take(&["or", "||"]) {
                let right = self.term()?;
                self.sized(operator, filter.or(&right))?
            } else {
                return Ok(filter);
            };
        }
    }

    fn term(&mut self) -> Result<Filter> {
        self.depth += 1;
        let start = self.cursor.peek();
        if self.depth > NESTING_MAX {
            return Err(self
                .cursor
                .error(start, format!("more than {NESTING_MAX} levels of nesting")));
        }
        let filter = if self.cursor.take(&["not", "!"]) {
            let inner = self.term()?;
            self.sized(start, inner.not())
        } else if start.text == "(" {
            self.parenthesis()
        } else {
            self.primitive()
        };
        self.depth -= 1;
        filter
    }

    fn parenthesis(&mut self) -> Result<Filter> {
        self.cursor.next();
        let inner = self.expression()?;
        if !self.cursor.take(&[")"]) {
            return Err(self.cursor.expected("`and`, `or` or `)`"));
        }
        Ok(inner)
    }

    fn sized(
        &self,
        token: Token<'_>,
        filter: std::result::Result<Filter, TooLarge>,
    ) -> Result<Filter> {
        filter.map_err(|error| self.cursor.error(token, error.to_string()))
    }

    fn primitive(&mut self) -> Result<Filter> {
        let start = self.cursor.peek();
        if let Some(filter) = self.special(start)? {
            return Ok(filter);
        }
        let qualifiers = self.qualifiers();
        if qualifiers == Qualifiers::default() {
            return self.bare_value();
        }
        if let Qualifiers {
            protocol: Some(protocol),
            direction: None,
            kind: None,
        } = qualifiers
        {
            return self.protocol_alone(start, protocol);
        }
        self.last = Some(qualifiers);
        if self.cursor.peek().text == "(" {
            return self.values();
        }
        self.value(qualifiers, start)
    }

    /// `kind ( values )`: the values repeat the qualifiers.
    fn values(&mut self) -> Result<Filter> {
        self.depth += 1;
        let open = self.cursor.peek();
        if self.depth > NESTING_MAX {
            return Err(self
                .cursor
                .error(open, format!("more than {NESTING_MAX} levels of nesting")));
        }
        let filter = self.parenthesis();
        self.depth -= 1;
        filter
    }

    /// Primitives that are words of their own.
    fn special(&mut self, start: Token<'a>) -> Result<Option<Filter>> {
        let filter = match start.text {
            "all" => Ok(Filter::everything()),
            "none" => Ok(Filter::nothing()),
            "broadcast" => primitive::ether_host(Direction::Dst, Mac::BROADCAST.0),
            "multicast" => Ok(primitive::ether_multicast()),
            "vlan" => return self.vlan(start).map(Some),
            "less" | "greater" => return self.length(start).map(Some),
            "type" => return self.comparison(Base::Type).map(Some),
            "protocol" => return self.comparison(Base::Protocol).map(Some),
            "network" => return self.comparison(Base::Network).map(Some),
            "transport" => return self.comparison(Base::Transport).map(Some),
            "gateway" | "inbound" | "outbound" | "protochain" | "mpls" | "pppoe" | "len" => {
                return Err(self
                    .cursor
                    .error(start, format!("`{}` is not supported", start.text)));
            }
            _ => return Ok(None),
        };
        self.cursor.next();
        self.sized(start, filter).map(Some)
    }

    fn vlan(&mut self, start: Token<'a>) -> Result<Filter> {
        self.cursor.next();
        let starts_number = self
            .cursor
            .peek()
            .text
            .starts_with(|c: char| c.is_ascii_digit());
        let id = if starts_number {
            Some(self.number(0xfff, "a VLAN number from 0 to 4095")? as u16)
        } else {
            None
        };
        self.sized(start, primitive::vlan(id))
    }

    fn length(&mut self, start: Token<'a>) -> Result<Filter> {
        self.cursor.next();
        let n = self.number(OFFSET_MAX as u32 - 1, "a length in bytes")? as usize;
        let filter = if start.text == "less" {
            primitive::less(n)
        } else {
            primitive::greater(n)
        };
        self.sized(start, filter)
    }

    /// A protocol without a value: itself, or a comparison of its bytes.
    fn protocol_alone(&mut self, start: Token<'a>, protocol: Protocol) -> Result<Filter> {
        let next = self.cursor.peek();
        let filter = match (protocol, next.text) {
            (_, "[") => return self.comparison_behind(protocol.base(), &protocol.tests()),
            (Protocol::Ether, "multicast") => Ok(primitive::ether_multicast()),
            (Protocol::Ether, "broadcast") => {
                primitive::ether_host(Direction::Dst, Mac::BROADCAST.0)
            }
            (Protocol::Ip, "multicast") => primitive::ip_multicast(),
            (Protocol::Ip6, "multicast") => primitive::ip6_multicast(),
            (Protocol::Ether, _) => {
                return Err(self
                    .cursor
                    .expected("`host`, `src`, `dst`, `proto`, `broadcast`, `multicast` or `[`"));
            }
            _ => return self.sized(start, Filter::all_of(protocol.tests())),
        };
        self.cursor.next();
        self.sized(start, filter)
    }

    fn qualifiers(&mut self) -> Qualifiers {
        let protocol = Protocol::from_word(self.cursor.peek().text);
        if protocol.is_some() {
            self.cursor.next();
        }
        let direction = self.direction();
        let kind = match self.cursor.peek().text {
            "host" => Some(Kind::Host),
            "net" => Some(Kind::Net),
            "port" => Some(Kind::Port),
            "portrange" => Some(Kind::PortRange),
            "proto" => Some(Kind::Proto),
            _ => None,
        };
        if kind.is_some() {
            self.cursor.next();
        }
        Qualifiers {
            protocol,
            direction,
            kind,
        }
    }

    /// `src`, `dst`, `src or dst`, `src and dst`.
    fn direction(&mut self) -> Option<Direction> {
        let one = match self.cursor.peek().text {
            "src" => Direction::Src,
            "dst" => Direction::Dst,
            _ => return None,
        };
        self.cursor.next();
        let other = if one == Direction::Src { "dst" } else { "src" };
        let mut ahead = self.cursor;
        let both = match ahead.next().text {
            "or" | "||" => Direction::Either,
            "and" | "&&" => Direction::Both,
            _ => return Some(one),
        };
        if ahead.next().text != other {
            return Some(one);
        }
        // `src or dst 10.0.0.1` is one primitive, `src 10.0.0.1 or dst 10.0.0.2` never gets here.
        self.cursor = ahead;
        Some(both)
    }

    /// A value alone repeats the last qualifiers; without any, an address is a host and a prefix a net.
    fn bare_value(&mut self) -> Result<Filter> {
        let token = self.cursor.peek();
        let is_value = token
            .text
            .starts_with(|c: char| c.is_ascii_hexdigit() || c == ':')
            || names::find(names::PORTS, token.text).is_some();
        if !is_value {
            return Err(self.cursor.expected(PRIMITIVE));
        }
        match self.last {
            Some(last) => self.value(last, token),
            None if address(token.text).is_some() => self.value(Qualifiers::default(), token),
            None => Err(self.cursor.expected(PRIMITIVE)),
        }
    }

    fn value(&mut self, q: Qualifiers, start: Token<'a>) -> Result<Filter> {
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

    fn mac(&mut self, q: Qualifiers) -> Result<Filter> {
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

    fn address(&mut self, q: Qualifiers, kind: Option<Kind>) -> Result<Filter> {
        let token = self.cursor.peek();
        let partial = if kind == Some(Kind::Net) {
            partial_network(token.text)
        } else {
            None
        };
        let Some((address, bits)) = address(token.text).or(partial) else {
            return Err(self.cursor.expected(match kind {
                Some(Kind::Net) => "a network such as `10.0.0.0/8` or `fd10::/64`",
                Some(_) => "an address such as `10.0.0.1` or `fd10::1` (names are not looked up)",
                None => "`host`, `net`, `port` or `portrange`, or an address",
            }));
        };
        let full = if address.is_ipv4() { 32 } else { 128 };
        if kind == Some(Kind::Host) && bits != full {
            return Err(self.cursor.error(
                token,
                "expected an address without a prefix length; `net` takes one",
            ));
        }
        if let Some(network) = with_host_bits(address, bits) {
            let message =
                format!("the address has bits beyond its prefix: did you mean `{network}/{bits}`?");
            return Err(self.cursor.error(token, message));
        }
        self.cursor.next();
        match primitive::network(
            q.protocol,
            q.direction.unwrap_or(Direction::Either),
            address,
            bits,
        ) {
            Some(filter) => self.sized(token, filter),
            None => Err(self.cursor.error(
                token,
                "this protocol has no such address: use `ip`, `ip6`, `arp` or none",
            )),
        }
    }

    fn port(&mut self, q: Qualifiers) -> Result<Filter> {
        let token = self.cursor.peek();
        let port = self.port_number(token)?;
        self.cursor.next();
        self.ports(q, token, port, port)
    }

    fn port_range(&mut self, q: Qualifiers) -> Result<Filter> {
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

    fn ports(&self, q: Qualifiers, token: Token<'_>, low: u16, high: u16) -> Result<Filter> {
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

    fn port_number(&self, token: Token<'_>) -> Result<u16> {
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

    fn ethertype(&mut self) -> Result<Filter> {
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

    fn protocol_number(&mut self, q: Qualifiers) -> Result<Filter> {
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
    fn number(&mut self, max: u32, what: &str) -> Result<u32> {
        let token = self.cursor.peek();
        match integer(token.text).filter(|&n| n <= max) {
            Some(n) => {
                self.cursor.next();
                Ok(n)
            }
            None => Err(self.cursor.expected(what)),
        }
    }

    fn comparison(&mut self, base: Base) -> Result<Filter> {
        self.cursor.next();
        self.comparison_behind(base, &[])
    }

    /// `[offset:width] & mask relation value`, behind the base's name.
    fn comparison_behind(&mut self, base: Base, tests: &[Literal]) -> Result<Filter> {
        let start = self.cursor.peek();
        if !self.cursor.take(&["["]) {
            return Err(self.cursor.expected("`[`"));
        }
        let (offset, width) = self.brackets()?;
        let fits = match base {
            Base::Type => offset == 0 && width == Width::Half,
            Base::Protocol => offset == 0 && width == Width::Byte,
            Base::Network | Base::Transport | Base::Link => offset + width.bytes() <= OFFSET_MAX,
        };
        if !fits {
            return Err(self.cursor.error(start, "there is no such word (of the type and the protocol only `type[0:2]` and `protocol[0]`)"));
        }
        let mask = if self.cursor.take(&["&"]) {
            self.mask()?
        } else {
            u32::MAX
        };
        let relation = self.cursor.next();
        let (value, last) = self.values_compared()?;
        let range = |low, high| Filter::test(Test::range(base, offset, width, mask, low, high));
        let present = Filter::test(Test::present(base, offset, width));
        let compared = match relation.text {
            "=" | "==" => Ok(range(value, last)),
            "!=" => range(value, last)
                .not()
                .and_then(|other| other.and(&present)),
            _ if last != value => {
                return Err(self.cursor.error(relation, "a range goes with `=` or `!=`"));
            }
            ">=" => Ok(range(value, u32::MAX)),
            "<=" => Ok(range(0, value)),
            ">" => Ok(value
                .checked_add(1)
                .map_or(Filter::nothing(), |low| range(low, u32::MAX))),
            "<" => Ok(value
                .checked_sub(1)
                .map_or(Filter::nothing(), |high| range(0, high))),
            _ => {
                return Err(self
                    .cursor
                    .error(relation, "expected `=`, `!=`, `<`, `<=`, `>` or `>=`"));
            }
        };
        let filter = compared.and_then(|f| f.and(&Filter::all_of(tests.iter().copied())?));
        self.sized(start, filter)
    }

    /// `offset:width]`, behind the opening bracket.
    fn brackets(&mut self) -> Result<(usize, Width)> {
        let token = self.cursor.next_in_brackets();
        let offset = integer(token.text).or_else(|| names::find(names::NUMBERS, token.text));
        let Some(offset) = offset.map(|n| n as usize).filter(|&n| n < OFFSET_MAX) else {
            return Err(self
                .cursor
                .error(token, format!("expected an offset below {OFFSET_MAX}")));
        };
        let width = if self.cursor.take_colon() {
            let token = self.cursor.next();
            match token.text {
                "1" => Width::Byte,
                "2" => Width::Half,
                "4" => Width::Word,
                _ => {
                    return Err(self
                        .cursor
                        .error(token, "expected a width of 1, 2 or 4 bytes"));
                }
            }
        } else {
            Width::Byte
        };
        if !self.cursor.take(&["]"]) {
            return Err(self.cursor.expected("`:` and a width, or `]`"));
        }
        Ok((offset, width))
    }

    /// What is compared with: a value, or a range such as `0x50-0x5f`.
    fn values_compared(&mut self) -> Result<(u32, u32)> {
        let token = self.cursor.peek();
        let range = token
            .text
            .split_once('-')
            .and_then(|(low, high)| Some((integer(low)?, integer(high)?)));
        if let Some((low, high)) = range {
            self.cursor.next();
            return Ok((low, high));
        }
        let value = self.flags()?;
        Ok((value, value))
    }

    /// A mask: a number, or flags in parentheses.
    fn mask(&mut self) -> Result<u32> {
        if !self.cursor.take(&["("]) {
            return self.value_number();
        }
        let mask = self.flags()?;
        if !self.cursor.take(&[")"]) {
            return Err(self.cursor.expected("`|` or `)`"));
        }
        Ok(mask)
    }

    /// Numbers or flags, joined by `|`.
    fn flags(&mut self) -> Result<u32> {
        let mut value = self.value_number()?;
        while self.cursor.take(&["|"]) {
            value |= self.value_number()?;
        }
        Ok(value)
    }

    fn value_number(&mut self) -> Result<u32> {
        let token = self.cursor.peek();
        if let Some(value) = names::find(names::NUMBERS, token.text) {
            self.cursor.next();
            return Ok(value);
        }
        self.number(u32::MAX, "a number or a flag such as `tcp-syn`")
    }
}

/// Decimal, or hexadecimal with `0x`.
fn integer(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u32::from_str_radix(digits, 16).ok(),
        None if text.starts_with(|c: char| c.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

/// An address, or a prefix with its length.
fn address(text: &str) -> Option<(IpAddr, usize)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(integer(bits)? as usize)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let full = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(full);
    (bits <= full).then_some((address, bits))
}

/// `10`, `10.1` or `10.1.2`, with or without a length: networks of 8, 16 or 24 bits, as in tcpdump.
fn partial_network(text: &str) -> Option<(IpAddr, usize)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(integer(bits)? as usize)),
        None => (text, None),
    };
    let parts: Vec<u8> = address
        .split('.')
        .map(|p| p.parse().ok())
        .collect::<Option<_>>()?;
    if parts.len() > 3 {
        return None;
    }
    let mut octets = [0; 4];
    octets[..parts.len()].copy_from_slice(&parts);
    let bits = bits.unwrap_or(8 * parts.len());
    (bits <= 32).then_some((Ipv4Addr::from(octets).into(), bits))
}

/// The network that the address lies in, if it is not the address itself.
fn with_host_bits(address: IpAddr, bits: usize) -> Option<IpAddr> {
    let network: IpAddr = match address {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - bits as u32).unwrap_or(0);
            Ipv4Addr::from(u32::from(a) & mask).into()
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - bits as u32).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(a) & mask).into()
        }
    };
    (network != address).then_some(network)
}
