//! Lookups from their beginning to their end, told step by step.

use crate::net::{Net, SECRET, addresses, config, lower_question};
use exos_inet::{Duration, Instant};
use exos_names::{ErrorKind, Event, Families, Family, Resolver};
use simple_dns::{PacketFlag, RCODE};
use std::collections::BTreeSet;

const TWO: &str = "nameserver 192.0.2.53\nnameserver 2001:db8::53\n";

/// Both families are asked side by side, each is told when it is known, and the second time nobody is asked.
#[test]
fn both_families_and_the_cache() {
    let mut net = Net::new(TWO);
    let lookup = net.lookup("www.example.");
    let sent = net.sent();
    let families: Vec<Family> = sent.iter().map(|asked| asked.family()).collect();
    assert_eq!(families, [Family::Ipv6, Family::Ipv4]);
    assert_ne!(sent[0].port, sent[1].port);
    assert!(
        sent.iter()
            .all(|asked| asked.name().eq_ignore_ascii_case("www.example"))
    );
    assert!(sent.iter().all(|asked| {
        asked
            .packet()
            .opt()
            .is_some_and(|opt| opt.udp_packet_size == 1232)
    }));
    assert!(
        sent.iter()
            .all(|asked| asked.packet().has_flags(PacketFlag::RECURSION_DESIRED))
    );

    net.answer(&sent[1], &sent[1].with_address(4));
    let known = addresses(&["192.0.2.4"]);
    let (family, addresses_of_family) = (Family::Ipv4, known.clone());
    assert_eq!(
        net.events(),
        [Event::Family {
            lookup,
            family,
            addresses: addresses_of_family
        }]
    );
    net.answer(
        &sent[0],
        &sent[0].with(RCODE::NoError, "|example 60 SOA 60"),
    );
    let (family, none) = (Family::Ipv6, Vec::new());
    let result = Ok(known.clone());
    assert_eq!(
        net.events(),
        [
            Event::Family {
                lookup,
                family,
                addresses: none
            },
            Event::Done {
                lookup,
                result,
                until: Some(net.now + Duration::from_secs(60)),
                failed: None,
            }
        ]
    );
    assert_eq!(
        (
            net.sent().len(),
            net.closed.len(),
            net.resolver.poll_timeout()
        ),
        (0, 2, None)
    );

    net.pass(Duration::from_secs(59));
    let again = net.lookup("WWW.example");
    assert_eq!(net.done(again).unwrap().unwrap(), known);
    assert_eq!(
        (
            net.sent().len(),
            net.counter("cache_hits"),
            net.counter("cache_misses")
        ),
        (0, 2, 2)
    );
    net.pass(Duration::from_secs(1));
    net.lookup("www.example");
    assert_eq!(net.sent().len(), 2);
}

#[test]
fn lookups_of_one_name_share_its_queries() {
    let mut net = Net::new(TWO);
    let lookups = [
        net.lookup("a.example"),
        net.lookup("A.example"),
        net.lookup_ipv4("a.example"),
    ];
    let sent = net.sent();
    assert_eq!((sent.len(), net.counter("cache_joined")), (2, 3));
    // One that is given up does not end the others.
    net.resolver.cancel(lookups[0]);
    sent.iter()
        .for_each(|asked| net.answer(asked, &asked.with_address(1)));
    let done = net.events().into_iter().filter_map(|event| match event {
        Event::Done { lookup, .. } => Some(lookup),
        Event::Family { .. } => None,
    });
    assert_eq!(
        done.collect::<BTreeSet<_>>(),
        [lookups[1], lookups[2]].into()
    );

    // What nobody waits for any longer is over.
    let lookup = net.lookup("b.example");
    let sent = net.sent();
    net.resolver.cancel(lookup);
    assert_eq!((net.sent().len(), net.resolver.poll_timeout()), (0, None));
    assert!(sent.iter().all(|asked| net.closed.contains(&asked.query)));
    net.answer(&sent[0], &sent[0].with_address(1));
    assert_eq!(
        (net.counter("drop_no_query"), net.resolver.cached()),
        (1, 2)
    );
}

