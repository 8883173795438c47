//! Connections of others, decrypted by their key logs: all suites, resumed sessions, changes of keys, whatever is cut wherever.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use exos_tls::keylog::{KeyLog, KeyLogWriter};
use exos_tls::observer::{HandshakeType, Observer, Obstacle, Seen, Side};
use exos_tls::policy::MinimumVersion;
use proptest::prelude::*;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use crate::sessions::{SUITES, configs, name};

/// Lines of a key log, in memory.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<String>);

impl rustls::KeyLog for Lines {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| {
            bytes.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02X}");
                text
            })
        };
        let mut lines = self.0.lock().unwrap();
        let _ = writeln!(lines, "{label} {} {}", hex(random), hex(secret));
    }
}

impl Lines {
    /// Adds them to a log; says how many were secrets.
    pub(crate) fn add_to(&self, log: &mut KeyLog) -> usize {
        log.add_lines(self.0.lock().unwrap().as_bytes())
    }
}

/// What went over a wire, and the log of its keys.
struct Recorded {
    /// Who has sent what, in this order.
    flights: Vec<(Side, Vec<u8>)>,
    log: KeyLog,
}

/// What an observer has seen of one side.
#[derive(Debug, Default, PartialEq)]
struct Told {
    messages: Vec<HandshakeType>,
    data: Vec<u8>,
    alerts: usize,
}

/// A client of rustls asks, changes its keys, asks again and ends; the server answers each time.
fn record(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>, lines: &Lines) -> Recorded {
    use std::io::{Read as _, Write as _};
    let mut client = ClientConnection::new(client.clone(), name()).unwrap();
    let mut server = ServerConnection::new(server.clone()).unwrap();
    let mut flights = Vec::new();
    let mut plain = Vec::new();
    for step in 0..8 {
        match step {
            3 => client.writer().write_all(b"asked").unwrap(),
            4 => {
                server.writer().write_all(&[7; 40_000]).unwrap();
                let _ = client.refresh_traffic_keys(); // TLS 1.2 has none.
                client.writer().write_all(b"asked again").unwrap();
            }
            5 => {
                server.writer().write_all(b"answered").unwrap();
                client.send_close_notify();
            }
            _ => {}
        }
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets().unwrap();
            let _ = server.reader().read_to_end(&mut plain);
        }
        flights.push((Side::Client, bytes));
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().unwrap();
            let _ = client.reader().read_to_end(&mut plain);
        }
        flights.push((Side::Server, bytes));
    }
    let mut log = KeyLog::default();
    assert!(lines.add_to(&mut log) > 0);
    Recorded { flights, log }
}

/// Shows it all to an observer, in pieces of this length.
fn observe(recorded: &Recorded, cut: usize) -> Result<[Told; 2], Obstacle> {
    let mut observer = Observer::default();
    let mut told = [Told::default(), Told::default()];
    let mut waiting = [Vec::new(), Vec::new()];
    for (side, bytes) in &recorded.flights {
        let at = usize::from(*side == Side::Server);
        for piece in bytes.chunks(cut) {
            waiting[at].extend_from_slice(piece);
            let (mut plain, mut seen) = (Vec::new(), Vec::new());
            let taken =
                observer.observe(*side, &waiting[at], &recorded.log, &mut plain, &mut seen)?;
            waiting[at].drain(..taken.bytes);
            for seen in seen {
                match seen {
                    Seen::Message(kind) => told[at].messages.push(kind),
                    Seen::Alert(..) => told[at].alerts += 1,
                    Seen::Data(range) => told[at].data.extend_from_slice(&plain[range]),
                }
            }
        }
    }
    assert!(waiting.iter().all(Vec::is_empty), "all was taken");
    Ok(told)
}

/// Both ends with a log of the client's keys.
pub(crate) fn logged(
    minimum: MinimumVersion,
    suites: &[&str],
) -> (Arc<ServerConfig>, Arc<ClientConfig>, Arc<Lines>) {
    let (server, client) = configs(minimum, suites);
    let lines = Arc::new(Lines::default());
    let mut client = ClientConfig::clone(&client);
    client.key_log = lines.clone();
    (server, Arc::new(client), lines)
}

