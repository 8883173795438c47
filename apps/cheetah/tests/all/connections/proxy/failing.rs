//! Upstreams that are not there, break off, are late or fail their checks, and what others have of it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use exos_cheetah::applications::Application;
use exos_cheetah::applications::proxy::{CheckRules, Proxy};
use rustix::net::{AddressFamily, SocketType, bind, connect, getsockname, listen, socket};

use super::{LONG, World, accept, answer, ask, bytes, head, is, response, serve, to_the_end};

/// RFC 9112 §9.3.1: a kept connection may be closed while a request is on its way.
#[test]
fn what_may_be_repeated_is_asked_again_over_another_connection() {
    let world = World::new(1, |_, _| {});
    let mut client = world.client(&ask("GET", "/a"));
    let mut kept = world.accept();
    head(&mut kept);
    answer(&mut kept, "one");
    is(&mut client, "200", "one");
    client.write_all(ask("DELETE", "/b").as_bytes()).unwrap();
    head(&mut kept);
    drop(kept);
    let mut other = world.accept();
    assert!(head(&mut other).starts_with("DELETE /b "));
    answer(&mut other, "two");
    is(&mut client, "200", "two");
    // With a byte of an answer it is not, and neither is what does something each time.
    client.write_all(ask("GET", "/c").as_bytes()).unwrap();
    head(&mut other);
    other.write_all(b"H").unwrap();
    drop(other);
    assert_eq!(response(&mut client).0, "502");
    let mut client = world.client(&ask("POST", "/d"));
    let mut last = world.accept();
    head(&mut last);
    drop(last);
    assert_eq!(response(&mut client).0, "502");
}

#[test]
fn an_upstream_that_is_not_there_is_passed_over() {
    // Nobody listens where a socket is bound and no more.
    let (_gone, nobody) = bound();
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = vec![nobody, there.local_addr().unwrap()];
    let server = serve(addresses, |application, _| application.keep = 0);
    let world = World {
        upstreams: vec![there],
        server,
    };
    // A request with a body as well: nothing of it had left.
    for path in ["/a", "/b", "/c"] {
        let mut client = world.client(&format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
        ));
        let mut upstream = world.accept();
        assert!(head(&mut upstream).starts_with(&format!("POST {path} ")));
        assert_eq!(bytes(&mut upstream, 3), "abc");
        answer(&mut upstream, "ok");
        is(&mut client, "200", "ok");
    }
}

/// A socket of a port of its own.
fn bound() -> (OwnedFd, SocketAddr) {
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&made, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(getsockname(&made).unwrap()).unwrap();
    (made, address)
}

/// A host that answers no SYN has its time to do so, and then another is asked, with all of the body.
#[test]
fn an_upstream_that_does_not_answer_a_connection_is_passed_over() {
    let (full, address) = bound();
    listen(&full, 0).unwrap();
    // As many as may wait to be accepted; the kernel drops the SYNs of others.
    let waits = |_| {
        let waits = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::io::ioctl_fionbio(&waits, true).unwrap();
        let _ = connect(&waits, &address);
        waits
    };
    let waiting: Vec<_> = (0..4).map(waits).collect();
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = serve(vec![address, there.local_addr().unwrap()], |_, proxy| {
        proxy.connect_time = Duration::from_millis(200);
    });
    let world = World {
        upstreams: vec![there],
        server,
    };
    // One of them begins at the first.
    for _ in 0..2 {
        let mut client = world.client(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
        );
        let mut upstream = world.accept();
        head(&mut upstream);
        assert_eq!(bytes(&mut upstream, 3), "abc");
        upstream
            .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na")
            .unwrap();
        is(&mut client, "200", "a");
    }
    drop(waiting);
    // Alone it is late.
    let server = serve(vec![address], |_, proxy| {
        proxy.connect_time = Duration::from_millis(200);
    });
    let waiting: Vec<_> = (0..4).map(waits).collect();
    let mut client = server.connect();
    client.write_all(ask("GET", "/").as_bytes()).unwrap();
    assert_eq!(response(&mut client).0, "504");
    drop(waiting);
}