/// Each server has its time, then the next is asked, as often as configured; those that were silent come last the next time.
#[test]
fn servers_that_do_not_answer() {
    let mut net = Net::new(&format!("{TWO}options timeout:2 attempts:2"));
    let lookup = net.lookup_ipv4("a.example");
    let mut asked = Vec::new();
    for at in 0..4 {
        let query = net.one();
        asked.push(query.server.to_string());
        assert_eq!(
            net.resolver.poll_timeout(),
            Some(Instant::from_millis(1 + 2000 * (at + 1)))
        );
        net.pass(Duration::from_millis(1999));
        assert!(net.sent().is_empty());
        net.pass(Duration::from_millis(1));
        // Too late.
        net.answer(&query, &query.with_address(1));
    }
    let (one, two) = ("192.0.2.53:53", "[2001:db8::53]:53");
    assert_eq!(asked, [one, two, one, two]);
    let error = net.done(lookup).unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.asked().len()),
        (ErrorKind::NoAnswer, 2)
    );
    assert_eq!(
        error.to_string(),
        "no name server answered for a.example (asked 192.0.2.53, 2001:db8::53); check that they can be reached, or name others in /etc/resolv.conf"
    );
    assert_eq!(
        (net.counter("timeouts"), net.counter("drop_no_query")),
        (4, 4)
    );

    // The second answers this time: from now on it is asked first, until a minute has gone by.
    net.pass(Duration::from_secs(1));
    net.lookup_ipv4("b.example");
    assert_eq!(net.one().server.to_string(), one);
    net.time_out();
    let query = net.one();
    net.answer(&query, &query.with_address(1));
    net.sent();
    net.lookup_ipv4("c.example");
    assert_eq!(net.one().server.to_string(), two);
    net.pass(Duration::from_secs(61));
    net.sent();
    net.lookup_ipv4("d.example");
    assert_eq!(net.one().server.to_string(), one);
}

#[test]
fn servers_that_refuse_or_cannot_be_reached() {
    let mut net = Net::new(&format!("{TWO}options attempts:1"));
    let lookup = net.lookup_ipv4("a.example");
    let query = net.one();
    net.answer(&query, &query.with(RCODE::Refused, ""));
    let query = net.one();
    assert_eq!(query.server.to_string(), "[2001:db8::53]:53");
    net.resolver.handle_failure(net.now, query.query);
    // One of the two said something: it is no lack of answers.
    assert_eq!(
        net.done(lookup).unwrap().unwrap_err().kind(),
        ErrorKind::ServerFailure
    );

    let mut net = Net::new(&format!("{TWO}options attempts:1"));
    let lookup = net.lookup_ipv4("a.example");
    for _ in 0..2 {
        let query = net.one();
        net.resolver.handle_failure(net.now, query.query);
        net.resolver.handle_failure(net.now, query.query);
    }
    assert_eq!(
        net.done(lookup).unwrap().unwrap_err().kind(),
        ErrorKind::NoAnswer
    );
    assert_eq!(net.counter("unreachable"), 2);
}

#[test]
fn servers_take_turns() {
    let mut net = Net::new(&format!("{TWO}options rotate"));
    let mut asked = Vec::new();
    for name in ["a.example", "b.example", "c.example"] {
        net.lookup_ipv4(name);
        asked.push(net.one().server.is_ipv6());
    }
    assert_eq!(asked, [false, true, false]);
}

/// RFC 7766 §5: a truncated answer is asked for again over TCP, where it may come in any pieces.
#[test]
fn truncated() {
    let mut net = Net::new(TWO);
    let lookup = net.lookup_ipv4("a.example");
    let query = net.one();
    let mut reply = query.reply();
    reply.set_flags(PacketFlag::TRUNCATION);
    net.answer(&query, &reply.build_bytes_vec().unwrap());
    let stream = net.one();
    assert_eq!((stream.port, stream.server), (None, query.server));
    let answer = stream.with_address(9);
    let framed = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
    for byte in framed {
        assert_eq!(net.events(), []);
        net.resolver.handle_stream(net.now, stream.query, &[byte]);
    }
    assert_eq!(
        net.done(lookup).unwrap().unwrap(),
        addresses(&["192.0.2.9"])
    );
    assert_eq!(
        (net.counter("truncated"), net.counter("queries_tcp")),
        (1, 1)
    );

    // Where there is no TCP, the next server is asked.
    net.lookup_ipv4("b.example");
    let query = net.sent().pop().unwrap();
    let mut reply = query.reply();
    reply.set_flags(PacketFlag::TRUNCATION);
    net.answer(&query, &reply.build_bytes_vec().unwrap());
    let stream = net.one();
    net.resolver.handle_failure(net.now, stream.query);
    let query = net.one();
    assert!(query.port.is_some() && query.server.is_ipv6());
    // It answers datagrams, and is asked first as before.
    net.lookup_ipv4("c.example");
    assert!(net.one().server.is_ipv4());
}

