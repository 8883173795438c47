//! What a request holds, and how it is refused.

use super::*;
use crate::limits::{BODY_ROOM, REQUESTS_LEN_MAX};
use crate::record::Decoder;
use exos_iolite::{Pool, Sender, Shape};

fn request(has_body: bool) -> Request {
    Request::new(vec![0; 100], has_body)
}

/// All but this many bytes are held by another.
fn almost_full(account: &Account, left: usize) -> Share {
    let mut share = account.open();
    assert!(share.add(REQUESTS_LEN_MAX - left - crate::limits::REQUEST_COST));
    share
}

/// What is sent of it, as text, and whether that was the end.
fn said(exchange: &mut Exchange) -> (String, bool) {
    let pool = Pool::new("exos-test", Shape::of(8)).expect("memory");
    let mut outgoing = Outgoing::new(pool.clone());
    let is_end = exchange.go_on(7, &mut Heads::default(), &mut outgoing);
    let (one, other) = std::os::unix::net::UnixStream::pair().expect("descriptors");
    let mut sender =
        Sender::connect(one.into(), &pool, exos_iolite::Options::default()).expect("a pipe");
    let trust = exos_iolite::Trust::Untrusted;
    let mut receiver = exos_iolite::Receiver::accept(other.into(), trust).expect("a pipe");
    outgoing.write(&mut sender).expect("it reads");
    let (mut decoder, mut text) = (Decoder::default(), String::new());
    if let exos_iolite::Read::Data(mut data) = receiver.read(usize::MAX).expect("it is there") {
        while let Some(piece) = decoder.next(&mut data).expect("records") {
            text += &format!("{:?} ", piece.header.kind);
            if piece.header.is_sized {
                text += &format!("of {} ", piece.header.value);
            }
            let mut bytes = Vec::new();
            piece.bytes.append_to(&mut bytes, usize::MAX);
            text += &String::from_utf8_lossy(&bytes);
        }
    }
    (text, is_end)
}

#[test]
fn one_for_which_there_is_no_memory_is_refused_and_holds_none() {
    let account = Account::default();
    let most = almost_full(&account, 1000);
    let mut refused = Exchange::new(request(false), &account);
    assert!(refused.is_ended());
    let wanted = "Head of 0 Status: 503\r\n\r\nContent ";
    assert_eq!(said(&mut refused), (wanted.to_owned(), true));
    drop(refused);
    drop(most);
    assert!(!Exchange::new(request(false), &account).is_ended());
}

#[test]
fn one_that_is_over_holds_nothing_and_begins_again() {
    let account = Account::default();
    let mut exchange = Exchange::new(request(true), &account);
    assert_eq!(exchange.take_body(b"body"), Taken::Yes);
    exchange.end_body();
    assert!(exchange.keep_body());
    exchange.begin(Head::new(200));
    exchange.end();
    assert!(said(&mut exchange).1);
    exchange.rest();
    drop(almost_full(&account, 0));
    let mut variables = b"\x01\x01ab".to_vec();
    exchange.begin_again(&mut variables, false, &account);
    assert!(variables.is_empty() && exchange.request.body().is_empty());
    assert_eq!(exchange.request.variable("a"), Some(&b"b"[..]));
    assert!(!exchange.has_head() && exchange.keep_body());
    let parts = [("page", true), ("", false), ("s", false)];
    let local = |text: &str| {
        exos_iolite::Slice::from(exos_buf::Buffer::from(text.as_bytes().to_vec()).whole())
    };
    let parts = parts.map(|(text, is_kept)| (local(text).into(), is_kept));
    exchange.begin(Head::new(200));
    exchange.send_all(parts.into());
    assert_eq!(exchange.queued(), 5);
    exchange.end();
    let wanted = "Head Status: 200\r\n\r\nContent pageContent s";
    assert_eq!(said(&mut exchange), (wanted.to_owned(), true));
}

#[test]
fn a_body_for_which_there_is_no_memory_has_its_request_refused() {
    let account = Account::default();
    let _most = almost_full(&account, 20_000);
    let mut one = Exchange::new(request(true), &account);
    assert_eq!(one.take_body(&[1; 10_000]), Taken::Yes);
    assert_eq!(one.take_body(&[1; 10_000]), Taken::Refused);
    // Nothing of it is held then, and what comes is not either.
    assert!(account.is_within_limit());
    assert_eq!(one.take_body(&[1; 40_000]), Taken::Yes);
    assert!(account.is_within_limit());
    assert_eq!(one.take_body(&[1; BODY_ROOM]), Taken::BeyondRoom);
    // Also while others hold all that there is: it is refused once.
    let mut others = account.open();
    others.add(REQUESTS_LEN_MAX);
    assert_eq!(one.take_body(&[1; 10]), Taken::Yes);
    drop(others);
    assert!(said(&mut one).0.starts_with("Head of 0 Status: 503"));
    // One whose head has gone is cut off.
    let mut other = Exchange::new(request(true), &account);
    other.begin(Head::new(200));
    assert_eq!(
        said(&mut other),
        ("Head Status: 200\r\n\r\n".to_owned(), false)
    );
    assert_eq!(other.take_body(&[1; 50_000]), Taken::Refused);
    assert_eq!(said(&mut other), ("Leave ".to_owned(), true));
}

#[test]
fn a_body_that_is_kept_whole_has_a_limit() {
    let account = Account::default();
    let mut exchange = Exchange::new(request(true), &account);
    let part = [7; BODY_ROOM];
    for _ in 0..KEPT_BODY_LEN_MAX / BODY_ROOM {
        assert_eq!(exchange.take_body(&part), Taken::Yes);
        assert!(!exchange.keep_body() && !exchange.is_ended());
        assert!(said(&mut exchange).0.starts_with("Room"));
    }
    assert_eq!(exchange.take_body(&[7]), Taken::Yes);
    exchange.end_body();
    assert!(!exchange.keep_body() && exchange.is_ended());
    assert!(said(&mut exchange).0.starts_with("Head of 0 Status: 413"));
}

#[test]
fn the_head_that_was_not_sent_is_another_when_it_is_refused() {
    let mut exchange = Exchange::new(request(false), &Account::default());
    exchange.begin(Head::new(200).length(1000));
    exchange.give_up(503);
    // What follows changes nothing.
    exchange.give_up(413);
    exchange.begin(Head::new(200));
    let (text, is_end) = said(&mut exchange);
    assert!(
        text.starts_with("Head of 0 Status: 503") && is_end,
        "{text}"
    );
}
