//! A peer that has the keys of a TLS session, and sends what rustls never would: for fuzzing, and for the tests of `crates/tls`.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use exos_tls::Session;
use rustls::{Connection, ConnectionTrafficSecrets, ProtocolVersion};

/// What records are of.
pub const ALERT: u8 = 21;
pub const HANDSHAKE: u8 = 22;
pub const DATA: u8 = 23;

/// The key of one direction, as RFC 8446 §5 and RFC 5288 §3 have it, of AES-128-GCM.
struct Direction {
    sequence: u64,
    key: LessSafeKey,
    iv: [u8; 12],
}

impl Direction {
    fn of((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Direction {
        let ConnectionTrafficSecrets::Aes128Gcm { key, iv } = secrets else {
            panic!("another suite");
        };
        let key = UnboundKey::new(&AES_128_GCM, key.as_ref()).unwrap();
        Direction {
            sequence,
            key: LessSafeKey::new(key),
            iv: iv.as_ref().try_into().unwrap(),
        }
    }

    fn nonce(&self) -> [u8; 12] {
        let mut nonce = self.iv;
        let sequence = self.sequence.to_be_bytes();
        for (byte, with) in nonce[4..].iter_mut().zip(sequence) {
            *byte ^= with;
        }
        nonce
    }
}

/// One end of a session.
pub struct Forger {
    is_13: bool,
    tx: Direction,
    rx: Direction,
}

impl Forger {
    /// Shakes hands as rustls' end, with a suite of AES-128-GCM, and goes on alone.
    pub fn new(session: &mut Session, mut theirs: Connection) -> Forger {
        for _ in 0..4 {
            let mut to_ours = Vec::new();
            while theirs.wants_write() {
                theirs.write_tls(&mut to_ours).unwrap();
            }
            let mut out = Vec::new();
            session.receive(&to_ours, &mut out).unwrap();
            theirs.read_tls(&mut &out[..]).unwrap();
            theirs.process_new_packets().unwrap();
        }
        assert!(session.is_established() && !theirs.is_handshaking());
        let is_13 = theirs.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let secrets = match theirs {
            Connection::Client(it) => it.dangerous_extract_secrets(),
            Connection::Server(it) => it.dangerous_extract_secrets(),
        };
        let secrets = secrets.unwrap();
        Forger {
            is_13,
            tx: Direction::of(secrets.tx),
            rx: Direction::of(secrets.rx),
        }
    }

    /// A record of this kind.
    pub fn record(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        self.padded(kind, content, 0)
    }

    /// A record of this kind, with padding where its version has any.
    pub fn padded(&mut self, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        let (nonce, sequence) = (self.tx.nonce(), self.tx.sequence.to_be_bytes());
        self.tx.sequence += 1;
        let mut inner = content.to_vec();
        let (head, aad) = match self.is_13 {
            true => {
                inner.push(kind);
                inner.resize(inner.len() + padding, 0);
                let [high, low] = (inner.len() as u16 + 16).to_be_bytes();
                let head = vec![23, 3, 3, high, low];
                (head.clone(), head)
            }
            false => {
                let [high, low] = (content.len() as u16).to_be_bytes();
                let aad = [&sequence[..], &[kind, 3, 3, high, low]].concat();
                let [high, low] = (content.len() as u16 + 8 + 16).to_be_bytes();
                ([&[kind, 3, 3, high, low], &nonce[4..]].concat(), aad)
            }
        };
        let nonce = Nonce::assume_unique_for_key(nonce);
        let key = &self.tx.key;
        key.seal_in_place_append_tag(nonce, Aad::from(aad), &mut inner)
            .unwrap();
        [head, inner].concat()
    }

    /// The one record that bytes are: its kind, and what it carries.
    pub fn open(&mut self, record: &[u8]) -> (u8, Vec<u8>) {
        let sequence = self.rx.sequence.to_be_bytes();
        let mut nonce = self.rx.nonce();
        self.rx.sequence += 1;
        let (head, rest) = record.split_at(5);
        let (mut inner, aad) = match self.is_13 {
            true => (rest.to_vec(), head.to_vec()),
            false => {
                nonce[4..].copy_from_slice(&rest[..8]);
                let [high, low] = (rest.len() as u16 - 8 - 16).to_be_bytes();
                let aad = [&sequence[..], &[head[0], 3, 3, high, low]].concat();
                (rest[8..].to_vec(), aad)
            }
        };
        let nonce = Nonce::assume_unique_for_key(nonce);
        let key = &self.rx.key;
        let opened = key.open_in_place(nonce, Aad::from(aad), &mut inner);
        let mut opened = opened.unwrap().to_vec();
        match self.is_13 {
            true => (opened.pop().unwrap(), opened),
            false => (head[0], opened),
        }
    }
}
