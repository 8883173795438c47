//! What holds whatever comes from the network and from files.

use crate::net::{Net, SentQuery, record};
use exos_inet::Duration;
use exos_names::{Config, Event, Families, Name};
use proptest::prelude::*;
use simple_dns::{PacketFlag, RCODE};
use std::collections::BTreeSet;

/// Records about a few names, of which one is asked for.
fn records() -> impl Strategy<Value = Vec<String>> {
    let name = prop::sample::select(vec![
        "a.example",
        "b.example",
        "victim.example",
        "example",
        "xx",
    ]);
    let record = (name.clone(), 0..5u32, 0..4u8, name, 0..9u8).prop_map(
        |(name, ttl, kind, target, last)| match kind {
            0 => format!("{name} {ttl} A 192.0.2.{last}"),
            1 => format!("{name} {ttl} CNAME {target}"),
            2 => format!("{name} {ttl} SOA {last}"),
            _ => format!("{name} {ttl} AAAA 2001:db8::{last}"),
        },
    );
    prop::collection::vec(record, 0..8)
}

fn rcode() -> impl Strategy<Value = RCODE> {
    prop::sample::select(vec![
        RCODE::NoError,
        RCODE::NameError,
        RCODE::ServerFailure,
        RCODE::FormatError,
        RCODE::Refused,
    ])
}

fn message(asked: &SentQuery, rcode: RCODE, sections: [&[String]; 3]) -> Vec<u8> {
    let mut reply = asked.reply();
    *reply.rcode_mut() = rcode;
    let [answers, authority, additional] =
        sections.map(|lines| lines.iter().filter_map(|line| record(line)).collect());
    (reply.answers, reply.name_servers, reply.additional_records) =
        (answers, authority, additional);
    reply.build_bytes_vec_compressed().unwrap()
}

/// What a true answer with these records says of `a.example`, computed in another way.
fn expected(answers: &[String]) -> BTreeSet<String> {
    let mut name = "a.example";
    let words: Vec<Vec<&str>> = answers
        .iter()
        .map(|line| line.split(' ').collect())
        .collect();
    for _ in 0..=words.len() {
        match words
            .iter()
            .find(|words| words[0] == name && words[2] == "CNAME")
        {
            Some(alias) => name = alias[3],
            None => {
                let of_name = words
                    .iter()
                    .filter(|words| words[0] == name && words[2] == "A");
                return of_name.map(|words| words[3].to_owned()).collect();
            }
        }
    }
    BTreeSet::new()
}

