//! One of both does not keep to the rules: the other goes on with the next.

use crate::common::{LONG, Server, content, pattern, socket, variables};
use crate::corpus::body::accept;
use exos_application::limits::{
    BEGINNING_MAX, BODY_ROOM, CONTENT_ROOM, DRAFT_LEN, HEAD_LEN_MAX, KEPT_LEN_MIN,
    NUMBERED_LEN_MAX, NUMBERED_PIECE_LEN_MAX, OUTGOING_LEN_MAX, REQUESTS_MAX, SAID_LEN_MAX,
};
use exos_application::record::{HELLO, Header, Kind};
use exos_application::{Answer, Application, Event, Head, RequestId};
use exos_iolite::{Aggregate, Error, Options, Pool, Read, Receiver, Sender, Shape, Trust, Wait};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// An application that answers the first request with these bytes, whose request has number 1, and reads on until the server goes.
fn application(path: PathBuf, said: Vec<u8>) -> JoinHandle<()> {
    let listener = UnixListener::bind(path).expect("a socket");
    thread::spawn(move || {
        let (requests, answers) = accept(&listener);
        let mut requests = Receiver::accept(requests, Trust::Untrusted).expect("a pipe");
        let pool = Pool::new("hostile", Shape::of(32)).expect("memory");
        let mut answers = Sender::connect(answers, &pool, Options::default()).expect("a pipe");
        let mut has_answered = false;
        while let Ok(Read::Data(_)) = requests.read_wait(usize::MAX, Wait::Sleep) {
            if !std::mem::replace(&mut has_answered, true) {
                let mut said: Aggregate = pool.copy(&said).expect("room");
                let _ = answers.write_all(&mut said, Wait::Sleep);
            }
        }
    })
}

fn record(header: Header, bytes: &[u8]) -> Vec<u8> {
    [&header.bytes()[..], bytes].concat()
}

fn head() -> Vec<u8> {
    record(Header::new(Kind::Head, 1, 4), b"\r\n\r\n")
}

