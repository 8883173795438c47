//! A program as a client of the daemon: a daemon of the test's own says what it should hear, and lends
//! it an end of a real wire. What needs the wire needs root.

use crate::common;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::*;
use exos::via::{Lost, News};
use exos::{Daemon, Error, ErrorKind, Exos, Place, Role};
use exos_buf::Buffer;
use exos_inet::tcp::EventSet;
use exos_link::Offer;
use exos_xok::message::{
    Answer, Farewell, Mode, Notice, PortWish, Refusal, Request, Revoked, VERSION,
};
use exos_xok::{Claim, Endpoint, Protocol};

fn claim(protocol: Protocol, port: u16, remote: Option<Endpoint>) -> Claim {
    Claim {
        interface: INTERFACE,
        protocol,
        local: OURS.into(),
        port,
        remote,
    }
}

/// A turn of a program that sends back what comes.
fn echo_turn(exos: &mut Exos) {
    exos.receive();
    while let Some(event) = exos.stack.poll_event() {
        let id = event.connection;
        if event.set.contains(EventSet::READABLE) {
            let bytes = exos.stack.tcp.readable(id).to_vec();
            exos.stack.tcp.consume(id, bytes.len());
            exos.stack.tcp.send(id, Buffer::from(bytes).into());
        }
        if event.set.contains(EventSet::FINISHED) {
            exos.stack.tcp.finish(id);
        }
    }
    exos.send().unwrap();
    let soon = exos.now() + Duration::from_millis(20);
    exos.wait(Some(soon), &[]).unwrap();
}

/// Sends bytes through a connection of the kernel and takes them back.
fn bounce(socket: &mut TcpStream, text: &[u8]) {
    socket.write_all(text).unwrap();
    let mut back = vec![0; text.len()];
    socket.read_exact(&mut back).unwrap();
    assert_eq!(back, text);
}

/// The daemon's side: it lends the link, grants port 7 of both protocols there, and finds the neighbour when it is asked for.
fn lends_with_ports(listener: &Listener, wire: &Wire, lent: &Lent) -> (Peer, Offer) {
    let peer = listener.accept();
    let (request, offer) = peer.lend(lent, wire);
    let Request::Attach {
        interface, mode, ..
    } = request
    else {
        panic!("{request:?}");
    };
    assert_eq!((interface.as_str(), mode), (NAME, Mode::Auto));
    for (grant, protocol) in [(1, Protocol::Tcp), (2, Protocol::Udp)] {
        peer.grant(grant, |request| {
            let asked = Request::Claim {
                protocol,
                local: Some(IpAddr::V4(OURS)),
                port: PortWish::Number(7),
                remote: None,
            };
            assert_eq!(*request, asked);
            claim(protocol, 7, None)
        });
    }
    let (tag, request) = peer.request();
    assert_eq!(request, Request::Resolve { ip: THEIRS.into() });
    peer.answer(tag, &Answer::Done, &[]);
    lent.learn(&wire.neighbour());
    (peer, offer)
}

