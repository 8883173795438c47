//! DNS messages: a query in bytes, and what bytes mean as its answer (RFC 1035 §4, RFC 6891, RFC 2308).
//!
//! The records are taken apart by `simple-dns`; what decides whether a message is the answer at all (identifier,
//! question, response code) is compared byte by byte before. Nothing of a message is used but the records on the way from
//! the name asked to its addresses, and the SOA record that says how long there are none.

use crate::family::Family;
use crate::limits::{ALIASES_MAX, UDP_PAYLOAD_BYTES};
use crate::name::Name;
use crate::random::Random;
use simple_dns::rdata::{OPT, RData};
use simple_dns::{CLASS, Name as WireName, Packet, PacketFlag, Question, ResourceRecord, TYPE};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const HEADER_BYTES: usize = 12;
const QUESTION_BYTES_MIN: usize = 5;
const RECORD_BYTES_MIN: usize = 11;

/// A query that was sent: what its answer is compared with.
#[derive(Debug)]
pub(crate) struct Query {
    family: Family,
    identifier: u16,
    /// The question in bytes, with the letters' case as sent.
    question: Vec<u8>,
    edns: bool,
    random_case: bool,
}

/// How a query is to be sent.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Form {
    /// With an OPT record, so that servers may send more than 512 bytes.
    pub(crate) edns: bool,
    /// With letters in random case, which forgers have to guess (draft-vixie-dnsext-dns0x20).
    pub(crate) random_case: bool,
}

/// What bytes mean as the answer to a query.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Said {
    /// What there is of the name.
    Answer(Answer),
    /// The answer is cut off.
    Truncated,
    /// The name came back in other letters than it was sent in.
    CaseLost,
    /// The server does not understand EDNS.
    EdnsRefused,
    /// The server cannot or will not answer, or not in a way that can be read.
    Failure,
}

/// What there is of a name.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) found: Found,
    /// How long that holds; `None` where the answer does not say.
    pub(crate) ttl_s: Option<u32>,
    /// Records that nobody asked for.
    pub(crate) ignored: usize,
}

/// What servers know of a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Found {
    Addresses(Vec<IpAddr>),
    /// The name exists without an address of this family.
    NoAddress,
    NoSuchName,
}

/// Why bytes are not the answer.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum NotTheAnswer {
    Malformed,
    Identifier,
    Question,
}

impl Query {
    /// A query for the addresses of one family, and its bytes.
    pub(crate) fn new(
        name: &Name,
        family: Family,
        form: Form,
        random: &mut Random,
    ) -> (Self, Vec<u8>) {
        let identifier = random.next() as u16;
        let text = match form.random_case {
            true => random_case(name.as_str(), random),
            false => name.as_str().to_owned(),
        };
        let kind = match family {
            Family::Ipv4 => TYPE::A,
            Family::Ipv6 => TYPE::AAAA,
        };
        let mut packet = Packet::new_query(identifier);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        let question = Question::new(
            WireName::new_unchecked(&text),
            kind.into(),
            CLASS::IN.into(),
            false,
        );
        packet.questions.push(question);
        *packet.opt_mut() = form.edns.then(|| OPT {
            opt_codes: Vec::new(),
            udp_packet_size: UDP_PAYLOAD_BYTES,
            version: 0,
        });
        let bytes = packet
            .build_bytes_vec()
            .expect("a checked name has a form on the wire");
        // A length before each label, the root, type and class.
        let question = bytes[HEADER_BYTES..][..text.len() + 2 + 4].to_vec();
        let query = Self {
            family,
            identifier,
            question,
            edns: form.edns,
            random_case: form.random_case,
        };
        (query, bytes)
    }

    /// What a message of the server asked means, or why it is not the answer. A stream says itself who is at its other end, so that
    /// letters in another case, or a cut, mean nothing there.
    pub(crate) fn said(&self, message: &[u8], by_stream: bool) -> Result<Said, NotTheAnswer> {
        let header: &[u8; HEADER_BYTES] = message.first_chunk().ok_or(NotTheAnswer::Malformed)?;
        // QR, and the only operation that we ask for.
        if header[2] & 0xf8 != 0x80 {
            return Err(NotTheAnswer::Malformed);
        }
        if header[..2] != self.identifier.to_be_bytes() {
            return Err(NotTheAnswer::Identifier);
        }
        let (truncated, response_code) = (header[2] & 2 != 0, header[3] & 0x0f);
        let asked = &self.question;
        let returned = message[HEADER_BYTES..].get(..asked.len()).unwrap_or(&[]);
        if count(header, 0) != 1 || !returned.eq_ignore_ascii_case(asked) {
            // Servers that could not read the query may leave the question out.
            return match (count(header, 0), response_code) {
                (0, 1 | 4) if self.edns => Ok(Said::EdnsRefused),
                (0, 1 | 2 | 4 | 5) => Ok(Said::Failure),
                _ => Err(NotTheAnswer::Question),
            };
        }
        Ok(match response_code {
            _ if !by_stream && self.random_case && returned != asked => Said::CaseLost,
            _ if !by_stream && truncated => Said::Truncated,
            0 | 3 => self.read(header, message),
            1 | 4 if self.edns => Said::EdnsRefused,
            _ => Said::Failure,
        })
    }

    /// Whether a message that is the answer has the name in the letters sent.
    pub(crate) fn kept_case(&self, message: &[u8]) -> bool {
        message
            .get(HEADER_BYTES..)
            .is_some_and(|rest| rest.starts_with(&self.question))
    }

