//! `docs/rfc-exceptions.md` is complete and true: every requirement of RFC 9293's list stands in it, and
//! every script and test that it names exists. Beside that, the requirements that no packet script can
//! show: which addresses a connection may have, and where its numbers come from.

use crate::runner::wire;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use exos_inet::tcp::{IpFields, ListenOptions, OpenError, Options};
use exos_inet::{Config, Instant, Neighbors, RxChecksum, Stack};
use exos_wire::Mac;
use wire::Raw;

/// The highest numbers of RFC 9293's requirements (appendix B). REC-1 is the only one of its kind.
const MUSTS: u32 = 69;
const SHOULDS: u32 = 31;
const MAYS: u32 = 18;

/// Scripts that there are at least.
const SCRIPTS_MIN: usize = 150;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    let path = root().join("docs/rfc-exceptions.md");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Every script as `area/name`.
fn scripts() -> HashSet<String> {
    let mut all = HashSet::new();
    for file in std::fs::read_dir(root().join("crates/inet/tests/scripts")).expect("the scripts") {
        let path = file.expect("a file").path();
        let area = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let text = std::fs::read_to_string(&path).expect("a script");
        let names = text.lines().filter_map(|l| l.strip_prefix("script "));
        all.extend(names.map(|name| format!("{area}/{}", name.trim())));
    }
    all
}

#[test]
fn every_requirement_stands_in_the_page() {
    let page = page();
    // The first column of a row may name several: `MUST-35, MUST-36`.
    let mut rows: HashMap<&str, &str> = HashMap::new();
    for line in page.lines().filter(|l| l.starts_with('|')) {
        let first = line.split('|').nth(1).unwrap_or("");
        rows.extend(first.split(',').map(|id| (id.trim(), line)));
    }
    let kinds = [
        ("MUST", MUSTS),
        ("SHLD", SHOULDS),
        ("MAY", MAYS),
        ("REC", 1),
    ];
    let wanted = kinds
        .iter()
        .flat_map(|&(kind, most)| (1..=most).map(move |n| format!("{kind}-{n}")));
    let missing: Vec<String> = wanted
        .filter(|id| !rows.contains_key(id.as_str()))
        .collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
    // A row shows what it claims, or says why not.
    for (id, row) in rows
        .iter()
        .filter(|(id, _)| id.starts_with("MUST-") || id.starts_with("SHLD-"))
    {
        let shown = quoted(row).any(|name| name.contains('/'));
        assert!(
            shown || row.contains("exception:"),
            "{id}: neither a test nor a reason: {row}"
        );
    }
}

#[test]
fn every_script_and_test_that_is_named_exists() {
    let (page, scripts) = (page(), scripts());
    let mut missing = Vec::new();
    for name in quoted(&page).filter(|name| name.contains('/')) {
        let exists = match name.split_once("::") {
            Some((file, test)) => std::fs::read_to_string(root().join("crates").join(file))
                .is_ok_and(|text| text.contains(&format!("fn {test}("))),
            None if name.starts_with("crates/") => root().join(name).exists(),
            None => scripts.contains(name),
        };
        if !exists {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "named, but not there: {missing:#?}");
}

#[test]
fn there_are_many_scripts() {
    let count = scripts().len();
    assert!(count >= SCRIPTS_MIN, "only {count} scripts");
}

/// A stack with two addresses of each family.
fn stack(seed: u64) -> Stack {
    let mut config = Config::new(Mac(wire::MAC_OURS), 1500);
    let addresses = [
        ("10.0.0.1", 24),
        ("10.1.0.1", 24),
        ("fd00::1", 64),
        ("fd01::1", 64),
    ];
    config.addresses = addresses
        .iter()
        .map(|&(address, prefix)| (address.parse().expect("an address"), prefix))
        .collect();
    config.neighbors = Neighbors::External;
    Stack::new(config, seed, Instant::from_millis(1)).expect("a stack")
}

fn connect(stack: &mut Stack, to: &str) -> Result<SocketAddr, OpenError> {
    let to = to.parse().expect("an address");
    let id = stack
        .tcp
        .connect(Instant::from_millis(1), None, to, &Options::default())?;
    Ok(stack
        .tcp
        .connection(id)
        .expect("a connection")
        .flow()
        .local())
}

/// The frames that a stack answers to one.
fn answers(stack: &mut Stack, frame: &[u8]) -> usize {
    let now = Instant::from_millis(1);
    for address in ["10.0.0.2", "fd00::2"] {
        stack.set_neighbor(
            now,
            address.parse().expect("an address"),
            Mac(wire::MAC_PEER),
        );
    }
    stack.handle_frame(now, frame, RxChecksum::Unknown);
    let mut count = 0;
    while stack.poll_transmit(now).is_some() {
        count += 1;
    }
    count
}

fn syn(from: &str, to: &str) -> Vec<u8> {
    let raw = Raw {
        src_port: 4000,
        dst_port: 80,
        flags: 2,
        window: 1000,
        ..Raw::default()
    };
    let address = |a: &str| a.parse::<IpAddr>().expect("an address");
    wire::segment_frame(address(from), address(to), &raw, false)
}

/// RFC 9293 §3.9.2.3 (MUST-46): a connection is opened to one host.
#[test]
fn connections_are_opened_to_hosts_only() {
    let mut stack = stack(1);
    for to in [
        "224.0.0.1:80",
        "255.255.255.255:80",
        "10.0.0.255:80",
        "[ff02::1]:80",
    ] {
        assert_eq!(connect(&mut stack, to), Err(OpenError::NotAHost), "{to}");
    }
    for to in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80"] {
        assert_eq!(connect(&mut stack, to), Err(OpenError::NoRoute), "{to}");
    }
    assert_eq!(stack.tcp.connections(), 0);
}

