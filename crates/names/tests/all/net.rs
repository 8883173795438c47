//! A resolver without a network: the test sees what it sends, and says what comes, on a clock of its own.

use exos_inet::{Duration, Instant};
use exos_names::{Action, Config, Error, Event, Families, Family, LookupId, QueryId, Resolver};
use simple_dns::rdata::{A, AAAA, CNAME, NS, RData, SOA};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};
use std::net::{IpAddr, SocketAddr};

pub const SECRET: u64 = 7;

pub struct Net {
    pub resolver: Resolver,
    pub now: Instant,
    pub closed: Vec<QueryId>,
}

/// A query that was sent.
#[derive(Clone, Debug)]
pub struct SentQuery {
    pub query: QueryId,
    /// `None` over TCP.
    pub port: Option<u16>,
    pub server: SocketAddr,
    pub message: Message,
}

/// The bytes of a query, without the length that goes before it over TCP.
#[derive(Clone, Debug)]
pub struct Message(pub Vec<u8>);

impl std::ops::Deref for SentQuery {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

pub fn config(resolv_conf: &str) -> Config {
    Config::parse(resolv_conf, "192.0.2.77 known\n", &|_| None)
}

impl Net {
    pub fn new(resolv_conf: &str) -> Self {
        Self {
            resolver: Resolver::new(config(resolv_conf), SECRET),
            now: Instant::from_millis(1),
            closed: Vec::new(),
        }
    }

    pub fn lookup(&mut self, name: &str) -> LookupId {
        self.resolver
            .lookup(self.now, name, Families::Both)
            .unwrap()
    }

    pub fn lookup_ipv4(&mut self, name: &str) -> LookupId {
        self.resolver
            .lookup(self.now, name, Families::Ipv4)
            .unwrap()
    }

    /// What was sent since this was called last.
    pub fn sent(&mut self) -> Vec<SentQuery> {
        let mut sent = Vec::new();
        while let Some(action) = self.resolver.poll_action() {
            sent.extend(match action {
                Action::Datagram {
                    query,
                    port,
                    server,
                    message,
                } => Some(SentQuery {
                    query,
                    port: Some(port),
                    server,
                    message: Message(message),
                }),
                Action::Stream {
                    query,
                    server,
                    bytes,
                } => {
                    let (length, message) = bytes.split_first_chunk().unwrap();
                    assert_eq!(usize::from(u16::from_be_bytes(*length)), message.len());
                    let (port, message) = (None, Message(message.to_vec()));
                    Some(SentQuery {
                        query,
                        port,
                        server,
                        message,
                    })
                }
                Action::Close { query } => {
                    self.closed.push(query);
                    None
                }
            });
        }
        sent
    }

    /// The one query that was sent.
    pub fn one(&mut self) -> SentQuery {
        let sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.into_iter().next().unwrap()
    }

    /// The server asked sends this message.
    pub fn answer(&mut self, asked: &SentQuery, message: &[u8]) {
        if asked.port.is_some() {
            self.resolver
                .handle_datagram(self.now, asked.query, asked.server, message);
        } else {
            let length = (message.len() as u16).to_be_bytes();
            self.resolver
                .handle_stream(self.now, asked.query, &[&length[..], message].concat());
        }
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.resolver.handle_timeout(self.now);
    }

    /// Lets the time of the next deadline come.
    pub fn time_out(&mut self) {
        self.now = self.resolver.poll_timeout().unwrap();
        self.resolver.handle_timeout(self.now);
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.resolver.poll_event()).collect()
    }

    /// The end of one lookup, if it has come.
    pub fn done(&mut self, wanted: LookupId) -> Option<Result<Vec<IpAddr>, Error>> {
        self.events().into_iter().find_map(|event| match event {
            Event::Done { lookup, result, .. } if lookup == wanted => Some(result),
            _ => None,
        })
    }

    pub fn counter(&self, name: &str) -> u64 {
        let list = self.resolver.counters().list();
        list.iter()
            .find(|(of, _)| *of == name)
            .unwrap_or_else(|| panic!("no counter {name}"))
            .1
    }
}

impl Message {
    pub fn packet(&self) -> Packet<'_> {
        Packet::parse(&self.0).unwrap()
    }

    pub fn name(&self) -> String {
        self.packet().questions[0].qname.to_string()
    }

    pub fn family(&self) -> Family {
        match self.packet().questions[0].qtype {
            QTYPE::TYPE(TYPE::A) => Family::Ipv4,
            QTYPE::TYPE(TYPE::AAAA) => Family::Ipv6,
            other => panic!("{other:?}"),
        }
    }

    /// An answer without records, as a recursive server gives it.
    pub fn reply(&self) -> Packet<'_> {
        let mut reply = self.packet().into_reply();
        reply.set_flags(PacketFlag::RECURSION_DESIRED | PacketFlag::RECURSION_AVAILABLE);
        reply
    }

    /// An answer with these records, in order, of the forms that [`record`] reads; `|` begins the authority section.
    pub fn with(&self, rcode: RCODE, records: &str) -> Vec<u8> {
        let mut reply = self.reply();
        *reply.rcode_mut() = rcode;
        let (answers, authority) = records.split_once('|').unwrap_or((records, ""));
        reply.answers = answers.lines().filter_map(record).collect();
        reply.name_servers = authority.lines().filter_map(record).collect();
        reply.build_bytes_vec_compressed().unwrap()
    }

    /// An answer with the address of its family, for a minute.
    pub fn with_address(&self, last: u8) -> Vec<u8> {
        let name = self.name();
        let record = match self.family() {
            Family::Ipv4 => format!("{name} 60 A 192.0.2.{last}"),
            Family::Ipv6 => format!("{name} 60 AAAA 2001:db8::{last:x}"),
        };
        self.with(RCODE::NoError, &record)
    }
}

/// `NAME TTL A ADDRESS`, `NAME TTL CNAME NAME`, `NAME TTL SOA MINIMUM`, and so on; an empty line is none.
pub fn record(line: &str) -> Option<ResourceRecord<'static>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, ttl, kind, data] = words[..] else {
        assert!(words.is_empty(), "{line}");
        return None;
    };
    let name_of = |text: &str| Name::new(text).unwrap().into_owned();
    let data = match kind {
        "A" => RData::A(A::from(data.parse::<std::net::Ipv4Addr>().unwrap())),
        "AAAA" => RData::AAAA(AAAA::from(data.parse::<std::net::Ipv6Addr>().unwrap())),
        "CNAME" => RData::CNAME(CNAME(name_of(data))),
        "NS" => RData::NS(NS(name_of(data))),
        "SOA" => RData::SOA(SOA {
            mname: name_of("ns1.xx"),
            rname: name_of("hostmaster.ns1.xx"),
            serial: 1,
            refresh: 2,
            retry: 3,
            expire: 4,
            minimum: data.parse().unwrap(),
        }),
        other => panic!("{other}"),
    };
    Some(ResourceRecord::new(
        name_of(name),
        CLASS::IN,
        ttl.parse().unwrap(),
        data,
    ))
}

/// The message with its question in small letters, as some old servers send it back.
pub fn lower_question(mut message: Vec<u8>) -> Vec<u8> {
    // The name ends with the length 0, which is before any type.
    let end = message[12..].iter().position(|byte| *byte == 0).unwrap();
    message[12..12 + end].make_ascii_lowercase();
    message
}

pub fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}
