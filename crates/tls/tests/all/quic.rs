//! QUIC connections of others: keys of packets by the packets that the RFCs show, and against rustls' own; changes of keys; numbers.

use exos_tls::keylog::KeyLog;
use exos_tls::observer::{Level, Obstacle, PacketKeys, QuicObserver, Side, is_retry};
use exos_tls::policy::MinimumVersion;
use exos_wire::quic::{LongHeaderView, VERSION_1, VERSION_2};
use rustls::quic::{self, KeyChange, Keys, Version};

use crate::observer::logged;
use crate::sessions::{SUITES, name};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    let pairs = digits.chunks_exact(2);
    pairs.map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// The Retry packets of RFC 9001 §A.4 and RFC 9369 §A.4, of which no bit may be another.
#[test]
fn retry_packets_of_the_rfcs() {
    let id = bytes("8394c8f03e515708");
    for (version, hex) in [
        (
            VERSION_1,
            "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba",
        ),
        (
            VERSION_2,
            "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6",
        ),
    ] {
        let packet = bytes(hex);
        assert!(is_retry(version, &id, &packet));
        assert!(!is_retry(version, &id[1..], &packet));
        for at in 0..packet.len() {
            let mut other = packet.clone();
            other[at] ^= 1;
            assert!(!is_retry(version, &id, &other), "{at}");
            assert!(!is_retry(version, &id, &packet[..at]));
        }
    }
}

/// The server's first packets of RFC 9001 §A.3 and RFC 9369 §A.3.
#[test]
fn initial_packets_of_the_rfcs() {
    let packets = [
        (
            VERSION_1,
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf7
             3c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f
             58891850abbdca3d20398c276456cbc42158407dd074ee",
        ),
        (
            VERSION_2,
            "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d9b89237bbf87263017915358230035f7
             fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2c984c707f0a0812d8cd5a6881eaf21ce
             da98f4bd23f6fe1a3e2c43edd9ce7ca84bed8521e2e140",
        ),
    ];
    for (version, hex) in packets {
        let packet = bytes(hex);
        let view = LongHeaderView::parse(&packet, packet.len()).unwrap();
        let at = view.protected().unwrap().number_at;
        let mut plain = b"before".to_vec();
        let id = bytes("8394c8f03e515708");
        let mut keys = PacketKeys::initial(version, &id, Side::Server).unwrap();
        let opened = keys.open(&packet, at, None, &mut plain).unwrap();
        assert_eq!((opened.number, opened.frames.start), (1, 6));
        // An acknowledgement of packet 0, then a hello of 90 bytes.
        let frames = &plain[opened.frames];
        assert_eq!(frames[..10], bytes("0200000000 0600405a 02"));
        assert_eq!(frames.len(), 5 + 4 + 90);
        // By no other's keys.
        for (version, side) in [(VERSION_1, Side::Client), (VERSION_2, Side::Client)] {
            let mut keys = PacketKeys::initial(version, &id, side).unwrap();
            assert!(keys.open(&packet, at, None, &mut plain).is_none());
        }
        // And none that is cut or changed.
        for len in 0..packet.len() {
            assert!(keys.open(&packet[..len], at, None, &mut plain).is_none());
            let mut changed = packet.clone();
            changed[len] ^= 0x10;
            assert!(keys.open(&changed, at, None, &mut plain).is_none());
        }
    }
}

/// Messages of a handshake of rustls' QUIC, up to both sides' last keys.
struct Handshake {
    /// Side, level, bytes.
    flights: Vec<(Side, Level, Vec<u8>)>,
    log: KeyLog,
    /// Of both sides: their handshake's keys, and those behind it.
    client: Vec<Keys>,
    server: Vec<Keys>,
    secrets: [quic::Secrets; 2],
}

fn handshake(suite: &str, version: Version) -> Handshake {
    let (server, client, lines) = logged(MinimumVersion::V13, &[suite]);
    let mut client = (*client).clone();
    client.alpn_protocols = vec![b"h3".to_vec()];
    let mut server = (*server).clone();
    server.alpn_protocols = vec![b"other".to_vec(), b"h3".to_vec()];
    let client = quic::ClientConnection::new(client.into(), version, name(), vec![]);
    let server = quic::ServerConnection::new(server.into(), version, vec![]);
    let mut ends = [
        quic::Connection::from(client.unwrap()),
        quic::Connection::from(server.unwrap()),
    ];
    let mut levels = [Level::Initial; 2];
    let (mut flights, mut keys) = (Vec::new(), [Vec::new(), Vec::new()]);
    let mut secrets = [None, None];
    for turn in 0..8 {
        let at = turn % 2;
        loop {
            let mut out = Vec::new();
            let change = ends[at].write_hs(&mut out);
            if !out.is_empty() {
                let side = [Side::Client, Side::Server][at];
                ends[1 - at].read_hs(&out).unwrap();
                flights.push((side, levels[at], out));
            }
            match change {
                Some(KeyChange::Handshake { keys: new }) => {
                    levels[at] = Level::Handshake;
                    keys[at].push(new);
                }
                Some(KeyChange::OneRtt { keys: new, next }) => {
                    levels[at] = Level::Traffic;
                    keys[at].push(new);
                    secrets[at] = Some(next);
                }
                None => break,
            }
        }
    }
    let mut log = KeyLog::default();
    assert_eq!(lines.add_to(&mut log), 4);
    let [client, server] = keys;
    Handshake {
        flights,
        log,
        client,
        server,
        secrets: secrets.map(|it| it.expect("the handshake is over")),
    }
}