#[test]
fn an_application_that_breaks_the_rules_is_left() {
    let content = |len| record(Header::new(Kind::Content, 1, len), &vec![7; len]);
    let last = record(Header::new(Kind::Content, 1, 0).last(true), b"");
    for (what, said) in [
        ("no record", vec![9; 16]),
        (
            "a head that was not sent",
            record(Header::new(Kind::Head, 1, 0).of_head(1, None), b""),
        ),
        (
            "a number for a long head",
            record(
                Header::new(Kind::Head, 1, NUMBERED_LEN_MAX + 1).of_head(1, None),
                &[b'x'; NUMBERED_LEN_MAX + 1],
            ),
        ),
        (
            "a piece that was not sent",
            [
                head(),
                record(Header::new(Kind::Content, 1, 0).of_piece(1), b""),
            ]
            .concat(),
        ),
        (
            "a number for a long piece",
            [
                head(),
                record(
                    Header::new(Kind::Content, 1, NUMBERED_PIECE_LEN_MAX + 1).of_piece(1),
                    b"x",
                ),
            ]
            .concat(),
        ),
        (
            "a number for a short piece",
            [
                head(),
                record(
                    Header::new(Kind::Content, 1, KEPT_LEN_MIN - 1).of_piece(1),
                    &[b'x'; KEPT_LEN_MIN - 1],
                ),
            ]
            .concat(),
        ),
        (
            "flags that mean nothing",
            vec![5, 8, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        ("content without a head", content(1)),
        (
            "giving up what is no answer",
            record(Header::new(Kind::Leave, 1, 0), b""),
        ),
        ("two heads", [head(), head()].concat()),
        (
            "content behind the end",
            [head(), last.clone(), content(1)].concat(),
        ),
        ("two ends", [head(), last.clone(), last.clone()].concat()),
        (
            "more than there is room for",
            [head(), content(CONTENT_ROOM), content(1)].concat(),
        ),
        ("more room than there was", record(Header::room(1, 1), b"")),
        (
            "all the room that there is",
            record(Header::room(1, u32::MAX as usize), b""),
        ),
        (
            "an answer to what it was not asked",
            record(Header::new(Kind::Head, 3, 4), b"\r\n\r\n"),
        ),
        (
            "what servers send",
            record(Header::new(Kind::Body, 1, 0), b""),
        ),
    ] {
        let path = socket();
        let running = application(path.clone(), said);
        let mut server = Server::new(&path);
        let request = server.ask("/");
        let before = server.ask("/");
        let _not_asked = server.reserve();
        server.await_true(|link| link.failure().is_some());
        assert!(
            matches!(server.link.failure(), Some(Error::PeerFault(_))),
            "{what}"
        );
        // Both hear of it, and there is nothing to be asked any more.
        assert!(!server.take(before).is_whole);
        server.link.leave(request);
        assert!(!server.link.flush() && server.link.body_room(request) == 0);
        // Also while the server has the link still, for what came before.
        running.join().expect("no panic");
        drop(server);
        std::fs::remove_file(path).expect("its socket");
    }
}

#[test]
fn requests_that_nobody_made_are_nobodys() {
    let page = pattern(3000);
    let other = Header::new(Kind::Head, 77, 4).of_head(1, None);
    let said = [
        record(other, b"\r\n\r\n"),
        record(Header::new(Kind::Content, 4_000_000_000, 3000), &page),
        record(Header::new(Kind::Content, 77, 3000).of_piece(2), &page),
        record(Header::room(55, BODY_ROOM), b""),
        // Head and content of one that nobody made have numbers all the same.
        record(Header::new(Kind::Head, 1, 0).of_head(1, None), b""),
        record(Header::new(Kind::Content, 1, 0).of_piece(2).last(true), b""),
    ];
    let path = socket();
    let running = application(path.clone(), said.concat());
    let mut server = Server::new(&path);
    let request = server.ask("/");
    let got = server.take(request);
    assert!(got.is_whole && got.content == page && server.link.failure().is_none());
    drop(server);
    running.join().expect("no panic");
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn one_that_is_no_application_is_left() {
    for said in [&b""[..], b"x", &[0; 16], &[1; 100]] {
        let path = socket();
        let listener = UnixListener::bind(&path).expect("a socket");
        let (make, made) = std::sync::mpsc::channel();
        let running = thread::spawn(move || {
            let (_requests, answers) = accept(&listener);
            // The server's side of the link is made before any of it goes.
            let is_made = made.recv();
            // Also out of band, which a call that waits would pass over.
            let _ = rustix::net::send(&answers, b"!", SendFlags::OOB | SendFlags::NOSIGNAL);
            let _ = UnixStream::from(answers).write_all(said);
            is_made
        });
        let mut server = Server::new(&path);
        make.send(()).expect("it runs");
        let request = server.ask("/");
        assert!(!server.take(request).is_whole);
        running.join().expect("no panic").expect("it was told");
        std::fs::remove_file(path).expect("its socket");
    }
}

fn serve(path: &Path) {
    let path = path.to_owned();
    thread::spawn(move || {
        let mut application = Application::listen(path, Shape::of(64)).expect("a socket");
        application.serve(|_, pool| Ok(Answer::new(Head::new(200)).fresh(pool.copy(b"served")?)))
    });
}

fn is_served(path: &Path) {
    let mut server = Server::new(path);
    let request = server.ask("/");
    assert_eq!(server.take(request).content, b"served");
}

/// A link of a server's that says what it likes.
fn connect(path: &Path) -> (Sender, Receiver, Pool) {
    let made = UnixStream::connect(path).expect("it listens");
    let (answers, theirs) = UnixStream::pair().expect("descriptors");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [theirs.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    let hello = [IoSlice::new(&HELLO)];
    sendmsg(&made, &hello, &mut ancillary, SendFlags::empty()).expect("it reads");
    drop(theirs);
    let pool = Pool::new("hostile", Shape::of(64)).expect("memory");
    let sender = Sender::connect(made.into(), &pool, Options::default()).expect("a pipe");
    let answers = Receiver::accept(answers.into(), Trust::Untrusted).expect("a pipe");
    (sender, answers, pool)
}

#[test]
fn a_server_that_breaks_the_rules_is_left() {
    let path = socket();
    serve(&path);
    is_served(&path);
    let ask = |number| record(Header::new(Kind::Request, number, 12), &variables("/"));
    for said in [
        vec![9; 16],
        [ask(1), ask(2), ask(1)].concat(),
        ask(0),
        // Of which the server says that they have the same place.
        [ask(1), ask(1 + REQUESTS_MAX as u32 + 1)].concat(),
        record(Header::new(Kind::Head, 1, 0), b""),
        // A body beyond what there is room for.
        [
            ask(1),
            record(
                Header::new(Kind::Body, 1, BODY_ROOM + 1),
                &vec![1; BODY_ROOM + 1],
            ),
        ]
        .concat(),
    ] {
        let (mut sender, mut answers, pool) = connect(&path);
        let mut said: Aggregate = pool.copy(&said).expect("room");
        sender.write_all(&mut said, Wait::Sleep).expect("it reads");
        // It leaves, perhaps behind some answers.
        while let Ok(Read::Data(_)) = answers.read_wait(usize::MAX, Wait::Sleep) {}
        is_served(&path);
    }
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn a_server_that_always_says_something_keeps_nobody_waiting() {
    let path = socket();
    serve(&path);
    is_served(&path);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut sender, _answers, pool) = connect(&path);
            // Of requests that nobody made.
            let said = Header::room(7, 1).bytes().repeat(4096);
            let said: Aggregate = pool.copy(&said).expect("room");
            while !is_over.load(Ordering::Relaxed) {
                sender
                    .write_all(&mut said.clone(), Wait::Poll)
                    .expect("it reads");
            }
        });
        for _ in 0..20 {
            is_served(&path);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn a_server_that_takes_no_answers_is_not_heard_on() {
    let path = socket();
    serve(&path);
    is_served(&path);
    let (mut sender, _answers, pool) = connect(&path);
    let (mut number, mut asked) = (0, 0);
    // Of answers there may be as many as the pipe holds, and what is put together for it.
    let most = exos_application::limits::ANSWER_SLOTS * DRAFT_LEN + 16 * OUTGOING_LEN_MAX;
    loop {
        let ask = |_| {
            // Each is answered at once, so that its number can be another's.
            number = number % REQUESTS_MAX as u32 + 1;
            let header = Header::new(Kind::Request, number, 12).last(true);
            record(header, &variables("/"))
        };
        let many: Vec<u8> = (0..2000).flat_map(ask).collect();
        let mut many: Aggregate = pool.copy(&many).expect("room");
        asked += many.len();
        let short = Wait::SleepAtMost(Duration::from_secs(1));
        if !sender.write_all(&mut many, short).expect("it is there") {
            break;
        }
        assert!(asked < most, "it takes {asked} bytes");
    }
    is_served(&path);
    std::fs::remove_file(path).expect("its socket");
}

/// Waits for as many requests as there are to be, which are not answered.
fn await_requests(application: &mut Application, count: usize) -> Vec<RequestId> {
    let (mut requests, until) = (Vec::new(), Instant::now() + LONG);
    while requests.len() < count {
        assert!(Instant::now() < until, "{} have come", requests.len());
        if let Some(Event::Request(id)) = application.wait(Some(LONG)).expect("it listens") {
            requests.push(id);
        }
    }
    requests
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Has a server of its own thread say this, and gives what it is answered up to these bytes.
fn answers_to(path: &Path, said: &[u8], up_to: &[u8]) -> Vec<u8> {
    let (mut sender, mut answers, pool) = connect(path);
    let mut said: Aggregate = pool.copy(said).expect("room");
    sender.write_all(&mut said, Wait::Sleep).expect("it reads");
    let mut got = Vec::new();
    while !has(&got, up_to)
        && let Ok(Read::Data(data)) = answers.read_wait(usize::MAX, Wait::Sleep)
    {
        got.extend(data.to_vec());
    }
    got
}

#[test]
fn an_answer_to_one_that_was_left_is_not_for_the_next_with_its_number() {
    let path = socket();
    let mut application = Application::listen(&path, Shape::of(64)).expect("a socket");
    let ask = record(
        Header::new(Kind::Request, 1, 12).last(true),
        &variables("/"),
    );
    let said = [&ask[..], &Header::new(Kind::Leave, 1, 0).bytes(), &ask[..]].concat();
    thread::scope(|scope| {
        let server = scope.spawn(|| answers_to(&path, &said, b"the second's"));
        let requests = await_requests(&mut application, 2);
        assert!(requests[0] != requests[1] && application.request(requests[0]).is_none());
        for (id, page) in requests.into_iter().zip(["the first's", "the second's"]) {
            let (id, parts) = (RequestId::from_parts(id.to_parts()), page.as_bytes());
            let page = application.pool().copy(parts).expect("room");
            application.answer(id, Answer::new(Head::new(200)).fresh(page));
        }
        while !server.is_finished() {
            let _ = application.wait(Some(Duration::from_millis(10)));
        }
        let got = server.join().expect("no panic");
        assert!(has(&got, b"the second's") && !has(&got, b"the first's"));
    });
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn there_are_as_many_requests_without_answers_as_have_numbers() {
    let path = socket();
    let mut application = Application::listen(&path, Shape::of(64)).expect("a socket");
    let ask = |number| {
        let header = Header::new(Kind::Request, number, 12).last(true);
        record(header, &variables("/"))
    };
    let all: Vec<u8> = (1..=REQUESTS_MAX as u32).flat_map(ask).collect();
    // The next has no number of its own.
    for next in [0, 1, REQUESTS_MAX as u32, REQUESTS_MAX as u32 + 2] {
        let said = [&all[..], &ask(next)].concat();
        thread::scope(|scope| {
            let server = scope.spawn(|| answers_to(&path, &said, b"never"));
            let requests = await_requests(&mut application, REQUESTS_MAX);
            let mut left = 0;
            while left < requests.len() {
                match application.wait(Some(LONG)).expect("it listens") {
                    Some(Event::Left(_)) => left += 1,
                    Some(other) => panic!("{other:?}"),
                    None => {}
                }
            }
            assert_eq!(server.join().expect("no panic"), b"");
        });
    }
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn those_that_are_no_servers_are_left() {
    let path = socket();
    serve(&path);
    is_served(&path);
    let mut silent = Vec::new();
    for said in [
        &b""[..],
        b"GET / HTTP/1.1\r\n\r\n",
        &HELLO,
        // The version before.
        b"exos-application",
        &[0; 1000],
    ] {
        let mut made = UnixStream::connect(&path).expect("it listens");
        let _ = made.write_all(said);
        silent.push(made);
        is_served(&path);
    }
    drop(silent);
    is_served(&path);
    // As many as there are places for, which say nothing: they have their time, and no more.
    let connect = || UnixStream::connect(&path).expect("it listens");
    let _silent: Vec<UnixStream> = (0..BEGINNING_MAX).map(|_| connect()).collect();
    let until = Instant::now() + LONG;
    loop {
        let mut server = Server::new(&path);
        let request = server.ask("/");
        if server.take(request).content == b"served" {
            break;
        }
        assert!(Instant::now() < until, "nobody has a place");
    }
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn a_head_or_a_line_that_is_too_long_concerns_its_request_alone() {
    let page = pattern(3000);
    let long = 3 * HEAD_LEN_MAX;
    let second = Header::new(Kind::Head, 2, 4);
    let said = [
        record(Header::new(Kind::Head, 1, long), &vec![b'a'; long]),
        record(Header::new(Kind::Said, 2, long), &vec![b'b'; long]),
        record(second, b"\r\n\r\n"),
        record(Header::new(Kind::Content, 2, 3000).last(true), &page),
        record(Header::new(Kind::Content, 1, 0).last(true), b""),
    ];
    let path = socket();
    let running = application(path.clone(), said.concat());
    let mut server = Server::new(&path);
    let (first, second) = (server.ask("/"), server.ask("/"));
    let got = server.take(second);
    assert!(got.is_whole && got.content == page);
    assert_eq!(got.said.len(), SAID_LEN_MAX);
    // Cut off where no head is that long.
    assert_eq!(server.take(first).head.len(), HEAD_LEN_MAX + 1);
    assert!(server.link.failure().is_none());
    drop(server);
    running.join().expect("no panic");
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn an_application_that_reads_nothing_costs_what_its_requests_do() {
    let path = socket();
    let _listener = UnixListener::bind(&path).expect("a socket");
    let mut server = Server::new(&path);
    let (variables, body) = (vec![b'v'; 16 * 1024], vec![b'b'; BODY_ROOM]);
    for _ in 0..3000 {
        let request = server.reserve();
        server.link.ask(request, &variables, true);
        server.link.send_body(request, &body, true);
        server.link.flush();
        server.link.leave(request);
    }
    // 240 MB were asked; the pipe's own memory, and what is put together for it, bounds what is kept.
    let most = OUTGOING_LEN_MAX + body.len() + variables.len() + 3000 * 16;
    assert!(
        server.link.unsent_len() <= most,
        "{}",
        server.link.unsent_len()
    );
    let written = server.link.written();
    assert!(!server.link.flush() && server.link.written() == written);
    server.link.give_up();
    assert_eq!(server.link.unsent_len(), 0);
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn what_is_no_left_socket_is_not_removed() {
    let path = socket();
    std::fs::write(&path, b"a document").expect("a file");
    assert!(Application::listen(&path, Shape::of(8)).is_err());
    assert_eq!(std::fs::read(&path).expect("it is there"), b"a document");
    std::fs::remove_file(&path).expect("a file");
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(Application::listen(&path, Shape::of(8)).is_ok());
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn an_application_without_buffers_answers_on() {
    let path = socket();
    let listened = path.clone();
    thread::spawn(move || {
        let mut application = Application::listen(listened, Shape::of(8)).expect("a socket");
        application.serve(|request, pool| {
            let is_long = request.variable("PATH_INFO") == Some(b"/long");
            let len = if is_long { 8 << 16 } else { 0 };
            let head = Head::new(200).field("X-Long", "x".repeat(500));
            Ok(Answer::new(head).fresh(pool.copy(&pattern(len))?))
        })
    });
    let mut server = Server::new(&path);
    // It takes all buffers, of which the last wait for room that nobody gives.
    let slow = server.ask("/long");
    let mut first = None;
    server.await_true(|link| {
        first = link.take(slow);
        first.is_some()
    });
    for n in 0..20 {
        let request = server.ask(if n % 2 == 0 { "/long" } else { "/" });
        let got = server.take(request);
        assert!(
            got.is_whole && got.head.starts_with("Status: "),
            "{}",
            got.head
        );
        assert!(server.link.failure().is_none());
    }
    let rest = server.take(slow);
    let all = [first.map(content).unwrap_or_default(), rest.content].concat();
    assert!(rest.is_whole && all == pattern(8 << 16));
    std::fs::remove_file(path).expect("its socket");
}
