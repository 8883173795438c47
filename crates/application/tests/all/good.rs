//! Both keep to the rules.

use crate::common::{LONG, Server, content, pattern, socket};
use exos_application::limits::{CONTENT_ROOM, PIECES_MAX};
use exos_application::{Answer, Application, Event, Head};
use exos_iolite::{Aggregate, Shape};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

const SHAPE: Shape = Shape {
    buffer_len: 1 << 16,
    buffers: 256,
    share: 128,
};

/// Answers `/kept/N`, `/fresh/N`, `/both/N`, `/body` and `/fail` until the test ends, which takes its thread with it.
fn serve(path: PathBuf) {
    thread::spawn(move || {
        let mut application = Application::listen(path, SHAPE).expect("a socket");
        let mut kept: Vec<(usize, Aggregate)> = Vec::new();
        application.serve(|request, pool| {
            let path = String::from_utf8_lossy(request.variable("PATH_INFO").unwrap_or(b""));
            let len = path
                .rsplit('/')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(0);
            if !kept.iter().any(|(known, _)| *known == len) {
                kept.push((len, pool.copy(&pattern(len))?));
            }
            let page = || {
                kept.iter()
                    .find(|(known, _)| *known == len)
                    .map(|(_, page)| page.clone())
            };
            let page = || page().unwrap_or_default();
            let head = Head::new(200).field("Content-Type", "text/plain");
            Ok(match path.split('/').nth(1).unwrap_or_default() {
                "kept" => Answer::new(head).kept(page()),
                "fresh" => Answer::new(head).fresh(pool.copy(&pattern(len))?),
                "both" => Answer::new(head)
                    .kept(page())
                    .fresh(pool.copy(b"between")?)
                    .kept(page()),
                "body" => Answer::new(head).fresh(pool.copy(request.body())?),
                "fail" => return Err(exos_iolite::Error::Lost),
                _ => Answer::new(Head::new(404)),
            })
        })
    });
}