#[test]
fn all_over_tcp() {
    let mut net = Net::new(&format!("{TWO}options use-vc attempts:1"));
    let lookup = net.lookup_ipv4("a.example");
    let stream = net.one();
    assert_eq!(stream.port, None);
    // A datagram is nothing that was waited for.
    net.resolver.handle_datagram(
        net.now,
        stream.query,
        stream.server,
        &stream.with_address(1),
    );
    assert_eq!(net.counter("drop_no_query"), 1);
    // A message that is not the answer is a failure here: nobody else can have sent it.
    let mut other = stream.with_address(1);
    other[0] ^= 1;
    net.answer(&stream, &other);
    let stream = net.one();
    net.answer(&stream, &stream.with_address(2));
    assert_eq!(
        net.done(lookup).unwrap().unwrap(),
        addresses(&["192.0.2.2"])
    );
    assert_eq!(net.counter("drop_identifier"), 1);
}

/// RFC 6891 §6.2.2, and servers so old that they leave the question out.
#[test]
fn servers_without_edns() {
    for (rcode, question) in [
        (RCODE::FormatError, true),
        (RCODE::NotImplemented, true),
        (RCODE::FormatError, false),
    ] {
        let mut net = Net::new(TWO);
        let lookup = net.lookup_ipv4("a.example");
        let query = net.one();
        let mut reply = query.reply();
        *reply.rcode_mut() = rcode;
        *reply.opt_mut() = None;
        if !question {
            reply.questions.clear();
        }
        net.answer(&query, &reply.build_bytes_vec().unwrap());
        let again = net.one();
        assert_eq!((again.packet().opt(), again.server), (None, query.server));
        net.answer(&again, &again.with_address(1));
        assert!(net.done(lookup).unwrap().is_ok());
        // Known from now on; and a second refusal is a failure.
        net.sent();
        net.lookup_ipv4("b.example");
        let query = net.one();
        assert_eq!(query.packet().opt(), None);
        net.answer(&query, &query.with(RCODE::FormatError, ""));
        assert!(net.one().server.is_ipv6());
    }
}

/// A name that came back in other letters is asked for over TCP, which proves who answers. Then its server is known to lose
/// them, and is no longer sent any.
#[test]
fn servers_that_lose_the_case() {
    let mut net = Net::new(TWO);
    let lookup = net.lookup_ipv4("a-long-name.example");
    let query = net.one();
    assert_ne!(query.name(), query.name().to_lowercase());
    net.answer(&query, &lower_question(query.with_address(1)));
    assert_eq!(net.done(lookup), None);
    let stream = net.one();
    assert_eq!(
        (stream.port, stream.server, net.counter("case_lost")),
        (None, query.server, 1)
    );
    net.answer(&stream, &lower_question(stream.with_address(2)));
    assert!(net.done(lookup).unwrap().is_ok());
    net.sent();
    net.lookup_ipv4("another-long-name.example");
    assert_eq!(net.one().name(), "another-long-name.example");
    assert_eq!(net.counter("case_lost"), 1);
}

#[test]
fn servers_that_lose_the_case_and_have_no_tcp() {
    let mut net = Net::new(TWO);
    let lookup = net.lookup_ipv4("a-long-name.example");
    let query = net.one();
    net.answer(&query, &lower_question(query.with_address(1)));
    let stream = net.one();
    net.resolver.handle_failure(net.now, stream.query);
    let again = net.one();
    assert_eq!(
        (again.name(), again.server),
        ("a-long-name.example".to_owned(), query.server)
    );
    assert_ne!(again.message.0[..2], query.message.0[..2]);
    net.answer(&again, &again.with_address(3));
    assert_eq!(
        net.done(lookup).unwrap().unwrap(),
        addresses(&["192.0.2.3"])
    );
}

#[test]
fn a_port_in_use_is_exchanged() {
    let mut net = Net::new("nameserver 192.0.2.53\noptions attempts:1");
    let lookup = net.lookup_ipv4("a.example");
    let mut ports = BTreeSet::new();
    for _ in 0..9 {
        let query = net.one();
        ports.insert(query.port.unwrap());
        net.resolver.handle_port_in_use(net.now, query.query);
    }
    assert!(ports.len() > 7, "{ports:?}");
    assert_eq!(
        net.done(lookup).unwrap().unwrap_err().kind(),
        ErrorKind::NoAnswer
    );
    assert_eq!(net.counter("ports_in_use"), 9);
}