#[test]
fn each_of_several_has_its_turn() {
    let world = World::new(3, |application, _| application.keep = 0);
    let mut clients: Vec<TcpStream> = (0..6).map(|_| world.client(&ask("GET", "/"))).collect();
    // Two for each.
    for upstream in &world.upstreams {
        for _ in 0..2 {
            let mut asked = accept(upstream);
            head(&mut asked);
            answer(&mut asked, "x");
        }
    }
    for client in &mut clients {
        is(client, "200", "x");
    }
}

#[test]
fn what_is_no_answer_is_a_bad_gateway_and_silence_a_late_one() {
    let short = |application: &mut Application, _: &mut Proxy| {
        application.timeout = Duration::from_millis(300);
    };
    // Only who is to be late has little time.
    let (patient, hurried) = (World::new(1, |_, _| {}), World::new(1, short));
    for (said, status) in [
        ("nonsense\r\n\r\n", "502"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "502",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
            "502",
        ),
        ("", "504"),
        ("HTTP/1.1 200 OK\r\nX: ", "504"),
    ] {
        let world = if status == "504" { &hurried } else { &patient };
        let mut client = world.client(&ask("GET", "/"));
        let mut upstream = world.accept();
        head(&mut upstream);
        let is_said = upstream.write_all(said.as_bytes());
        assert_eq!(response(&mut client).0, status, "{said}");
        // Ours is closed. Where the time was over before it was said, what was said resets it.
        let end = is_said.and_then(|()| upstream.read(&mut [0]));
        let end = end.map_err(|error| error.kind());
        let resets = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        let is_reset = end.is_err_and(|kind| resets.contains(&kind));
        assert!(end == Ok(0) || is_reset && status == "504", "{end:?}");
    }
}

#[test]
fn an_answer_that_breaks_off_is_not_whole_for_the_client() {
    let world = World::new(1, |_, _| {});
    for said in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        let mut client = world.client(&ask("GET", "/"));
        let mut upstream = world.accept();
        head(&mut upstream);
        upstream.write_all(said.as_bytes()).unwrap();
        drop(upstream);
        let all = to_the_end(&mut client);
        assert!(all.contains("abc") && !all.ends_with("0\r\n\r\n"), "{all}");
    }
}

/// The upstream that fails its checks is asked no more, until it passes them.
#[test]
fn an_upstream_that_fails_its_checks_is_out() {
    let check = CheckRules {
        path: "/health".to_owned(),
        host: Some("check.test".to_owned()),
        interval: Duration::from_millis(20),
        timeout: LONG,
        fails: 2,
        passes: 2,
    };
    let world = World::new(2, |_, proxy| proxy.check = Some(check));
    let is_well = Arc::new(AtomicBool::new(false));
    let served: Vec<Arc<AtomicUsize>> = (0..2).map(|_| Arc::default()).collect();
    for (n, listener) in world.upstreams.iter().enumerate() {
        let (listener, served, is_well) = (
            listener.try_clone().unwrap(),
            served[n].clone(),
            is_well.clone(),
        );
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let asked = head(&mut stream);
                let is_check = asked.starts_with("GET /health ");
                assert!(
                    !is_check || asked.contains("\r\nHost: check.test\r\n"),
                    "{asked}"
                );
                served.fetch_add(usize::from(!is_check), Ordering::SeqCst);
                let is_bad = is_check && n == 0 && !is_well.load(Ordering::SeqCst);
                let status = if is_bad { "500 Bad" } else { "200 OK" };
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
    }
    // Ten in a row: while both are in, they are asked in turn.
    let asked_both = || {
        let before = served[0].load(Ordering::SeqCst);
        for _ in 0..10 {
            let mut client = world.client(&ask("GET", "/"));
            assert_eq!(response(&mut client).0, "200");
        }
        served[0].load(Ordering::SeqCst) > before
    };
    let until = |wanted: bool| {
        for _ in 0..6000 {
            if asked_both() == wanted {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it is never {wanted}");
    };
    until(false);
    assert!(!asked_both(), "it stays out");
    is_well.store(true, Ordering::SeqCst);
    until(true);
}