/// From the greeting to a connection over the link that was lent; through the daemon's death, while which the
/// connection goes on; its return; a neighbour learned late; and the end that it asks for.
#[test]
fn a_lent_link_works_and_outlives_the_daemon() {
    if skip_without_root("a_lent_link_works_and_outlives_the_daemon") {
        return;
    }
    let (listener, wire, lent) = (Listener::new(), Wire::new(), Lent::new());
    let wanted = Daemon {
        datagrams: true,
        ..wanted(&listener, 7)
    };
    thread::scope(|scope| {
        // In here, so that a failure ends the others' waiting too.
        let (to_test, from_daemon) = mpsc::channel();
        let (to_daemon, from_test) = mpsc::channel();
        let kernel = &wire.kernel;
        let (listener, wire) = (&listener, &wire);
        scope.spawn(move || {
            let (peer, offer) = lends_with_ports(listener, wire, &lent);
            // Killed when the test says so, and back.
            from_test.recv().unwrap();
            drop(peer);
            from_test.recv().unwrap();
            let peer = listener.accept();
            peer.welcome(&lent);
            let (tag, request) = peer.request();
            assert_eq!(request, Request::Reattach { token: TOKEN });
            peer.answer(tag, &attached(&offer), &[]);
            to_test.send("reattached").unwrap();
            from_test.recv().unwrap();
            peer.notice(&Notice::Revoke {
                what: Revoked::Slot,
                deadline_ms: 500,
                reason: "the administrator wants it".into(),
            });
            from_test.recv().unwrap();
        });
        let mut exos = Exos::attach(wanted).unwrap();
        let via = exos.via().unwrap();
        assert_eq!((via.slot(), via.grants().len()), (3, 2));
        assert!(exos.describe_link().contains("slot 3 of the daemon"));
        exos.stack.tcp.listen(None, 7, Default::default()).unwrap();
        let (done, client_done) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut socket = kernel
                .run(|| TcpStream::connect((OURS, 7)).unwrap())
                .unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            for text in ["the daemon is there", "it is gone", "it is back"] {
                bounce(&mut socket, text.as_bytes());
                done.send(()).unwrap();
                may_go.recv().unwrap();
            }
        });
        let mut news = Vec::new();
        let mut turns_until = |what: &str, exos: &mut Exos, done: &dyn Fn(&[News]) -> bool| {
            until_so(what, || {
                echo_turn(exos);
                news.extend(exos.poll_news());
                done(&news)
            });
        };
        let is_echoed = |_: &[News]| client_done.try_recv().is_ok();
        turns_until("an echo", &mut exos, &is_echoed);
        to_daemon.send(()).unwrap();
        turns_until("the daemon's end", &mut exos, &|news| news == [News::Away]);
        go.send(()).unwrap();
        turns_until("an echo without it", &mut exos, &is_echoed);
        let via = exos.via().unwrap();
        let refused = via.claim(Protocol::Tcp, OURS.into(), PortWish::Ephemeral, None);
        let refused = Error::from(refused.unwrap_err()).to_string();
        assert!(refused.contains("not there now"), "{refused}");
        to_daemon.send(()).unwrap();
        turns_until("its return", &mut exos, &|news| {
            news == [News::Away, News::Back]
        });
        assert_eq!(from_daemon.recv(), Ok("reattached"));
        go.send(()).unwrap();
        turns_until("an echo with it again", &mut exos, &is_echoed);
        to_daemon.send(()).unwrap();
        let revoked = News::Revoked {
            what: Lost::Link,
            within: Duration::from_millis(500),
            reason: "the administrator wants it".into(),
        };
        turns_until("the revocation", &mut exos, &|news| {
            news[2..] == [revoked.clone()]
        });
        to_daemon.send(()).unwrap();
        go.send(()).unwrap();
    });
}

/// The daemon's side: it grants a port of its choice for a connection there, keeps what is left of that, and has the grant back.
fn lends_with_a_port_of_its_choice(listener: &Listener, wire: &Wire, lent: &Lent, to: SocketAddr) {
    let peer = listener.accept();
    let (_, _offer) = peer.lend(lent, wire);
    peer.grant(9, |request| {
        let there = Endpoint {
            ip: to.ip(),
            port: to.port(),
        };
        let asked = Request::Claim {
            protocol: Protocol::Tcp,
            local: Some(OURS.into()),
            port: PortWish::Ephemeral,
            remote: Some(there),
        };
        assert_eq!(*request, asked);
        claim(Protocol::Tcp, 50_123, Some(there))
    });
    let (tag, request) = peer.request();
    let Request::TimeWait { grant: 9, entries } = request else {
        panic!("{request:?}");
    };
    assert_eq!(entries.len(), exos_inet::tcp::TIME_WAIT_RECORD_LEN);
    peer.answer(tag, &Answer::Done, &[]);
    let (tag, request) = peer.request();
    assert_eq!(request, Request::Release { grant: 9 });
    peer.answer(tag, &Answer::Done, &[]);
}

