//! Sessions whose handshake is over, and peers that send what they may and what they may not.

use std::io::Write as _;

use exos_tls::policy::MinimumVersion::{self, V12, V13};
use exos_tls::{Session, TlsError, limits};
use rustls::{AlertDescription, ClientConnection, Connection, InvalidMessage, ServerConnection};

use crate::corpus::body::forger::{ALERT, DATA, Forger, HANDSHAKE};
use crate::peers::{Pair, take};
use crate::sessions::{SUITES, configs, name};

/// A server's session of this version, and its client.
fn of_server(version: MinimumVersion) -> (Session, Forger) {
    let (server, client) = configs(V12, &[suite(version)]);
    let client = ClientConnection::new(client, name()).unwrap();
    let mut session = Session::server(server).unwrap();
    let forger = Forger::new(&mut session, client.into());
    (session, forger)
}

/// A client's session of this version, and its server.
fn of_client(version: MinimumVersion) -> (Session, Forger) {
    let (server, client) = configs(V12, &[suite(version)]);
    let server = ServerConnection::new(server).unwrap();
    let mut session = Session::client(client, name()).unwrap();
    let forger = Forger::new(&mut session, server.into());
    (session, forger)
}

/// Gives a session records that it refuses with this error, of which the peer is told by this alert.
fn refuses(
    (mut session, mut forger): (Session, Forger),
    records: &[u8],
    error: &TlsError,
    alert: AlertDescription,
) {
    let mut out = Vec::new();
    assert_eq!(session.receive(records, &mut out).as_ref(), Err(error));
    let told = forger.open(&out);
    assert_eq!(told, (ALERT, vec![2, u8::from(alert)]), "{error}");
    assert!(session.is_over() && !session.is_peer_closed());
    assert!(session.readable().is_empty());
}

#[test]
fn messages_that_have_no_place_are_refused() {
    let unexpected = (TlsError::Unexpected, AlertDescription::UnexpectedMessage);
    let malformed = (
        TlsError::Handshake(rustls::Error::from(InvalidMessage::InvalidKeyUpdate)),
        AlertDescription::DecodeError,
    );
    let key_update = [24, 0, 0, 1, 0];
    for (version, kind, content, (error, alert)) in [
        (V13, HANDSHAKE, &[][..], unexpected.clone()),
        (V12, HANDSHAKE, &[], unexpected.clone()),
        (
            V13,
            HANDSHAKE,
            &[24, 0, 0, 1, 2],
            (TlsError::Illegal, AlertDescription::IllegalParameter),
        ),
        (V12, HANDSHAKE, &key_update, unexpected.clone()),
        // Nothing may follow a change of keys in its record, not even a part of something.
        (
            V13,
            HANDSHAKE,
            &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0],
            unexpected.clone(),
        ),
        (V13, HANDSHAKE, &[24, 0, 0, 1, 0, 24], unexpected.clone()),
        (
            V13,
            HANDSHAKE,
            &[4, 1, 0, 0],
            (TlsError::TooLong, AlertDescription::RecordOverflow),
        ),
        // A change of keys that says nothing, or more than it can.
        (V13, HANDSHAKE, &[24, 0, 0, 0], malformed.clone()),
        (V13, HANDSHAKE, &[24, 0, 0, 2, 0, 0], malformed),
        (V13, ALERT, &[1], unexpected.clone()),
        (V13, 20, &[1], unexpected),
    ] {
        let (session, mut forger) = of_server(version);
        let record = forger.record(kind, content);
        refuses((session, forger), &record, &error, alert);
    }
}

#[test]
fn a_warning_that_a_peer_was_interrupted_is_no_end_and_an_error_is() {
    let cancelled = u8::from(AlertDescription::UserCanceled);
    let (mut session, mut forger) = of_server(V13);
    let mut records = forger.record(ALERT, &[1, cancelled]);
    records.extend(forger.record(ALERT, &[1, 0]));
    session.receive(&records, &mut Vec::new()).unwrap();
    assert!(session.is_peer_closed() && !session.is_over());
    let (mut session, mut forger) = of_server(V13);
    let record = forger.record(ALERT, &[2, cancelled]);
    let error = TlsError::Alert(AlertDescription::UserCanceled);
    assert_eq!(session.receive(&record, &mut Vec::new()), Err(error));
    assert!(!session.is_peer_closed());
}

#[test]
fn padding_counts_for_a_records_length() {
    let longest = limits::PLAIN_LEN_MAX;
    let (mut session, mut forger) = of_server(V13);
    let record = forger.padded(DATA, &[7; 100], longest - 100);
    session.receive(&record, &mut Vec::new()).unwrap();
    assert_eq!(session.readable(), [7; 100]);
    let (session, mut forger) = of_server(V13);
    let record = forger.padded(DATA, &[7; 100], longest - 99);
    let alert = AlertDescription::RecordOverflow;
    refuses((session, forger), &record, &TlsError::TooLong, alert);
}

#[test]
fn a_header_of_another_version_is_refused() {
    for version in [V12, V13] {
        let (session, mut forger) = of_server(version);
        let mut record = forger.record(DATA, b"x");
        record[2] = 4;
        let alert = AlertDescription::UnexpectedMessage;
        refuses((session, forger), &record, &TlsError::Unexpected, alert);
    }
}

