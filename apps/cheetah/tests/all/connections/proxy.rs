//! Requests that upstreams answer, behind the server on the kernel's sockets; the upstreams are the test.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use exos_cheetah::Site;
use exos_cheetah::applications::proxy::{CheckRules, Proxy};
use exos_cheetah::applications::rules::{Rule, Scope};
use exos_cheetah::applications::{Address, Application, Place, Rules};
use exos_cheetah::connections::Bounds;
use exos_cheetah::site::Settings;
use exos_http2::frame::kind;
use exos_http2::limits::{CONNECTION_WINDOW, STREAM_WINDOW};

use super::sockets::Running;
use crate::common::frames::{FrameClient, framed, request};

/// Everything that takes longer fails.
const LONG: Duration = Duration::from_secs(60);

struct World {
    upstreams: Vec<TcpListener>,
    server: Running,
}

impl World {
    /// With this many upstreams for all paths.
    fn new(count: usize, change: impl FnOnce(&mut Application, &mut Proxy)) -> World {
        let listen = |_| TcpListener::bind("127.0.0.1:0").unwrap();
        let upstreams: Vec<TcpListener> = (0..count).map(listen).collect();
        let addresses = upstreams.iter().map(|it| it.local_addr().unwrap());
        let server = serve(addresses.collect(), change);
        World { upstreams, server }
    }

    fn accept(&self) -> TcpStream {
        accept(&self.upstreams[0])
    }

    /// A client that has sent this.
    fn client(&self, sent: &str) -> TcpStream {
        let mut made = self.server.connect();
        made.set_read_timeout(Some(LONG)).unwrap();
        made.set_nodelay(true).unwrap();
        made.write_all(sent.as_bytes()).unwrap();
        made
    }
}

fn serve(to: Vec<SocketAddr>, change: impl FnOnce(&mut Application, &mut Proxy)) -> Running {
    let addresses = to.into_iter().map(|at| Address::Http(Place::Tcp(at)));
    let (mut application, mut proxy) = (Application::at_any(addresses.collect()), Proxy::default());
    application.keep = 4;
    change(&mut application, &mut proxy);
    application.proxy = Some(proxy);
    let settings = move || Settings {
        applications: Rules::new(vec![Rule {
            scope: Scope::path("/*").unwrap(),
            application: Arc::new(application),
        }]),
        ..Settings::default()
    };
    Running::start_bounded(Bounds::default(), move || Site::with(Arc::new(settings())))
}

fn accept(listener: &TcpListener) -> TcpStream {
    let made = listener.accept().unwrap().0;
    made.set_read_timeout(Some(LONG)).unwrap();
    made
}

fn ask(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

/// Reads a head to its empty line.
fn head(stream: &mut TcpStream) -> String {
    let (mut all, mut byte) = (Vec::new(), [0]);
    while !all.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        all.push(byte[0]);
    }
    String::from_utf8(all).unwrap()
}

fn bytes(stream: &mut TcpStream, len: usize) -> String {
    let mut all = vec![0; len];
    stream.read_exact(&mut all).unwrap();
    String::from_utf8(all).unwrap()
}

fn to_the_end(stream: &mut TcpStream) -> String {
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    all
}

fn answer(upstream: &mut TcpStream, content: &str) {
    let len = content.len();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{content}");
    upstream.write_all(answer.as_bytes()).unwrap();
}

/// The status of a response with a Content-Length, and its content.
fn response(client: &mut TcpStream) -> (String, String) {
    let head = head(client);
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().unwrap());
    (head[9..12].to_owned(), bytes(client, length))
}

fn is(client: &mut TcpStream, status: &str, content: &str) {
    let response = response(client);
    assert_eq!((&*response.0, &*response.1), (status, content));
}