/// A packet of rustls' keys, whose number takes `len` bytes.
fn sealed(
    keys: &Keys,
    packet: &dyn quic::PacketKey,
    head: &[u8],
    number: (u64, usize),
    frames: &[u8],
) -> Vec<u8> {
    let (number, len) = number;
    let at = head.len();
    let mut header = head.to_vec();
    header[0] |= len as u8 - 1;
    header.extend_from_slice(&number.to_be_bytes()[8 - len..]);
    let mut payload = frames.to_vec();
    let tag = packet
        .encrypt_in_place(number, &header, &mut payload)
        .unwrap();
    let mut out = [&header[..], &payload, tag.as_ref()].concat();
    let sample = out[at + 4..][..16].to_vec();
    let (first, rest) = out.split_at_mut(1);
    let number = &mut rest[at - 1..][..len];
    keys.local
        .header
        .encrypt_in_place(&sample, &mut first[0], number)
        .unwrap();
    out
}

/// All suites and both versions: packets that rustls' keys have encrypted are decrypted by the log, whatever their numbers are.
#[test]
fn packets_of_rustls() {
    for suite in &SUITES[..3] {
        for (version, number) in [(Version::V1, VERSION_1), (Version::V2, VERSION_2)] {
            let shake = handshake(suite, version);
            let mut observer = QuicObserver::default();
            for (side, level, flight) in &shake.flights {
                for piece in flight.chunks(100) {
                    observer.crypto(*side, *level, piece).unwrap();
                }
            }
            assert!(observer.may_speak(b"h3") && !observer.may_speak(b"other"));
            for (side, keys) in [(Side::Client, &shake.client), (Side::Server, &shake.server)] {
                for (level, keys) in [Level::Handshake, Level::Traffic].into_iter().zip(keys) {
                    let first = if level == Level::Traffic { 0x40 } else { 0xe0 };
                    let head = [first, 1, 2, 3, 4, 5];
                    let mut ours = observer.keys(side, level, number, &shake.log);
                    assert_eq!(ours.len(), 1, "{suite} {level:?}");
                    let (mut largest, mut plain) = (None, Vec::new());
                    for (number, len) in [
                        (0, 1),
                        (1, 2),
                        (130, 2),
                        (100, 1),
                        (255, 1),
                        (256, 1),
                        (70_000, 3),
                        (0x7fff_ffff, 4),
                    ] {
                        let packet =
                            sealed(keys, &*keys.local.packet, &head, (number, len), b"frames");
                        plain.clear();
                        let opened = ours[0].open(&packet, head.len(), largest, &mut plain);
                        assert_eq!(
                            opened.map(|it| it.number),
                            Some(number),
                            "{suite} {level:?}"
                        );
                        assert_eq!(plain, b"frames");
                        largest = largest.max(Some(number));
                    }
                }
            }
        }
    }
}

/// A side changes its keys; what is late has the ones of before.
#[test]
fn keys_change() {
    let mut shake = handshake(SUITES[0], Version::V1);
    let mut observer = QuicObserver::default();
    for (side, level, flight) in &shake.flights {
        observer.crypto(*side, *level, flight).unwrap();
    }
    let keys = &shake.client[1];
    let mut ours = observer.keys(Side::Client, Level::Traffic, VERSION_1, &shake.log);
    let mut open = |packet: &[u8], largest| {
        let mut plain = Vec::new();
        let opened = ours[0].open(packet, 3, largest, &mut plain)?;
        Some((opened.number, plain))
    };
    let told = |number, text: &[u8]| Some((number, text.to_vec()));
    let packet = sealed(keys, &*keys.local.packet, &[0x40, 1, 2], (1, 1), b"first");
    assert_eq!(open(&packet, None), told(1, b"first"));
    let late = sealed(keys, &*keys.local.packet, &[0x40, 1, 2], (2, 1), b"late");
    let next = shake.secrets[0].next_packet_keys();
    let packet = sealed(keys, &*next.local, &[0x44, 1, 2], (3, 1), b"second");
    assert_eq!(open(&packet, Some(1)), told(3, b"second"));
    assert_eq!(open(&late, Some(3)), told(2, b"late"));
    let third = shake.secrets[0].next_packet_keys();
    let packet = sealed(keys, &*third.local, &[0x40, 1, 2], (4, 1), b"third");
    assert_eq!(open(&packet, Some(3)), told(4, b"third"));
    // One that nobody has sent: nothing changes by it.
    let mut forged = packet.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(open(&forged, Some(4)), None);
    let packet = sealed(keys, &*third.local, &[0x40, 1, 2], (5, 1), b"third");
    assert_eq!(open(&packet, Some(4)), told(5, b"third"));
}

/// What has no place in QUIC's handshake ends what is followed, and is named.
#[test]
fn hellos_that_are_none() {
    let mut observer = QuicObserver::default();
    let cut = observer.crypto(Side::Client, Level::Initial, &[1, 0, 0, 3, 3, 3, 3]);
    assert_eq!(cut, Err(Obstacle::Unexpected));
    // A server's, with a suite that is not decrypted, in TLS 1.3.
    let mut hello = vec![2, 0, 0, 46, 3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0x13, 0x04, 0, 0, 6, 0, 43, 0, 2, 3, 4]);
    let mut observer = QuicObserver::default();
    let said = observer.crypto(Side::Server, Level::Initial, &hello);
    assert_eq!(said, Err(Obstacle::Suite(0x1304)));
    let mut observer = QuicObserver::default();
    hello[44 + 6 - 1] = 3;
    let said = observer.crypto(Side::Server, Level::Initial, &hello);
    assert_eq!(said, Err(Obstacle::Version(0x0303)));
    assert!(
        observer
            .keys(
                Side::Client,
                Level::Handshake,
                VERSION_1,
                &KeyLog::default()
            )
            .is_empty()
    );
}