/// A ticket in records of a few bytes, as a server with small ones sends it; within it nothing else may come.
#[test]
fn a_message_may_be_cut_over_records() {
    let ticket = [
        &[4, 0, 0, 20][..],                    // Its header,
        &[0, 0, 1, 0, 1, 2, 3, 4],             // its lifetime and what is added to its age,
        &[1, 9, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0], // its nonce, itself, no extensions.
    ]
    .concat();
    for len in 1..ticket.len() {
        let (mut session, mut forger) = of_client(V13);
        let pieces = ticket.chunks(len);
        let mut records: Vec<u8> = pieces
            .flat_map(|piece| forger.record(HANDSHAKE, piece))
            .collect();
        records.extend(forger.record(DATA, b"data"));
        let mut out = Vec::new();
        assert_eq!(session.receive(&records, &mut out), Ok(records.len()));
        assert_eq!(session.readable(), b"data");
        assert!(out.is_empty());
        // Cut short.
        let (session, mut forger) = of_client(V13);
        let mut records = forger.record(HANDSHAKE, &ticket[..len]);
        records.extend(forger.record(DATA, b"data"));
        let alert = AlertDescription::UnexpectedMessage;
        refuses((session, forger), &records, &TlsError::Unexpected, alert);
    }
    let (session, mut forger) = of_client(V13);
    let record = forger.record(HANDSHAKE, &[4, 0, 0, 1, 0]);
    let mut session = session;
    let mut out = Vec::new();
    let failed = session.receive(&record, &mut out);
    assert!(matches!(failed, Err(TlsError::Handshake(_))));
    let told = forger.open(&out);
    assert_eq!(
        told,
        (ALERT, vec![2, u8::from(AlertDescription::DecodeError)])
    );
}

/// A peer that has its keys changed again and again, and reads nothing, is sent nothing for it.
#[test]
fn many_changes_of_keys_are_answered_by_one() {
    let (server, client) = configs(V12, &[SUITES[1]]);
    let mut theirs: Connection = ClientConnection::new(client, name()).unwrap().into();
    let mut session = Session::server(server).unwrap();
    for _ in 0..4 {
        let mut out = Vec::new();
        session.receive(&take(&mut theirs), &mut out).unwrap();
        theirs.read_tls(&mut &out[..]).unwrap();
        theirs.process_new_packets().unwrap();
    }
    let mut out = Vec::new();
    for _ in 0..5 {
        for _ in 0..limits::USELESS_RECORDS_MAX {
            theirs.refresh_traffic_keys().unwrap();
        }
        theirs.writer().write_all(b"x").unwrap();
        session.receive(&take(&mut theirs), &mut out).unwrap();
    }
    assert_eq!(session.readable(), b"xxxxx");
    assert!(out.is_empty());
    session.seal(&[b"one"], &mut out).unwrap();
    let with_answer = out.len();
    session.seal(&[b"two"], &mut out).unwrap();
    assert!(with_answer > out.len() - with_answer, "one answer, once");
    theirs.read_tls(&mut &out[..]).unwrap();
    assert_eq!(
        theirs
            .process_new_packets()
            .unwrap()
            .plaintext_bytes_to_read(),
        6
    );
    // And nothing but changes is refused at some time.
    for _ in 0..=limits::USELESS_RECORDS_MAX {
        theirs.refresh_traffic_keys().unwrap();
    }
    let failed = session.receive(&take(&mut theirs), &mut out);
    assert_eq!(failed, Err(TlsError::Useless));
}

#[test]
fn renegotiation_is_refused_once() {
    let hello = [1, 0, 0, 2, 3, 3];
    let (mut session, mut forger) = of_server(V12);
    let mut out = Vec::new();
    let record = forger.record(HANDSHAKE, &hello);
    session.receive(&record, &mut out).unwrap();
    let refused = u8::from(AlertDescription::NoRenegotiation);
    assert_eq!(forger.open(&out), (ALERT, vec![1, refused]));
    let record = forger.record(HANDSHAKE, &hello);
    let alert = AlertDescription::UnexpectedMessage;
    refuses((session, forger), &record, &TlsError::Unexpected, alert);
    // An end that has ended its side says nothing more.
    let (mut session, mut forger) = of_server(V12);
    session.close(&mut Vec::new());
    let mut out = Vec::new();
    let record = forger.record(HANDSHAKE, &hello);
    session.receive(&record, &mut out).unwrap();
    assert!(out.is_empty());
}

/// Plaintext is consumed to the last bytes of a message, which is not whole: more is taken.
#[test]
fn what_is_left_of_plaintext_does_not_keep_more_from_coming() {
    for version in [V12, V13] {
        let (server, client) = configs(V12, &[suite(version)]);
        let mut pair = Pair::new(server, client, 5000);
        pair.shake_hands();
        let bytes: Vec<u8> = (0..1_000_000u32).map(|at| (at % 251) as u8).collect();
        let mut records = Vec::new();
        pair.client.seal(&[&bytes], &mut records).unwrap();
        let (mut rest, mut read) = (&records[..], Vec::new());
        let mut left_before = 0;
        for left in (0..limits::UNREAD_LEN).step_by(37).cycle() {
            let taken = pair.server.receive(rest, &mut Vec::new()).unwrap();
            rest = &rest[taken..];
            let readable = pair.server.readable();
            assert!(readable.len() < limits::UNREAD_LEN + limits::PLAIN_LEN_MAX);
            assert!(taken > 0 || left_before >= limits::UNREAD_LEN || rest.is_empty());
            if rest.is_empty() {
                read.extend_from_slice(readable);
                break;
            }
            let count = readable.len().saturating_sub(left);
            left_before = readable.len() - count;
            read.extend_from_slice(&readable[..count]);
            pair.server.consume(count);
        }
        assert!(read == bytes, "byte for byte");
    }
}

fn suite(version: MinimumVersion) -> &'static str {
    match version {
        V12 => SUITES[4],
        V13 => SUITES[1],
    }
}
