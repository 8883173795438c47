//! The grammar, by recursive descent, down to qualifiers. Filters are combined as they are read.
//!
//! What stands behind qualifiers is read in `value`, comparisons of bytes in `comparison`.

use super::cursor::{Cursor, Token};
use super::error::ParseError;
use super::names;
use super::primitive::{self, Direction, Kind, Protocol};
use super::text::{address, is_host_name};
use crate::filter::{Filter, TooLarge, Work};
use crate::limits::{NESTING_MAX, OFFSET_MAX, PARSE_PAIRS_MAX, TEXT_MAX};
use crate::literal::Base;
use exos_wire::Mac;
use std::net::IpAddr;

/// What stands before a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Qualifiers {
    pub(super) protocol: Option<Protocol>,
    pub(super) direction: Option<Direction>,
    pub(super) kind: Option<Kind>,
}

impl Qualifiers {
    /// Whether a host's name may stand behind them, where names may be given.
    pub(super) fn are_of_host(self) -> bool {
        self.kind == Some(Kind::Host) || (self.kind.is_none() && self.direction.is_some())
    }
}

pub(super) struct Parser<'a> {
    pub(super) cursor: Cursor<'a>,
    /// Of the last value: repeated by a value alone.
    last: Option<Qualifiers>,
    depth: usize,
    /// What is left for combining filters.
    pub(super) work: Work,
    /// Tells the addresses of a host's name, where that may be given.
    pub(super) hosts: Option<&'a Hosts<'a>>,
}

/// The addresses of a host's name, or why it has none.
pub type Hosts<'a> = dyn Fn(&str) -> std::result::Result<Vec<IpAddr>, String> + 'a;

pub(super) type Result<T> = std::result::Result<T, ParseError>;

const PRIMITIVE: &str = "a primitive such as `tcp`, `host 10.0.0.1` or `port 80`";

pub(super) fn parse<'a>(text: &'a str, hosts: Option<&'a Hosts<'a>>) -> Result<Filter> {
    let mut parser = Parser {
        cursor: Cursor::new(text),
        last: None,
        depth: 0,
        work: Work::at_most(PARSE_PAIRS_MAX),
        hosts,
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
                let both = filter.and_within(&right, &mut self.work);
                self.sized(operator, both)?
            } else if self.cursor.take(&["or", "||"]) {
                let right = self.term()?;
                let either = filter.or_within(&right, &mut self.work);
                self.sized(operator, either)?
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
            let outside = inner.not_within(&mut self.work);
            self.sized(start, outside)
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

    pub(super) fn sized(
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
        let may_be_host = self.hosts.is_some()
            && is_host_name(token.text)
            && self.last.is_some_and(Qualifiers::are_of_host);
        if !is_value && !may_be_host {
            return Err(self.cursor.expected(PRIMITIVE));
        }
        match self.last {
            Some(last) => self.value(last, token),
            None if address(token.text).is_some() => self.value(Qualifiers::default(), token),
            None => Err(self.cursor.expected(PRIMITIVE)),
        }
    }
}