/// A program that connects gets a port for that connection alone, and leaves its end with the daemon.
#[test]
fn a_connection_has_a_port_of_the_daemons_choice() {
    if skip_without_root("a_connection_has_a_port_of_the_daemons_choice") {
        return;
    }
    let (listener, wire, lent) = (Listener::new(), Wire::new(), Lent::new());
    lent.learn(&wire.neighbour());
    let server = wire
        .kernel
        .run(|| TcpListener::bind((THEIRS, 0)).unwrap())
        .unwrap();
    let to = SocketAddr::new(THEIRS.into(), server.local_addr().unwrap().port());
    thread::scope(|scope| {
        scope.spawn(|| lends_with_a_port_of_its_choice(&listener, &wire, &lent, to));
        let mut exos = Exos::attach(wanted(&listener, 0)).unwrap();
        let source = exos.source(to, None).unwrap().unwrap();
        assert_eq!(source, SocketAddr::new(OURS.into(), 50_123));
        let now = exos::clock::now();
        let id = exos
            .stack
            .tcp
            .connect(now, Some(source), to, &Default::default())
            .unwrap();
        until_so("the connection", || {
            exos.receive();
            while exos.stack.poll_event().is_some() {}
            exos.send().unwrap();
            let state = exos.stack.tcp.connection(id).unwrap().state();
            state == exos_inet::tcp::State::Established
        });
        let (socket, from) = server.accept().unwrap();
        assert_eq!(from, source);
        // We finish first, so that it is for us to wait.
        exos.stack.tcp.finish(id);
        let mut socket = Some(socket);
        until_so("the end", || {
            echo_turn(&mut exos);
            let finished = |mut socket: &TcpStream| socket.read(&mut [0; 8]).unwrap() == 0;
            if socket.as_ref().is_some_and(finished) {
                socket.take();
            }
            exos.stack.tcp.time_wait_connections() == 1
        });
        exos.leave();
        assert_eq!(exos.stack.tcp.time_wait_connections(), 0);
        exos.via().unwrap().release(9).unwrap();
        assert!(exos.via().unwrap().grants().is_empty());
    });
}

/// What the program is told when a daemon answers so.
fn refusal_of(answers: impl FnOnce(&Listener) + Send, port: u16) -> String {
    let listener = Listener::new();
    thread::scope(|scope| {
        scope.spawn(|| answers(&listener));
        match Exos::attach(wanted(&listener, port)) {
            Ok(_) => panic!("it was lent a link"),
            Err(error) => error.to_string(),
        }
    })
}

fn refused(code: Refusal, text: &str) -> Answer {
    Answer::Refused {
        code,
        text: text.to_owned(),
    }
}

/// The daemon lends what is no memory: it is to let go of the handler, and the program runs it.
#[test]
fn a_handler_whose_memory_cannot_be_mapped_does_not_stay_with_the_daemon() {
    let test = "a_handler_whose_memory_cannot_be_mapped_does_not_stay_with_the_daemon";
    if skip_without_root(test) {
        return;
    }
    let (listener, wire, lent) = (Listener::new(), Wire::new(), Lent::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            let peer = listener.accept();
            let _lent = peer.lend(&lent, &wire);
            peer.grant(1, |_| claim(Protocol::Udp, 7, None));
            let (tag, request) = peer.request();
            assert!(matches!(request, Request::Download { port: 7, .. }));
            let no_memory = std::fs::File::open("/dev/null").unwrap();
            peer.answer(tag, &Answer::Downloaded, &[no_memory.as_fd()]);
            let (_, request) = peer.request();
            assert_eq!(request, Request::RemoveHandler { port: Some(7) });
        });
        let mut exos = Exos::attach(wanted(&listener, 0)).unwrap();
        let handler = exos::ash::parse("handler h { words w[8]; done; }").unwrap();
        let downloaded = exos.download(handler, 7).unwrap();
        assert_ne!(downloaded.place(), Place::Kernel);
        let why = downloaded.not_in_kernel().unwrap().to_string();
        assert!(why.contains("cannot map a BPF array"), "{why}");
    });
}