/// RFC 9293 §3.9.2.3 (MUST-57, MUST-63): a SYN to a group, to everybody, or from an address that no
/// host can have, is dropped in silence.
#[test]
fn strange_addresses_open_nothing() {
    let mut stack = stack(1);
    stack
        .tcp
        .listen(None, 80, ListenOptions::default())
        .expect("a listener");
    let strange = [
        ("10.0.0.2", "10.0.0.255"),
        ("10.0.0.2", "255.255.255.255"),
        ("10.0.0.2", "224.0.0.1"),
        ("fd00::2", "ff02::1"),
        ("224.0.0.1", "10.0.0.1"),
        ("255.255.255.255", "10.0.0.1"),
        ("10.0.0.255", "10.0.0.1"),
        ("127.0.0.1", "10.0.0.1"),
        ("0.0.0.0", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("ff02::1", "fd00::1"),
        ("::1", "fd00::1"),
        ("::", "fd00::1"),
    ];
    for (from, to) in strange {
        assert_eq!(answers(&mut stack, &syn(from, to)), 0, "{from} to {to}");
        assert_eq!(stack.tcp.connections(), 0, "{from} to {to}");
    }
    assert_eq!(answers(&mut stack, &syn("10.0.0.2", "10.0.0.1")), 1);
    assert_eq!(answers(&mut stack, &syn("fd00::2", "fd00::1")), 1);
}

/// RFC 9293 §3.9.2.3 (MUST-44, MUST-45): without an address of the program's own the routes choose it,
/// and it stays the connection's.
#[test]
fn the_source_address_follows_the_route() {
    let mut stack = stack(1);
    for (to, from) in [
        ("10.0.0.9:80", "10.0.0.1"),
        ("10.1.0.9:80", "10.1.0.1"),
        ("[fd00::9]:80", "fd00::1"),
        ("[fd01::9]:80", "fd01::1"),
    ] {
        assert_eq!(connect(&mut stack, to).expect(to).ip().to_string(), from);
    }
}

/// RFC 9293 §3.9.1.1 (MUST-43): the program may say which of our addresses it means.
#[test]
fn the_program_may_choose_its_address() {
    let mut stack = stack(1);
    let source: SocketAddr = "10.1.0.1:7777".parse().expect("an address");
    let to = "10.0.0.9:80".parse().expect("an address");
    let id = stack
        .tcp
        .connect(
            Instant::from_millis(1),
            Some(source),
            to,
            &Options::default(),
        )
        .expect("a connection");
    let local = stack
        .tcp
        .connection(id)
        .expect("a connection")
        .flow()
        .local();
    assert_eq!(local, source);
    let only = Some("10.1.0.1".parse().expect("an address"));
    stack
        .tcp
        .listen(only, 80, ListenOptions::default())
        .expect("a listener");
    stack.handle_frame(
        Instant::from_millis(1),
        &syn("10.0.0.2", "10.0.0.1"),
        RxChecksum::Unknown,
    );
    assert_eq!(
        stack.tcp.connections(),
        1,
        "the listener's address is another"
    );
}

/// The first sequence number of a connection between the same ends.
fn initial(seed: u64, now: Instant, to: &str) -> u32 {
    let mut stack = stack(seed);
    let source = Some("10.0.0.1:7777".parse().expect("an address"));
    let to: SocketAddr = to.parse().expect("an address");
    stack.set_neighbor(now, to.ip(), Mac(wire::MAC_PEER));
    stack
        .tcp
        .connect(now, source, to, &Options::default())
        .expect("a connection");
    let out = stack.poll_transmit(now).expect("a SYN");
    let frame = [&[out.head], out.body.parts()].concat().concat();
    wire::read_frame(&frame).expect("a segment").2.seq
}

/// RFC 6528 §3 (MUST-8, SHLD-1, MUST-9): a clock of 4 µs, and a secret function of the four-tuple.
#[test]
fn initial_sequence_numbers_depend_on_a_secret_and_the_clock() {
    let start = Instant::from_millis(1);
    let here = initial(1, start, "10.0.0.2:80");
    assert_eq!(here, initial(1, start, "10.0.0.2:80"));
    assert_ne!(here, initial(2, start, "10.0.0.2:80"), "the secret");
    assert_ne!(here, initial(1, start, "10.0.0.2:81"), "the port");
    assert_ne!(here, initial(1, start, "10.0.0.3:80"), "the address");
    let later = initial(1, Instant::from_millis(1001), "10.0.0.2:80");
    assert_eq!(later.wrapping_sub(here), 250_000, "a second of the clock");
}

/// RFC 6056 §3.3.3: where the search for a port begins depends on both addresses, the other port and a
/// secret; one connection after the other takes another.
#[test]
fn ephemeral_ports_depend_on_a_secret() {
    let port = |seed, to: &str| connect(&mut stack(seed), to).expect("a connection").port();
    let here = port(1, "10.0.0.9:80");
    assert_eq!(here, port(1, "10.0.0.9:80"));
    for other in [
        port(2, "10.0.0.9:80"),
        port(1, "10.0.0.9:81"),
        port(1, "10.0.0.8:80"),
    ] {
        assert_ne!(here, other);
    }
    let mut stack = stack(1);
    let ports: HashSet<u16> = (0..1000)
        .map(|_| {
            connect(&mut stack, "10.0.0.9:80")
                .expect("a connection")
                .port()
        })
        .collect();
    assert_eq!(ports.len(), 1000);
    assert!(ports.iter().all(|&port| port >= 1024));
}

/// RFC 9293 §3.9.2.1 (MUST-50): IP options are skipped: TCP understands none.
#[test]
fn ip_options_are_ignored() {
    let mut stack = stack(1);
    stack
        .tcp
        .listen(None, 80, ListenOptions::default())
        .expect("a listener");
    let mut frame = syn("10.0.0.2", "10.0.0.1");
    // Record route with room for one address, and the end of the list.
    frame.splice(34..34, [7, 7, 4, 0, 0, 0, 0, 0]);
    frame[14] = 0x47;
    let len = u16::from_be_bytes([frame[16], frame[17]]) + 8;
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    frame[24..26].fill(0);
    let sum: u32 = frame[14..42]
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(answers(&mut stack, &frame), 1, "a SYN-ACK");
}

/// RFC 9293 §3.9.1.9, §3.9.2 (MUST-48, MUST-49, SHLD-21, SHLD-22): the program sets the differentiated
/// services field and the time to live, may change them, and every segment carries them.
#[test]
fn the_program_sets_fields_of_the_ip_header() {
    let mut stack = stack(3);
    let now = Instant::from_millis(10);
    let fields = |hop_limit, dscp| IpFields { hop_limit, dscp };
    let options = Options {
        ip: fields(9, 46),
        ..Options::default()
    };
    let to: SocketAddr = "10.0.0.2:80".parse().expect("an address");
    stack.set_neighbor(now, to.ip(), Mac(wire::MAC_PEER));
    let id = stack.tcp.connect(now, None, to, &options).expect("a way");
    let sent = |stack: &mut Stack, now| {
        stack.handle_timeout(now);
        let mut of_syns = Vec::new();
        while let Some(t) = stack.poll_transmit(now) {
            of_syns.extend((t.head[23] == 6).then(|| (t.head[15], t.head[22])));
        }
        of_syns
    };
    assert_eq!(sent(&mut stack, now), [(46 << 2, 9)]);
    stack.tcp.set_ip_fields(id, fields(200, 10));
    let later = Instant::from_millis(1_100);
    assert_eq!(sent(&mut stack, later), [(10 << 2, 200)], "also again");
}