fn check(told: &[Told; 2]) {
    let [client, server] = told;
    assert_eq!(client.data, b"askedasked again");
    let answered = [&[7; 40_000][..], b"answered"].concat();
    assert!(server.data == answered, "{} bytes", server.data.len());
    assert_eq!(client.alerts, 1, "the end");
    assert!(client.messages.contains(&HandshakeType::Finished));
    assert!(server.messages.contains(&HandshakeType::Finished));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn all_suites_are_decrypted_full_and_resumed(suite in 0..6usize, cut in 1..3000usize) {
        let (server, client, lines) = logged(MinimumVersion::V12, &[SUITES[suite]]);
        let full = record(&server, &client, &lines);
        check(&observe(&full, cut).unwrap());
        let resumed = record(&server, &client, &lines);
        let told = observe(&resumed, cut).unwrap();
        check(&told);
        prop_assert!(!told[1].messages.contains(&HandshakeType::Certificate));
    }
}

#[test]
fn a_log_without_its_keys_decrypts_nothing_and_waits() {
    let (server, client, lines) = logged(MinimumVersion::V12, &[]);
    let mut recorded = record(&server, &client, &lines);
    recorded.log = KeyLog::default();
    let mut observer = Observer::default();
    let (mut plain, mut seen) = (Vec::new(), Vec::new());
    let mut wanted = 0;
    for (side, bytes) in &recorded.flights {
        let taken = observer.observe(*side, bytes, &recorded.log, &mut plain, &mut seen);
        wanted += usize::from(taken.unwrap().wants_key);
    }
    assert!(wanted > 0 && plain.is_empty() && seen.is_empty());
}

#[test]
fn keys_of_another_session_are_told() {
    let (server, client, lines) = logged(MinimumVersion::V12, &[]);
    let mut recorded = record(&server, &client, &lines);
    // All secrets are others.
    let text = lines.0.lock().unwrap().clone();
    recorded.log = KeyLog::default();
    for line in text.lines().filter(|line| !line.starts_with("EXPORTER")) {
        let (rest, secret) = line.rsplit_once(' ').unwrap();
        let secret: String = secret.chars().rev().collect();
        assert!(recorded.log.add(format!("{rest} {secret}").as_bytes()));
    }
    assert_eq!(observe(&recorded, 1000), Err(Obstacle::WrongKey));
}

#[test]
fn what_is_no_tls_is_told() {
    let mut observer = Observer::default();
    let log = KeyLog::default();
    let (mut plain, mut seen) = (Vec::new(), Vec::new());
    let told = observer.observe(
        Side::Client,
        b"GET / HTTP/1.1\r\n",
        &log,
        &mut plain,
        &mut seen,
    );
    assert_eq!(told, Err(Obstacle::NotTls));
}

#[test]
fn lines_of_a_log() {
    let mut log = KeyLog::default();
    let random = "0123456789abcdefABCDEF0123456789".repeat(2);
    let secret = "00".repeat(48);
    let line = |label: &str| format!("{label} {random} {secret}\r\n");
    assert!(log.add(line("CLIENT_RANDOM").as_bytes()));
    assert!(log.add(line("SERVER_TRAFFIC_SECRET_0").as_bytes()));
    assert_eq!(log.len(), 1);
    for bad in [
        "# a comment",
        "",
        "CLIENT_RANDOM",
        &format!("CLIENT_RANDOM {random}"),
        &format!("CLIENT_RANDOM {random} {secret} more"),
        &format!("CLIENT_RANDOM {random} {secret}0"),
        &format!("CLIENT_RANDOM {random} 00"),
        &format!("CLIENT_RANDOM {}zz {secret}", &random[2..]),
        &line("EXPORTER_SECRET"),
    ] {
        assert!(!log.add(bad.as_bytes()), "{bad}");
    }
}

#[test]
fn a_log_is_written_for_its_owner_alone_and_read_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let (server, client, _) = logged(MinimumVersion::V12, &[]);
    let mut client = ClientConfig::clone(&client);
    client.key_log = Arc::new(KeyLogWriter::append_to(&path).unwrap());
    let lines = Lines::default();
    lines.0.lock().unwrap().push_str(&format!(
        "CLIENT_RANDOM {} {}\n",
        "00".repeat(32),
        "00".repeat(48)
    ));
    let mut recorded = record(&server, &Arc::new(client), &lines);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    recorded.log = KeyLog::default();
    recorded.log.add_lines(&std::fs::read(&path).unwrap());
    check(&observe(&recorded, 500).unwrap());
}