/// resolv.conf(5), as glibc does it: the next domain where there is no such name or no address; a failure is told in the end.
#[test]
fn the_search_list() {
    let conf = "nameserver 192.0.2.53\nsearch one.example two.example\noptions attempts:1";
    let no_name = |net: &mut Net, expected: &str| {
        let query = net.one();
        assert!(
            query.name().eq_ignore_ascii_case(expected),
            "{}",
            query.name()
        );
        net.answer(&query, &query.with(RCODE::NameError, "|example 60 SOA 60"));
    };
    let mut net = Net::new(conf);
    let lookup = net.lookup_ipv4("www");
    no_name(&mut net, "www.one.example");
    let query = net.one();
    net.answer(&query, &query.with_address(2));
    assert_eq!(
        net.done(lookup).unwrap().unwrap(),
        addresses(&["192.0.2.2"])
    );
    // The first is known not to be there.
    net.sent();
    let lookup = net.lookup_ipv4("www");
    assert!(net.sent().is_empty());
    assert!(net.done(lookup).unwrap().is_ok());

    let lookup = net.lookup_ipv4("a.b");
    for expected in ["a.b", "a.b.one.example", "a.b.two.example"] {
        no_name(&mut net, expected);
    }
    let error = net.done(lookup).unwrap().unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::NoSuchName, "a.b"));

    let mut net = Net::new(conf);
    let lookup = net.lookup_ipv4("www");
    let query = net.one();
    net.answer(&query, &query.with(RCODE::ServerFailure, ""));
    no_name(&mut net, "www.two.example");
    let query = net.one();
    net.answer(&query, &query.with(RCODE::NoError, "|. 60 SOA 60"));
    assert_eq!(
        net.done(lookup).unwrap().unwrap_err().kind(),
        ErrorKind::ServerFailure
    );

    // Where nobody answers, no other name is asked for.
    let mut net = Net::new(conf);
    let lookup = net.lookup_ipv4("www");
    net.one();
    net.time_out();
    assert!(net.sent().is_empty());
    assert_eq!(
        net.done(lookup).unwrap().unwrap_err().kind(),
        ErrorKind::NoAnswer
    );
}

/// A family without addresses does not decide by itself: the name is the first that has any.
#[test]
fn one_family_is_enough() {
    let mut net = Net::new("nameserver 192.0.2.53\nsearch one.example");
    let lookup = net.lookup("www");
    let sent = net.sent();
    net.answer(
        &sent[0],
        &sent[0].with(RCODE::NoError, "|example 60 SOA 60"),
    );
    assert_eq!(net.events(), []);
    net.answer(&sent[1], &sent[1].with_address(1));
    let families = net.events().into_iter().map(|event| match event {
        Event::Family {
            family, addresses, ..
        } => (Some(family), addresses.len()),
        Event::Done {
            lookup: of, result, ..
        } => (None, result.unwrap().len() + usize::from(of != lookup)),
    });
    assert_eq!(
        families.collect::<Vec<_>>(),
        [(Some(Family::Ipv6), 0), (Some(Family::Ipv4), 1), (None, 1)]
    );
}

/// Where one family has addresses, what could not be found out of the other is told beside them.
#[test]
fn a_family_that_fails_is_told_beside_the_other() {
    let mut net = Net::new("nameserver 192.0.2.53\noptions attempts:1");
    net.lookup("www.example");
    let sent = net.sent();
    net.answer(&sent[1], &sent[1].with_address(1));
    net.answer(&sent[0], &sent[0].with(RCODE::ServerFailure, ""));
    let Some(Event::Done { result, failed, .. }) = net.events().pop() else {
        panic!("no end");
    };
    assert_eq!(result.unwrap(), addresses(&["192.0.2.1"]));
    let failed = failed.map(|(family, error)| (family, error.kind()));
    assert_eq!(failed, Some((Family::Ipv6, ErrorKind::ServerFailure)));
}

