//! Both ends of a connection in memory.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use exos_tls::Session;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use crate::sessions::name;

/// Two sessions, between which what is sent is cut into pieces of this length.
pub(crate) struct Pair {
    pub(crate) client: Session,
    pub(crate) server: Session,
    pub(crate) cut: usize,
}

impl Pair {
    pub(crate) fn new(server: Arc<ServerConfig>, client: Arc<ClientConfig>, cut: usize) -> Pair {
        Pair {
            client: Session::client(client, name()).unwrap(),
            server: Session::server(server).unwrap(),
            cut,
        }
    }

    pub(crate) fn shake_hands(&mut self) {
        let mut to_server = Vec::new();
        self.client.receive(&[], &mut to_server).unwrap();
        for _ in 0..8 {
            let mut to_client = give(&mut self.server, &to_server, self.cut);
            to_server = give(&mut self.client, &to_client, self.cut);
            to_client.clear();
        }
        assert!(self.client.is_established() && self.server.is_established());
    }
}

/// All that rustls has to send.
pub(crate) fn take(connection: &mut rustls::Connection) -> Vec<u8> {
    let mut out = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut out).unwrap();
    }
    out
}

/// Gives a session what was sent to it, in pieces; what it leaves is given again. Gives what it sends.
pub(crate) fn give(session: &mut Session, bytes: &[u8], cut: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut waiting = Vec::new();
    for piece in bytes.chunks(cut) {
        waiting.extend_from_slice(piece);
        let taken = session.receive(&waiting, &mut out).unwrap();
        waiting.drain(..taken);
    }
    assert!(waiting.is_empty());
    out
}

/// Sends bytes in one or two pieces; gives what arrives.
pub(crate) fn carry(from: &mut Session, to: &mut Session, bytes: &[u8], cut: usize) -> Vec<u8> {
    let mut records = Vec::new();
    let (first, second) = bytes.split_at(bytes.len() / 3);
    from.seal(&[first, b"", second], &mut records).unwrap();
    let answer = give(to, &records, cut);
    assert!(answer.is_empty());
    let arrived = to.readable().to_vec();
    to.consume(arrived.len());
    arrived
}

/// Each of our ends with rustls' other end.
pub(crate) fn with_rustls(
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    there: &[usize],
    back: &[usize],
    cut: usize,
) {
    let mut theirs = ClientConnection::new(client.clone(), name()).unwrap();
    let mut ours = Session::server(server.clone()).unwrap();
    exchange(&mut ours, &mut (&mut theirs).into(), there, back, cut);
    let mut theirs = ServerConnection::new(server).unwrap();
    let mut ours = Session::client(client, name()).unwrap();
    exchange(&mut ours, &mut (&mut theirs).into(), back, there, cut);
}

/// rustls' connection, whichever end it is.
pub(crate) enum Theirs<'a> {
    Client(&'a mut ClientConnection),
    Server(&'a mut ServerConnection),
}

impl<'a> From<&'a mut ClientConnection> for Theirs<'a> {
    fn from(connection: &'a mut ClientConnection) -> Self {
        Theirs::Client(connection)
    }
}

impl<'a> From<&'a mut ServerConnection> for Theirs<'a> {
    fn from(connection: &'a mut ServerConnection) -> Self {
        Theirs::Server(connection)
    }
}

impl Theirs<'_> {
    fn give(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        while !bytes.is_empty() {
            match self {
                Theirs::Client(it) => {
                    it.read_tls(&mut bytes).unwrap();
                    it.process_new_packets().unwrap();
                    let _ = it.reader().read_to_end(&mut plain);
                }
                Theirs::Server(it) => {
                    it.read_tls(&mut bytes).unwrap();
                    it.process_new_packets().unwrap();
                    let _ = it.reader().read_to_end(&mut plain);
                }
            }
        }
        plain
    }

    fn take(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Theirs::Client(it) => while it.write_tls(&mut out).unwrap() > 0 {},
            Theirs::Server(it) => while it.write_tls(&mut out).unwrap() > 0 {},
        }
        out
    }

    fn send(&mut self, bytes: &[u8]) {
        match self {
            Theirs::Client(it) => it.writer().write_all(bytes).unwrap(),
            Theirs::Server(it) => it.writer().write_all(bytes).unwrap(),
        }
    }

    /// Changes its keys.
    fn change_keys(&mut self) {
        let changed = match self {
            Theirs::Client(it) => it.refresh_traffic_keys(),
            Theirs::Server(it) => it.refresh_traffic_keys(),
        };
        // TLS 1.2 cannot.
        let _ = changed;
    }
}

fn exchange(
    ours: &mut Session,
    theirs: &mut Theirs<'_>,
    to_ours: &[usize],
    to_theirs: &[usize],
    cut: usize,
) {
    for _ in 0..6 {
        let mut out = give(ours, &theirs.take(), cut);
        if matches!(theirs, Theirs::Server(_)) {
            ours.receive(&[], &mut out).unwrap();
        }
        theirs.give(&out);
    }
    assert!(ours.is_established());
    for (len, fill) in to_ours.iter().zip(1u8..) {
        let bytes = vec![fill; *len];
        theirs.send(&bytes);
        let answer = give(ours, &theirs.take(), cut);
        theirs.give(&answer);
        assert_eq!(ours.readable(), bytes);
        ours.consume(bytes.len());
        theirs.change_keys();
    }
    for (len, fill) in to_theirs.iter().zip(1u8..) {
        let bytes = vec![fill; *len];
        let mut records = Vec::new();
        ours.seal(&[&bytes], &mut records).unwrap();
        assert_eq!(theirs.give(&records), bytes);
    }
}