/// Each obstacle is named, with what to do about it.
#[test]
fn what_is_in_the_way_is_said() {
    let at = |socket| Daemon {
        socket,
        ..Daemon::new(Role::Serve(vec![80]))
    };
    let error = Exos::attach(at("/nowhere/xokd.sock".into()));
    let error = error.map(drop).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoDaemon);
    let error = error.to_string();
    for words in [
        "no daemon at /nowhere/xokd.sock",
        "start it",
        "do without it",
    ] {
        assert!(error.contains(words), "{error}");
    }

    let ended = Listener::new();
    let (path, copy) = (ended.path.clone(), ended.path.with_extension("left"));
    std::fs::hard_link(&path, &copy).unwrap();
    drop(ended);
    let error = Exos::attach(at(copy.clone())).map(drop).unwrap_err();
    std::fs::remove_file(copy).unwrap();
    assert!(
        error.to_string().contains("nobody listens there"),
        "{error}"
    );

    let version = refusal_of(
        |listener| {
            let peer = listener.accept();
            let (tag, request) = peer.request();
            assert_eq!(request, Request::Hello { version: VERSION });
            peer.answer(
                tag,
                &refused(Refusal::Version, "this daemon speaks version 9"),
                &[],
            );
        },
        80,
    );
    assert_eq!(version, "the daemon refuses: this daemon speaks version 9");

    let closed = refusal_of(|listener| drop(listener.accept()), 80);
    assert!(closed.contains("closed the connection"), "{closed}");

    let nonsense = refusal_of(
        |listener| {
            let peer = listener.accept();
            peer.request();
            peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n", &[]);
        },
        80,
    );
    assert!(nonsense.contains("same version"), "{nonsense}");

    let policy = "allow user 65534 in /etc/exos/xokd.toml";
    let not_allowed = refusal_of(
        |listener| {
            let peer = listener.accept();
            peer.welcome(&Lent::new());
            let (tag, _) = peer.request();
            peer.answer(tag, &refused(Refusal::NotAllowed, policy), &[]);
        },
        80,
    );
    assert_eq!(not_allowed, format!("the daemon refuses: {policy}"));
}

/// Programs hear of an address that is taken, and of one that the daemon does not have.
#[test]
fn what_cannot_be_claimed_is_said() {
    if skip_without_root("what_cannot_be_claimed_is_said") {
        return;
    }
    let owner = "tcp 10.79.0.1:80 is held by nginx (pid 4711, uid 33)";
    let lend = |listener: &Listener, then: &dyn Fn(&Peer)| {
        let wire = Wire::new();
        let peer = listener.accept();
        let (_, _offer) = peer.lend(&Lent::new(), &wire);
        then(&peer);
    };
    for code in [Refusal::Held, Refusal::NotAllowed] {
        let taken = refusal_of(
            |listener| {
                lend(listener, &|peer| {
                    let (tag, _) = peer.request();
                    peer.answer(tag, &refused(code, owner), &[]);
                });
            },
            80,
        );
        assert_eq!(taken, format!("the daemon refuses: {owner}"));
    }
    let listener = Listener::new();
    thread::scope(|scope| {
        scope.spawn(|| lend(&listener, &|_| {}));
        let wanted = Daemon {
            addresses: vec!["10.79.0.9/24".parse().unwrap()],
            ..wanted(&listener, 80)
        };
        let error = Exos::attach(wanted).map(drop).unwrap_err().to_string();
        for words in ["no address 10.79.0.9 on lent0", "10.79.0.1"] {
            assert!(error.contains(words), "{error}");
        }
    });
}

/// A daemon that says goodbye for good takes everything with it; one that makes room for another does not.
#[test]
fn a_farewell_says_whether_to_wait() {
    if skip_without_root("a_farewell_says_whether_to_wait") {
        return;
    }
    for (farewell, last) in [
        (Farewell::Restarting, News::Away),
        (
            Farewell::Stopping,
            News::Revoked {
                what: Lost::Link,
                within: Duration::ZERO,
                reason: "it stops".into(),
            },
        ),
        (
            Farewell::Revoked,
            News::Revoked {
                what: Lost::Link,
                within: Duration::ZERO,
                reason: "its policy does not allow the link any more".into(),
            },
        ),
    ] {
        let (listener, wire, lent) = (Listener::new(), Wire::new(), Lent::new());
        thread::scope(|scope| {
            let (listener_, wire) = (&listener, &wire);
            scope.spawn(move || {
                let peer = listener_.accept();
                let (_, _offer) = peer.lend(&lent, wire);
                peer.notice(&Notice::Goodbye(farewell));
            });
            let mut exos = Exos::attach(wanted(&listener, 0)).unwrap();
            let mut news = None;
            until_so("news", || {
                echo_turn(&mut exos);
                news = exos.poll_news();
                news.is_some()
            });
            assert_eq!(news, Some(last));
            assert_eq!(exos.poll_news(), None);
        });
    }
}