#[test]
fn names_known_here_are_not_asked_for() {
    let mut net = Net::new(TWO);
    for (name, expected) in [
        ("192.0.2.1", &["192.0.2.1"][..]),
        ("2001:db8::1", &["2001:db8::1"]),
        ("localhost", &["::1", "127.0.0.1"]),
        ("known", &["192.0.2.77"]),
    ] {
        let lookup = net.lookup(name);
        assert_eq!(net.done(lookup).unwrap().unwrap(), addresses(expected));
    }
    let lookup = net
        .resolver
        .lookup(net.now, "known", Families::Ipv6)
        .unwrap();
    assert_eq!(
        net.done(lookup).unwrap().unwrap_err().kind(),
        ErrorKind::NoAddress
    );
    let refused = net
        .resolver
        .lookup(net.now, "not a name", Families::Both)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadName);
    assert!(net.sent().is_empty());

    let mut net = Net::new("");
    let lookup = net.lookup("www.example");
    let error = net.done(lookup).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoServer);
    assert!(error.to_string().contains("/etc/resolv.conf"), "{error}");
}

/// What is under way goes on with the new servers; what the old ones said is forgotten.
#[test]
fn another_configuration() {
    let mut net = Net::new(TWO);
    net.lookup_ipv4("old.example");
    let query = net.one();
    net.answer(&query, &query.with_address(1));
    let lookup = net.lookup_ipv4("a.example");
    let old = net.sent().pop().unwrap();
    net.resolver.configure(net.now, config(TWO));
    assert_eq!((net.sent().len(), net.resolver.cached()), (0, 1));

    net.resolver
        .configure(net.now, config("nameserver 192.0.2.99"));
    let query = net.one();
    assert_eq!(
        (query.server.to_string(), net.resolver.cached()),
        ("192.0.2.99:53".to_owned(), 0)
    );
    assert!(net.closed.contains(&old.query));
    net.answer(&old, &old.with_address(1));
    net.answer(&query, &query.with_address(2));
    assert_eq!(
        net.done(lookup).unwrap().unwrap(),
        addresses(&["192.0.2.2"])
    );

    let lookup = net.lookup_ipv4("b.example");
    net.resolver.configure(net.now, config(""));
    assert_eq!(
        net.done(lookup).unwrap().unwrap_err().kind(),
        ErrorKind::NoServer
    );
}

#[test]
fn lookups_are_bounded() {
    let mut net = Net::new(TWO);
    for number in 0..256 {
        net.lookup(&format!("host-{number}.example"));
    }
    let refused = net
        .resolver
        .lookup(net.now, "one-more.example", Families::Both)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    let sent = net.sent();
    assert_eq!(sent.len(), 512);
    sent.iter()
        .for_each(|asked| net.answer(asked, &asked.with_address(1)));
    assert_eq!(net.events().len(), 3 * 256);
    net.lookup("one-more.example");
}

/// Ports, identifiers and letters differ from query to query and from secret to secret, and one secret repeats them.
#[test]
fn what_forgers_have_to_guess_is_random() {
    let drawn = |secret: u64| {
        let mut resolver = Resolver::new(config(TWO), secret);
        let mut drawn = Vec::new();
        for number in 0..100 {
            let name = format!("host-{number}.a-long-name.example");
            resolver
                .lookup(Instant::START, &name, Families::Both)
                .unwrap();
        }
        while let Some(action) = resolver.poll_action() {
            if let exos_names::Action::Datagram { port, message, .. } = action {
                drawn.push((port, message));
            }
        }
        drawn
    };
    let (one, other) = (drawn(SECRET), drawn(SECRET + 1));
    assert_eq!(one, drawn(SECRET));
    assert!(one.iter().zip(&other).all(|(one, other)| one != other));
    let ports: BTreeSet<u16> = one.iter().map(|(port, _)| *port).collect();
    let identifiers: BTreeSet<&[u8]> = one.iter().map(|(_, message)| &message[..2]).collect();
    assert!(
        ports.len() > 190 && ports.iter().all(|port| *port >= 32_768),
        "{}",
        ports.len()
    );
    assert!(identifiers.len() > 190, "{}", identifiers.len());
    let capitals = one
        .iter()
        .flat_map(|(_, message)| message)
        .filter(|byte| byte.is_ascii_uppercase())
        .count();
    let letters = one
        .iter()
        .flat_map(|(_, message)| message)
        .filter(|byte| byte.is_ascii_alphabetic())
        .count();
    assert!(
        (4..=6).contains(&(10 * capitals / letters)),
        "{capitals} of {letters}"
    );
}