    /// The records of an answer without error, or of one that says that there is no such name.
    fn read(&self, header: &[u8; HEADER_BYTES], message: &[u8]) -> Said {
        // The library makes room for as many records as the header promises.
        let records: usize = (1..4).map(|section| count(header, section)).sum();
        if HEADER_BYTES + QUESTION_BYTES_MIN + records * RECORD_BYTES_MIN > message.len() {
            return Said::Failure;
        }
        let Ok(packet) = Packet::parse(message) else {
            return Said::Failure;
        };
        let Some((name, ttl_s, aliases)) = follow_aliases(&packet) else {
            return Said::Failure;
        };
        let (addresses, ttl_s) = self.addresses(&packet, name, ttl_s);
        let ignored = packet
            .answers
            .len()
            .saturating_sub(aliases + addresses.len());
        let no_such_name = header[3] & 0x0f == 3;
        if !addresses.is_empty() && !no_such_name {
            let found = Found::Addresses(addresses);
            let ttl_s = Some(ttl_s);
            return Said::Answer(Answer {
                found,
                ttl_s,
                ignored,
            });
        }
        let negative = negative_ttl_s(&packet, name);
        // A pointer to other servers, of one that does not ask them for us.
        let recursive = packet.has_flags(PacketFlag::RECURSION_AVAILABLE)
            || packet.has_flags(PacketFlag::AUTHORITATIVE_ANSWER);
        if !no_such_name && negative.is_none() && !recursive {
            return Said::Failure;
        }
        Said::Answer(Answer {
            found: if no_such_name {
                Found::NoSuchName
            } else {
                Found::NoAddress
            },
            ttl_s: negative.map(|negative| negative.min(ttl_s)),
            ignored,
        })
    }

    /// A name's addresses, each once, and the seconds that all of them hold, which are this many at most.
    fn addresses(
        &self,
        packet: &Packet<'_>,
        name: &WireName<'_>,
        mut ttl_s: u32,
    ) -> (Vec<IpAddr>, u32) {
        // All of them: of a part, name servers that rotate their records give another each time.
        let (mut addresses, mut seen) = (Vec::new(), HashSet::new());
        for record in packet.answers.iter().filter(|record| is_of(record, name)) {
            match self.address(&record.rdata) {
                Some(address) if seen.insert(address) => {
                    addresses.push(address);
                    ttl_s = ttl_s.min(ttl_of(record));
                }
                _ => {}
            }
        }
        (addresses, ttl_s)
    }

    fn address(&self, data: &RData) -> Option<IpAddr> {
        match (self.family, data) {
            (Family::Ipv4, RData::A(a)) => Some(Ipv4Addr::from(a.address).into()),
            (Family::Ipv6, RData::AAAA(aaaa)) => Some(Ipv6Addr::from(aaaa.address).into()),
            _ => None,
        }
    }
}

/// The name that has the addresses, the least TTL on the way there, and the number of aliases followed; `None` where they go
/// round in a circle or on for ever. The server followed them (RFC 1034 §4.3.2), so that what is not here does not exist.
fn follow_aliases<'a>(packet: &'a Packet<'a>) -> Option<(&'a WireName<'a>, u32, usize)> {
    let (mut name, mut ttl_s) = (&packet.questions.first()?.qname, u32::MAX);
    for aliases in 0..=ALIASES_MAX {
        let alias = packet
            .answers
            .iter()
            .find_map(|record| match &record.rdata {
                RData::CNAME(target) if is_of(record, name) => Some((&target.0, ttl_of(record))),
                _ => None,
            });
        let Some((target, ttl_of_alias)) = alias else {
            return Some((name, ttl_s, aliases));
        };
        (name, ttl_s) = (target, ttl_s.min(ttl_of_alias));
    }
    None
}

/// RFC 2308 §5: the lesser of the SOA record's own TTL and its last field. It must be of a zone that the name is in.
fn negative_ttl_s(packet: &Packet, name: &WireName) -> Option<u32> {
    packet
        .name_servers
        .iter()
        .find_map(|record| match &record.rdata {
            RData::SOA(soa)
                if record.class == CLASS::IN
                    && (*name == record.name || name.is_subdomain_of(&record.name)) =>
            {
                Some(ttl_of(record).min(soa.minimum))
            }
            _ => None,
        })
}

fn is_of(record: &ResourceRecord, name: &WireName) -> bool {
    // The library keeps the class's top bit apart, as multicast DNS uses it.
    record.class == CLASS::IN && !record.cache_flush && record.name == *name
}

/// RFC 2181 §8: a TTL with its top bit set is 0.
fn ttl_of(record: &ResourceRecord) -> u32 {
    if record.ttl > i32::MAX as u32 {
        0
    } else {
        record.ttl
    }
}

/// The count of records in one section: questions, answers, authority, additional.
fn count(header: &[u8; HEADER_BYTES], section: usize) -> usize {
    usize::from(u16::from_be_bytes([
        header[4 + 2 * section],
        header[5 + 2 * section],
    ]))
}

fn random_case(name: &str, random: &mut Random) -> String {
    let mut bits = 0;
    let letters = name.chars().enumerate().map(|(at, letter)| {
        if at % 64 == 0 {
            bits = random.next();
        }
        match bits >> (at % 64) & 1 {
            1 => letter.to_ascii_uppercase(),
            _ => letter,
        }
    });
    letters.collect()
}