#[test]
fn requests_go_over_a_connection_that_is_kept() {
    let world = World::new(1, |_, _| {});
    let mut client = world.client(&ask("GET", "/a?b"));
    let mut upstream = world.accept();
    let asked = head(&mut upstream);
    assert!(
        asked.starts_with("GET /a?b HTTP/1.1\r\nHost: a.test\r\n"),
        "{asked}"
    );
    answer(&mut upstream, "one");
    is(&mut client, "200", "one");
    for method in ["GET", "DELETE"] {
        client.write_all(ask(method, "/b").as_bytes()).unwrap();
        assert!(head(&mut upstream).starts_with(method));
        answer(&mut upstream, "two");
        is(&mut client, "200", "two");
    }
    // HEAD, and what has no content, leave it open, too.
    client.write_all(ask("HEAD", "/c").as_bytes()).unwrap();
    head(&mut upstream);
    upstream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")
        .unwrap();
    assert!(head(&mut client).contains("\r\nContent-Length: 7\r\n"));
    client.write_all(ask("GET", "/d").as_bytes()).unwrap();
    head(&mut upstream);
    upstream.write_all(b"HTTP/1.1 204 None\r\n\r\n").unwrap();
    is(&mut client, "204", "");
    client.write_all(ask("GET", "/e").as_bytes()).unwrap();
    head(&mut upstream);
    answer(&mut upstream, "three");
    is(&mut client, "200", "three");
}

/// Fields behind a chunked body go on behind it, but those that are a head's.
#[test]
fn what_is_behind_a_body_goes_on_in_chunks() {
    let world = World::new(1, |_, _| {});
    let mut client = world.client(
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nhel\r\n2;x\r\nlo\r\n0\r\nA: b\r\nHost: c\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n",
    );
    let mut upstream = world.accept();
    let asked = head(&mut upstream);
    assert!(
        asked.contains("\r\nTransfer-Encoding: chunked\r\n"),
        "{asked}"
    );
    assert!(!asked.contains("Content-Length"), "{asked}");
    let wanted = "5\r\nhello\r\n0\r\nA: b\r\n\r\n";
    assert_eq!(bytes(&mut upstream, wanted.len()), wanted);
    answer(&mut upstream, "one");
    is(&mut client, "200", "one");
}

#[test]
fn a_body_goes_on_with_its_length() {
    let world = World::new(1, |_, _| {});
    let long = "x".repeat(300_000);
    for (framing, sent, content) in [
        ("Content-Length: 5", "hello", "hello"),
        (
            "Transfer-Encoding: chunked",
            "3\r\nhel\r\n2;x\r\nlo\r\n0\r\n\r\n",
            "hello",
        ),
        ("Transfer-Encoding: chunked", "0\r\n\r\n", ""),
        ("Content-Length: 300000", &long, &long),
    ] {
        let request =
            format!("POST /a HTTP/1.1\r\nHost: a\r\n{framing}\r\nConnection: close\r\n\r\n");
        let mut client = world.client(&request);
        let mut sender = client.try_clone().unwrap();
        let sent = sent.to_owned();
        let sending = std::thread::spawn(move || sender.write_all(sent.as_bytes()).unwrap());
        let mut upstream = world.accept();
        let asked = head(&mut upstream);
        let length = format!("\r\nContent-Length: {}\r\n", content.len());
        assert!(asked.contains(&length), "{asked}");
        assert!(!asked.contains("Transfer-Encoding"), "{asked}");
        assert_eq!(bytes(&mut upstream, content.len()), content);
        // An upstream that closes is not asked again.
        upstream
            .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
            .unwrap();
        is(&mut client, "200", "ok");
        sending.join().unwrap();
    }
}

