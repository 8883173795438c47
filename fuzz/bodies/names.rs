//! What the fuzz targets of names check of any bytes.
//!
//! The file is included by the fuzz targets and by `crates/names/tests/all/corpus.rs`, which replays the corpora with a
//! stable compiler; it depends on nothing but `exos_names` and `exos_inet`.

use exos_inet::{Duration, Instant};
use exos_names::{Action, Config, Event, Families, Family, Resolver};
use std::net::IpAddr;

const NAME: &str = "www.example";

/// A resolver asks for one name, and the bytes come as the answer: they add nothing to the cache but that name, with
/// addresses of the family asked for, and whatever they are, the lookup ends.
///
/// The first byte chooses: bit 0 TCP, bit 1 IPv6, bit 2 that the identifier and question stay as they came. Otherwise they are
/// put right, so that what follows is read.
pub fn answer(data: &[u8]) {
    let [choice, data @ ..] = data else {
        return;
    };
    let (tcp, raw) = (choice & 1 != 0, choice & 4 != 0);
    let (family, families) = match choice & 2 {
        0 => (Family::Ipv4, Families::Ipv4),
        _ => (Family::Ipv6, Families::Ipv6),
    };
    let options = if tcp { "use-vc" } else { "" };
    let text = format!("nameserver 192.0.2.53\noptions attempts:1 {options}");
    let mut resolver = Resolver::new(Config::parse(&text, "", &|_| None), 1);
    let mut now = Instant::from_millis(1);
    let lookup = resolver.lookup(now, NAME, families).expect("it is a name");
    let mut done = None;
    for _ in 0..4 {
        while let Some(action) = resolver.poll_action() {
            match action {
                Action::Datagram {
                    query,
                    server,
                    message,
                    ..
                } => {
                    let answer = if raw {
                        data.to_vec()
                    } else {
                        put_right(data, &message)
                    };
                    resolver.handle_datagram(now, query, server, &answer);
                }
                Action::Stream { query, bytes, .. } => {
                    let answer = if raw {
                        data.to_vec()
                    } else {
                        put_right(data, &bytes[2..])
                    };
                    resolver.handle_stream(now, query, &(answer.len() as u16).to_be_bytes());
                    resolver.handle_stream(now, query, &answer);
                }
                Action::Close { .. } => {}
            }
        }
        while let Some(event) = resolver.poll_event() {
            if let Event::Done {
                lookup: of, result, ..
            } = event
            {
                assert!(of == lookup && done.is_none());
                done = Some(result);
            }
        }
        now += Duration::from_secs(30);
        resolver.handle_timeout(now);
    }
    assert_eq!(resolver.poll_timeout(), None);
    assert!(resolver.cached() <= 1);
    match done.expect("every lookup ends") {
        Ok(addresses) => {
            assert!((1..=64).contains(&addresses.len()));
            let of_family = |address: &IpAddr| Family::of(*address) == family;
            assert!(addresses.iter().all(of_family));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The bytes with the identifier and the question of a query, as an answer.
fn put_right(data: &[u8], query: &[u8]) -> Vec<u8> {
    let question = &query[12..12 + NAME.len() + 2 + 4];
    let mut answer = query[..2].to_vec();
    let (header, rest) = data.split_at(data.len().min(10));
    answer.extend_from_slice(header);
    answer.resize(12, 0);
    answer[2] |= 0x80;
    answer[4..6].copy_from_slice(&[0, 1]);
    answer.extend_from_slice(question);
    answer.extend_from_slice(rest);
    answer
}

/// Texts of the two files, with a byte of 0 between them, and a name after another: what they say is within bounds, and a name
/// is refused with a sentence or looked up.
pub fn files(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, '\0');
    let mut part = || parts.next().unwrap_or("");
    let (resolv_conf, hosts, name) = (part(), part(), part());
    let config = Config::parse(resolv_conf, hosts, &|name| (name == "eth0").then_some(2));
    assert!(config.servers.len() <= 3 && config.search.len() <= 32 && config.ndots <= 15);
    assert!((1..=30).contains(&config.timeout.as_secs()) && (1..=5).contains(&config.attempts));
    let mut resolver = Resolver::new(config, 1);
    match resolver.lookup(Instant::START, name, Families::Both) {
        Ok(_) => assert!(resolver.poll_action().is_some() || resolver.poll_event().is_some()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