proptest! {
    /// An answer adds the name asked for to the cache, and no other; with the addresses that belong to it, and no others.
    #[test]
    fn only_what_was_asked_is_kept(answers in records(), authority in records(), additional in records(), rcode in rcode()) {
        let mut net = Net::new("nameserver 192.0.2.53\noptions attempts:1");
        let lookup = net.lookup_ipv4("a.example");
        let query = net.one();
        net.answer(&query, &message(&query, rcode, [&answers, &authority, &additional]));
        let again = net.sent().pop();
        if let Some(again) = again {
            // Without EDNS; now it is a failure.
            prop_assert_eq!(rcode, RCODE::FormatError);
            net.answer(&again, &message(&again, rcode, [&answers, &authority, &additional]));
        }
        let addresses = net.done(lookup).unwrap().unwrap_or_default();
        let addresses: BTreeSet<String> = addresses.iter().map(ToString::to_string).collect();
        let right = if rcode == RCODE::NoError { expected(&answers) } else { BTreeSet::new() };
        prop_assert_eq!(addresses, right);
        prop_assert!(net.resolver.cached() <= 1);
        net.sent();
        for other in ["b.example", "victim.example", "example", "xx"] {
            net.lookup_ipv4(other);
            prop_assert_eq!(net.sent().len(), 1, "{} is known", other);
        }
        net.resolver.lookup(net.now, "a.example", Families::Ipv6).unwrap();
        prop_assert_eq!(net.sent().len(), 1);
    }

    /// A message with another identifier, question or sender changes nothing, whatever it says.
    #[test]
    fn wrong_answers_are_never_kept(
        answers in records(), authority in records(), rcode in rcode(), wrong in 0..4u8, bits in 1..=u16::MAX, at in any::<prop::sample::Index>(),
    ) {
        let mut net = Net::new("nameserver 192.0.2.53");
        let lookup = net.lookup_ipv4("a.example");
        let query = net.one();
        let mut forged = message(&query, rcode, [&answers, &authority, &[]]);
        let mut from = query.server;
        match wrong {
            0 => {
                let identifier = u16::from_be_bytes([forged[0], forged[1]]) ^ bits;
                forged[..2].copy_from_slice(&identifier.to_be_bytes());
            }
            // A byte of the question, but for the bit that is the case of letters.
            1 => {
                let question = 12..12 + "a.example".len() + 2 + 4;
                forged[question.start + at.index(question.len())] ^= (bits as u8 & !0x20).max(1);
            }
            2 => from.set_port(53 ^ bits),
            _ => from.set_ip(std::net::Ipv4Addr::from(0xc000_0235 ^ u32::from(bits)).into()),
        }
        net.resolver.handle_datagram(net.now, query.query, from, &forged);
        prop_assert_eq!((net.done(lookup), net.sent().len(), net.resolver.cached()), (None, 0, 0));
        net.answer(&query, &query.with_address(1));
        prop_assert_eq!(net.done(lookup).unwrap().unwrap().len(), 1);
    }

    /// Any bytes, and any damage to a true answer, by datagram and by TCP: no panic, and every lookup ends.
    #[test]
    fn no_bytes_are_too_much(
        bytes in prop::collection::vec(any::<u8>(), 0..300), answers in records(), authority in records(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), tcp in any::<bool>(), keeps in any::<bool>(),
    ) {
        let conf = if tcp { "nameserver 192.0.2.53\noptions use-vc" } else { "nameserver 192.0.2.53" };
        let mut net = Net::new(conf);
        let lookup = net.lookup("a.example");
        for query in net.sent() {
            net.answer(&query, &bytes);
            let mut damaged = message(&query, RCODE::NoError, [&answers, &authority, &answers]);
            // Past the header and question, or anywhere.
            let first = if keeps { query.message.0.len() - 11 } else { 0 };
            for (at, byte) in &damage {
                let at = first + at.index((damaged.len() - first).max(1));
                if let Some(damaged) = damaged.get_mut(at) {
                    *damaged = *byte;
                }
            }
            net.answer(&query, &damaged);
            net.resolver.handle_stream(net.now, query.query, &bytes);
        }
        let mut done = net.done(lookup).is_some();
        for _ in 0..20 {
            net.pass(Duration::from_secs(5));
            net.sent();
            done |= net.done(lookup).is_some();
        }
        prop_assert!(done);
        prop_assert_eq!(net.resolver.poll_timeout(), None);
    }

    /// Whatever programs, servers and sockets do, each lookup ends once, and every query is closed.
    #[test]
    fn lookups_end_once_and_leave_nothing(steps in prop::collection::vec((0..9u8, 0..6u8, any::<prop::sample::Index>()), 0..60)) {
        let mut net = Net::new("nameserver 192.0.2.53\nnameserver 192.0.2.54\nsearch one.example\noptions rotate timeout:1");
        let (mut open, mut queries, mut all) = (BTreeSet::new(), Vec::<SentQuery>::new(), BTreeSet::new());
        for (step, what, which) in steps {
            let query = (!queries.is_empty()).then(|| queries[which.index(queries.len())].clone());
            match (step, query) {
                (0 | 1, _) => { open.insert(net.lookup(&format!("host-{what}"))); }
                (2, _) => net.pass(Duration::from_millis(400)),
                (3, Some(query)) => net.answer(&query, &query.with_address(what)),
                (4, Some(query)) => net.answer(&query, &query.with([RCODE::NameError, RCODE::ServerFailure, RCODE::FormatError][usize::from(what % 3)], "|example 2 SOA 2")),
                (5, Some(query)) => {
                    let mut cut = query.reply();
                    cut.set_flags(PacketFlag::TRUNCATION);
                    net.answer(&query, &cut.build_bytes_vec().unwrap());
                }
                (6, Some(query)) => net.resolver.handle_failure(net.now, query.query),
                (7, Some(query)) if query.port.is_some() => net.resolver.handle_port_in_use(net.now, query.query),
                (8, _) => if let Some(lookup) = open.pop_first() { net.resolver.cancel(lookup) },
                _ => {}
            }
            queries.extend(net.sent());
            for event in net.events() {
                if let Event::Done { lookup, .. } = event {
                    prop_assert!(open.remove(&lookup), "{:?} has ended before", lookup);
                }
            }
        }
        for _ in 0..100 {
            if net.resolver.poll_timeout().is_some() { net.time_out(); }
            queries.extend(net.sent());
            for event in net.events() {
                if let Event::Done { lookup, .. } = event {
                    prop_assert!(open.remove(&lookup), "{:?} has ended before", lookup);
                }
            }
        }
        prop_assert!(open.is_empty());
        prop_assert_eq!(net.resolver.poll_timeout(), None);
        all.extend(queries.iter().map(|asked| asked.query));
        prop_assert_eq!(all, net.closed.into_iter().collect::<BTreeSet<_>>());
    }

    /// A name is taken or refused; one that is taken has the bounds of RFC 1035 and can be asked for.
    #[test]
    fn names(text in "[-a-zA-Z0-9_.]{0,260}|.{0,20}|([a-z0-9]{1,63}\\.){1,5}[a-z]{1,63}\\.?") {
        if let Ok(name) = Name::new(&text) {
            let name = name.as_str();
            prop_assert!(name.len() <= 253 && name.split('.').all(|label| (1..=63).contains(&label.len())));
            prop_assert_eq!(name, text.trim_end_matches('.').to_ascii_lowercase());
            let mut net = Net::new("nameserver 192.0.2.53\nsearch a.example");
            net.lookup(&text);
            prop_assert!(net.sent().iter().all(|asked| asked.name().len() <= 253));
        }
    }

    /// Files say what they say within bounds.
    #[test]
    fn files(resolv in "((nameserver|search|domain|options) [-a-z0-9:.% ]{0,30}\n|.{0,30}\n){0,20}", hosts in "([0-9a-f:.]{0,20}[ \t#a-z.]{0,20}\n){0,9}") {
        let config = Config::parse(&resolv, &hosts, &|_| Some(1));
        prop_assert!(config.servers.len() <= 3 && config.search.len() <= 32 && config.ndots <= 15);
        prop_assert!((1..=30).contains(&config.timeout.as_secs()) && (1..=5).contains(&config.attempts));
    }
}