#[test]
fn pages_of_any_length_come_whole() {
    let path = socket();
    serve(path.clone());
    let mut server = Server::new(&path);
    for len in [
        0, 1, 32, 33, 511, 512, 2047, 2048, 65_536, 65_537, 300_000, 2_000_000,
    ] {
        for kind in ["kept", "fresh", "both", "kept"] {
            let request = server.ask(&format!("/{kind}/{len}"));
            let got = server.take(request);
            let wanted = match kind {
                "both" => [&*pattern(len), b"between", &*pattern(len)].concat(),
                _ => pattern(len),
            };
            assert!(got.is_whole && got.content == wanted, "{kind} {len}");
            let head = "Status: 200\r\nContent-Type: text/plain\r\n\r\n";
            assert_eq!((&*got.head, got.length), (head, Some(wanted.len())));
        }
    }
    let request = server.ask("/nothing");
    let got = server.take(request);
    let head = (&*got.head, got.length);
    assert_eq!(head, ("Status: 404\r\n\r\n", Some(0)));
    assert_eq!(server.link.requests(), 0);
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn what_is_kept_is_copied_once() {
    let path = socket();
    serve(path.clone());
    let mut server = Server::new(&path);
    for n in 0..5 {
        let request = server.ask("/both/10000");
        assert_eq!(server.take(request).content.len(), 20_007);
        // Twice in each answer, and the first time of all it was new.
        assert_eq!(server.link.kept_hits(), 2 * n + 1);
    }
    std::fs::remove_file(path).expect("its socket");
}

/// Also where there are more of them than numbers.
#[test]
fn pieces_that_displace_others_are_not_taken_for_these() {
    let path = socket();
    serve(path.clone());
    let mut server = Server::new(&path);
    for n in 0..300 {
        let len = 600 + n * 7919 % (2 * PIECES_MAX + 7);
        let request = server.ask(&format!("/kept/{len}"));
        assert!(server.take(request).content == pattern(len), "{n}");
    }
    std::fs::remove_file(path).expect("its socket");
}

/// Of heads that are alike one is there, and all others are it.
#[test]
fn a_head_that_comes_again_is_the_one_before() {
    let path = socket();
    serve(path.clone());
    let mut server = Server::new(&path);
    let mut heads = Vec::new();
    for asked in [
        "/kept/10",
        "/fresh/3000",
        "/both/1",
        "/nothing",
        "/nothing/2",
    ] {
        let request = server.ask(asked);
        server.await_true(|link| {
            let part = link.take(request);
            let is_over = part.as_ref().is_some_and(|part| part.is_last);
            heads.extend(part.and_then(|part| part.head));
            is_over
        });
        server.link.leave(request);
    }
    let is_alike = |one: usize, other: usize| Rc::ptr_eq(&heads[one].bytes, &heads[other].bytes);
    assert!(is_alike(0, 1) && is_alike(0, 2) && is_alike(3, 4) && !is_alike(0, 3));
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn many_are_under_way_and_none_keeps_the_others_waiting() {
    let path = socket();
    serve(path.clone());
    let mut server = Server::new(&path);
    // Nobody takes any of this.
    let slow: Vec<u32> = (0..10).map(|_| server.ask("/fresh/1000000")).collect();
    for n in 0..200 {
        let (one, other) = (server.ask(&format!("/fresh/{n}")), server.ask("/kept/5000"));
        assert_eq!(server.take(one).content, pattern(n));
        assert_eq!(server.take(other).content, pattern(5000));
    }
    for (n, request) in slow.into_iter().enumerate() {
        // Some are left in the middle.
        match n % 2 {
            0 => assert!(server.take(request).content == pattern(1_000_000)),
            _ => assert!(server.link.leave(request).is_some()),
        }
    }
    let last = server.ask("/kept/77");
    assert_eq!(server.take(last).content, pattern(77));
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn bodies_are_handed_on_as_far_as_there_is_room() {
    let path = socket();
    serve(path.clone());
    let mut server = Server::new(&path);
    for len in [0, 1, 65_536, 1_000_000] {
        let body = pattern(len);
        let request = server.reserve();
        server
            .link
            .ask(request, &crate::common::variables("/body"), true);
        let mut sent = 0;
        loop {
            let part = server.link.body_room(request).min(len - sent);
            let is_last = sent + part == len;
            if part > 0 || is_last {
                server
                    .link
                    .send_body(request, &body[sent..sent + part], is_last);
                sent += part;
            }
            if is_last {
                break;
            }
            server.turn();
        }
        assert!(server.take(request).content == body, "{len}");
    }
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn what_fails_is_answered_and_said() {
    let path = socket();
    serve(path.clone());
    let mut server = Server::new(&path);
    let request = server.ask("/fail");
    let got = server.take(request);
    assert_eq!(got.head, "Status: 500\r\n\r\n");
    assert!(
        got.said.contains("bytes were lost") && got.is_whole,
        "{got:?}"
    );
    std::fs::remove_file(path).expect("its socket");
}

/// An application that does what a test tells it, and tells what happens.
fn stepwise(path: PathBuf) -> (Sender<Step>, Receiver<String>) {
    let (steps, told) = channel();
    let (tell, heard) = channel();
    thread::spawn(move || {
        let mut application = Application::listen(path, SHAPE).expect("a socket");
        let mut last = None;
        loop {
            let short = Some(std::time::Duration::from_millis(1));
            if let Some(event) = application.wait(short).expect("a socket") {
                let (Event::Request(id) | Event::Body(id) | Event::Room(id) | Event::Left(id)) =
                    event;
                last = Some(id);
                let name = format!("{event:?}");
                let name = name.split('(').next().unwrap_or_default();
                tell.send(name.to_owned()).expect("a test");
            }
            let Some(id) = last else { continue };
            match told.try_recv() {
                Ok(Step::Begin) => application.begin(id, &Head::new(200)),
                Ok(Step::Send(len)) => {
                    let page = application.pool().copy(&pattern(len)).expect("room");
                    application.send(id, page);
                    tell.send(application.queued(id).to_string())
                        .expect("a test");
                }
                Ok(Step::End) => application.end(id),
                Ok(Step::Die) => return,
                Err(_) => {}
            }
        }
    });
    (steps, heard)
}

enum Step {
    Begin,
    Send(usize),
    End,
    Die,
}

#[test]
fn a_stream_waits_for_its_reader() {
    let path = socket();
    let (steps, heard) = stepwise(path.clone());
    let hear = || heard.recv_timeout(LONG).expect("it happens");
    let mut server = Server::new(&path);
    let request = server.ask("/");
    server.turn();
    assert_eq!(hear(), "Request");
    steps.send(Step::Begin).expect("it runs");
    steps.send(Step::Send(3 * CONTENT_ROOM)).expect("it runs");
    assert_eq!(hear(), (3 * CONTENT_ROOM).to_string());
    steps.send(Step::Send(1)).expect("it runs");
    // What there is room for has gone, in whole slices.
    assert_eq!(hear(), (2 * CONTENT_ROOM + 1).to_string());
    let mut len = 0;
    server.await_true(|link| {
        while let Some(part) = link.take(request) {
            len += content(part).len();
        }
        len == 3 * CONTENT_ROOM + 1
    });
    assert_eq!(hear(), "Room");
    steps.send(Step::End).expect("it runs");
    assert!(server.take(request).is_whole);
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn one_that_is_left_is_told_of() {
    let path = socket();
    let (steps, heard) = stepwise(path.clone());
    let hear = || heard.recv_timeout(LONG).expect("it happens");
    let mut server = Server::new(&path);
    let request = server.ask("/");
    server.turn();
    assert_eq!(hear(), "Request");
    steps.send(Step::Begin).expect("it runs");
    server.link.leave(request);
    server.turn();
    assert_eq!(hear(), "Left");
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn when_an_application_ends_what_came_before_is_there() {
    let path = socket();
    let (steps, heard) = stepwise(path.clone());
    let hear = || heard.recv_timeout(LONG).expect("it happens");
    let mut server = Server::new(&path);
    let request = server.ask("/");
    server.turn();
    assert_eq!(hear(), "Request");
    for step in [Step::Begin, Step::Send(100), Step::Send(5000)] {
        steps.send(step).expect("it runs");
    }
    hear();
    hear();
    steps.send(Step::Die).expect("it runs");
    let got = server.take(request);
    assert!(!got.is_whole && got.content == [pattern(100), pattern(5000)].concat());
    assert!(server.link.failure().is_some());
    // Another takes its place at the same path.
    serve(path.clone());
    let mut server = Server::new(&path);
    let until = std::time::Instant::now() + LONG;
    loop {
        let request = server.ask("/kept/10");
        if server.take(request).content == pattern(10) {
            break;
        }
        assert!(std::time::Instant::now() < until);
        server = Server::new(&path);
    }
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn a_request_whose_body_comes_with_it_is_answered_once() {
    let path = socket();
    let (count, counted) = channel();
    let listened = path.clone();
    thread::spawn(move || {
        let mut application = Application::listen(listened, SHAPE).expect("a socket");
        application.serve(|request, pool| {
            count.send(()).expect("a test");
            Ok(Answer::new(Head::new(200)).fresh(pool.copy(request.body())?))
        })
    });
    let mut server = Server::new(&path);
    for n in 1..=20 {
        let body = pattern(n * 100);
        let request = server.reserve();
        let variables = crate::common::variables("/body");
        server.link.ask(request, &variables, true);
        server.link.send_body(request, &body, true);
        assert!(server.take(request).content == body);
        // What follows comes behind all that was made of the first.
        let after = server.ask("/");
        assert!(server.take(after).is_whole);
        assert_eq!(counted.try_iter().count(), 2);
    }
    std::fs::remove_file(path).expect("its socket");
}