#[test]
fn leave_to_send_a_body_is_given_here() {
    let world = World::new(1, |_, _| {});
    let mut client = world
        .client("POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert!(head(&mut client).starts_with("HTTP/1.1 100 "));
    client.write_all(b"ab").unwrap();
    let mut upstream = world.accept();
    assert!(!head(&mut upstream).contains("Expect"));
    assert_eq!(bytes(&mut upstream, 2), "ab");
    answer(&mut upstream, "x");
    is(&mut client, "200", "x");
}

#[test]
fn answers_are_framed_for_the_client() {
    let world = World::new(1, |_, _| {});
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n";
    let closed = "HTTP/1.0 200 OK\r\n\r\nabcde";
    for (version, said) in [
        ("1.1", chunked),
        ("1.1", closed),
        ("1.0", chunked),
        ("1.0", closed),
    ] {
        let request = format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut client = world.client(&request);
        let mut upstream = world.accept();
        head(&mut upstream);
        upstream.write_all(said.as_bytes()).unwrap();
        drop(upstream);
        let all = to_the_end(&mut client);
        let (head, body) = all.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nConnection: close"), "{head}");
        match version {
            "1.0" => assert_eq!(body, "abcde"),
            _ => assert!(
                body.contains("abc") && body.ends_with("0\r\n\r\n"),
                "{body}"
            ),
        }
        assert_eq!(
            head.contains("\r\nTransfer-Encoding: chunked"),
            version == "1.1"
        );
    }
}

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
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [&gone, &there].map(|it| it.local_addr().unwrap());
    drop(gone);
    let server = serve(addresses.to_vec(), |application, _| application.keep = 0);
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
    let world = World::new(1, |application, _| {
        application.timeout = Duration::from_millis(300);
    });
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
        let mut client = world.client(&ask("GET", "/"));
        let mut upstream = world.accept();
        head(&mut upstream);
        upstream.write_all(said.as_bytes()).unwrap();
        assert_eq!(response(&mut client).0, status, "{said}");
        // Ours is closed.
        assert_eq!(to_the_end(&mut upstream), "");
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

#[test]
fn another_protocol_is_a_tunnel() {
    let world = World::new(1, |_, _| {});
    let upgrade =
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    // A client may be eager.
    let mut client = world.client(&format!("{upgrade}early"));
    let mut upstream = world.accept();
    let asked = head(&mut upstream);
    assert!(
        asked.contains("\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"),
        "{asked}"
    );
    upstream
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
        .unwrap();
    let answered = head(&mut client);
    assert!(
        answered.starts_with("HTTP/1.1 101 Switching Protocols\r\n"),
        "{answered}"
    );
    assert!(
        answered.contains("\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"),
        "{answered}"
    );
    assert!(
        !answered.contains("close") && !answered.contains("Content-Length"),
        "{answered}"
    );
    assert_eq!(bytes(&mut client, 5), "first");
    assert_eq!(bytes(&mut upstream, 5), "early");
    // More than is queued anywhere, both ways at once.
    let long: String = (0..2_000_000u32)
        .map(|n| char::from(b'a' + (n % 26) as u8))
        .collect();
    let send = |mut to: TcpStream, what: String| {
        std::thread::spawn(move || to.write_all(what.as_bytes()).unwrap())
    };
    let there = send(client.try_clone().unwrap(), long.clone());
    let back = send(upstream.try_clone().unwrap(), long.clone());
    let reader = {
        let (mut from, len) = (upstream.try_clone().unwrap(), long.len());
        std::thread::spawn(move || bytes(&mut from, len))
    };
    assert!(bytes(&mut client, long.len()) == long, "what came back");
    assert!(reader.join().unwrap() == long, "what went there");
    there.join().unwrap();
    back.join().unwrap();
    // The client ends its side, and still hears the rest.
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(to_the_end(&mut upstream), "");
    upstream.write_all(b"last").unwrap();
    drop(upstream);
    assert_eq!(to_the_end(&mut client), "last");
}

/// An upstream that does not change the protocol answers as any other, and the connection goes on.
#[test]
fn a_protocol_that_is_refused_leaves_the_connection() {
    let world = World::new(1, |_, _| {});
    let mut client = world
        .client("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut upstream = world.accept();
    head(&mut upstream);
    answer(&mut upstream, "no");
    is(&mut client, "200", "no");
    client.write_all(ask("GET", "/a").as_bytes()).unwrap();
    head(&mut upstream);
    answer(&mut upstream, "yes");
    is(&mut client, "200", "yes");
}

#[test]
fn a_tunnel_in_which_nobody_speaks_ends() {
    let world = World::new(1, |_, proxy| {
        proxy.tunnel_time = Duration::from_millis(200);
    });
    let mut client =
        world.client("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    let mut upstream = world.accept();
    head(&mut upstream);
    upstream
        .write_all(b"HTTP/1.1 101 Yes\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
        .unwrap();
    head(&mut client);
    assert_eq!(to_the_end(&mut client), "");
    assert_eq!(to_the_end(&mut upstream), "");
}

/// A reset of either side is the other's.
#[test]
fn a_tunnel_ends_with_either_side() {
    let world = World::new(1, |_, _| {});
    for client_ends in [false, true] {
        let mut client = world
            .client("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
        let mut upstream = world.accept();
        head(&mut upstream);
        upstream
            .write_all(b"HTTP/1.1 101 Yes\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
            .unwrap();
        head(&mut client);
        let mut left = match client_ends {
            true => {
                drop(client);
                upstream
            }
            false => {
                drop(upstream);
                client
            }
        };
        assert_eq!(left.read(&mut [0; 9]).unwrap_or(0), 0);
    }
}

/// Over HTTP/2 hints are header blocks before that of the answer.
#[test]
fn early_hints_go_on_over_http2() {
    let world = World::new(1, |_, _| {});
    let mut client = FrameClient::new(world.server.connect(), 1 << 20);
    client.send(&request(1, "GET", "/", &[], true));
    let mut upstream = world.accept();
    head(&mut upstream);
    upstream
        .write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        .unwrap();
    client.until(|client| client.responses.contains_key(&1));
    let hints = client.responses[&1].fields.clone();
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(hints, [field(":status", "103"), field("link", "</a>")]);
    answer(&mut upstream, "page");
    client.until(|client| client.responses[&1].is_whole);
    let response = &client.responses[&1];
    assert_eq!(response.fields[2], field(":status", "200"));
    assert_eq!(response.body, b"page");
}

/// The refusal of a tunnel ends its stream, and what comes there before and behind it is no request.
#[test]
fn a_refused_tunnel_ends_its_stream() {
    let world = World::new(1, |application, _| application.keep = 0);
    let mut client = FrameClient::new(world.server.connect(), 1 << 20);
    let other = framed(
        kind::DATA,
        0,
        0,
        b"GET /other HTTP/1.1\r\nHost: a.test\r\n\r\n",
    );
    let on = |stream: u32| [&other[..5], &stream.to_be_bytes(), &other[9..]].concat();
    for (stream, answer, status) in [
        (1, "HTTP/1.1 403 No\r\nContent-Length: 4\r\n\r\nnope", "403"),
        (
            5,
            "HTTP/1.1 200 Yes\r\nContent-Length: 4\r\n\r\nfine",
            "502",
        ),
        (9, "nothing of HTTP\r\n\r\n", "502"),
        (
            13,
            "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
            "502",
        ),
    ] {
        let tunnel = [(":protocol", "websocket")];
        client.send(&request(stream, "CONNECT", "/talk", &tunnel, false));
        client.send(&on(stream));
        let mut upstream = world.accept();
        assert!(head(&mut upstream).starts_with("GET /talk HTTP/1.1\r\n"));
        upstream.write_all(answer.as_bytes()).unwrap();
        client.until(|client| client.responses.get(&stream).is_some_and(|it| it.is_whole));
        client.send(&on(stream));
        // What was on the stream is looked at before what is behind it on the connection.
        client.send(&request(stream + 2, "GET", "/behind", &[], true));
        let mut upstream = world.accept();
        assert!(head(&mut upstream).starts_with("GET /behind HTTP/1.1\r\n"));
        self::answer(&mut upstream, "page");
        client.until(|client| {
            client
                .responses
                .get(&(stream + 2))
                .is_some_and(|it| it.is_whole)
        });
        let response = &client.responses[&stream];
        assert_eq!(
            (response.status().to_string(), response.reset),
            (status.to_owned(), None)
        );
        let statuses = response.fields.iter().filter(|(name, _)| name == ":status");
        assert_eq!(statuses.count(), 1);
    }
}

/// What waits of tunnels for which nobody reads holds nothing up beside them: it fills each stream's window, and not the connection's.
#[test]
fn tunnels_that_nobody_reads_hold_up_no_others() {
    let world = World::new(1, |_, _| {});
    let mut client = FrameClient::new(world.server.connect(), 1 << 20);
    let tunnels = CONNECTION_WINDOW / STREAM_WINDOW + 1;
    let mut open = Vec::new();
    for stream in (0..tunnels).map(|n| 2 * n + 1) {
        let tunnel = [(":protocol", "websocket")];
        client.send(&request(stream, "CONNECT", "/talk", &tunnel, false));
        // Its answer does not come, and until then nobody reads.
        open.push(world.accept());
        client.send_body(stream, &[b'x'; STREAM_WINDOW as usize], false);
    }
    let stream = 2 * tunnels + 1;
    let length = [("content-length", "100000")];
    client.send(&request(stream, "POST", "/page", &length, false));
    client.send_body(stream, &[b'y'; 100_000], true);
    let mut upstream = world.accept();
    assert!(head(&mut upstream).starts_with("POST /page HTTP/1.1\r\n"));
    assert_eq!(bytes(&mut upstream, 100_000), "y".repeat(100_000));
    answer(&mut upstream, "taken");
    client.until(|client| client.responses.get(&stream).is_some_and(|it| it.is_whole));
    assert_eq!(client.responses[&stream].body, b"taken");
}

/// Hints come before the answer, and to clients that know of them.
#[test]
fn early_hints_go_on() {
    let world = World::new(1, |_, _| {});
    for version in ["1.1", "1.0"] {
        let request = format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut client = world.client(&request);
        let mut upstream = world.accept();
        head(&mut upstream);
        upstream
            .write_all(
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
            )
            .unwrap();
        if version == "1.1" {
            assert_eq!(
                head(&mut client),
                "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
            );
        }
        upstream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na")
            .unwrap();
        is(&mut client, "200", "a");
    }
}

/// A host that answers no SYN has its time to do so, and then another is asked, with all of the body.
#[test]
fn an_upstream_that_does_not_answer_a_connection_is_passed_over() {
    use rustix::net::{AddressFamily, SocketType, bind, connect, getsockname, listen, socket};
    let full = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&full, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&full, 0).unwrap();
    let address = SocketAddr::try_from(getsockname(&full).unwrap()).unwrap();
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

/// RFC 9110 §7.8: what bytes would pass both ways is then known to nobody.
#[test]
fn a_protocol_that_nobody_offered_is_refused() {
    let asked =
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket, x\r\n\r\n";
    for (chosen, status) in [
        ("Upgrade: X\r\n", "101"),
        ("Upgrade: other\r\n", "502"),
        ("Upgrade: x, other\r\n", "502"),
        ("", "502"),
    ] {
        let world = World::new(1, |_, _| {});
        let mut client = world.client(asked);
        let mut upstream = world.accept();
        head(&mut upstream);
        let answer = format!("HTTP/1.1 101 Yes\r\nConnection: upgrade\r\n{chosen}\r\n");
        upstream.write_all(answer.as_bytes()).unwrap();
        assert_eq!(&head(&mut client)[9..12], status, "{chosen}");
    }
}

#[test]
fn redirects_to_the_upstream_itself_lead_to_the_rules_path() {
    let world = World::new(1, |_, proxy| proxy.base = Some("/v2".to_owned()));
    let at = world.upstreams[0].local_addr().unwrap();
    for (location, wanted) in [
        (format!("http://{at}/v2/x?y"), "/x?y".to_owned()),
        (
            format!("http://{at}/elsewhere"),
            format!("http://{at}/elsewhere"),
        ),
        (
            "http://other.test/v2/x".to_owned(),
            "http://other.test/v2/x".to_owned(),
        ),
    ] {
        let mut client = world.client(&ask("GET", "/a"));
        let mut upstream = world.accept();
        head(&mut upstream);
        let answer = format!(
            "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: {location}\r\n\r\n"
        );
        upstream.write_all(answer.as_bytes()).unwrap();
        let answered = head(&mut client);
        assert!(
            answered.contains(&format!("Location: {wanted}\r\n")),
            "{answered}"
        );
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
