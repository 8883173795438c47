//! Bodies of requests of HTTP/3 on their way to an upstream, and the codes with which streams end.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use exos_cheetah::Site;
use exos_cheetah::applications::proxy::Proxy;
use exos_cheetah::applications::proxy::setting::{SetField, Value};
use exos_cheetah::applications::rules::{Rule, Scope};
use exos_cheetah::applications::upload::Chunked;
use exos_cheetah::applications::{Address, Application, Place, Rules};
use exos_cheetah::limits::CHUNKED_BODY_LEN_MAX;
use exos_cheetah::site::Settings;
use exos_http3::ErrorCode;
use exos_http3::frame::kind;
use quinn_proto::StreamId;

use super::http3::{TIME, connected, content, have_ended};
use crate::common::quic::{Response, World, framed, request};

/// A server of HTTP/3 with an upstream for all below `/up`, and a client.
struct Passing {
    world: World,
    listener: UnixListener,
    upstream: Option<UnixStream>,
    /// What has come there.
    came: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl Passing {
    fn new(body_max: u64) -> Passing {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut application = Application::at(Address::Http(Place::Unix(path.as_path().into())));
        application.proxy = Some(Proxy {
            set: vec![SetField {
                name: "X-Of".to_owned(),
                values: vec![Value::parse("{scheme}, {client_address}").unwrap()],
            }],
            ..Proxy::default()
        });
        application.body_max = body_max;
        let site = Site::with(Arc::new(Settings {
            applications: Rules::new(vec![Rule {
                scope: Scope::path("/up").unwrap(),
                application: Arc::new(application),
            }]),
            ..Settings::default()
        }));
        let mut world = World::new(1, site);
        connected(&mut world);
        Passing {
            world,
            listener,
            upstream: None,
            came: Vec::new(),
            _folder: folder,
        }
    }

    /// Goes on until that holds of what has come to the upstream, or of the world.
    fn until(&mut self, holds: impl Fn(&[u8], &World) -> bool) {
        for _ in 0..TIME.as_millis() {
            if self.upstream.is_none() {
                self.upstream = self.listener.accept().ok().map(|it| it.0);
            }
            if let Some(upstream) = &mut self.upstream {
                upstream.set_nonblocking(true).unwrap();
                let _ = upstream.read_to_end(&mut self.came);
            }
            if holds(&self.came, &self.world) {
                return;
            }
            self.world.run_until(Duration::from_millis(1), |_| false);
        }
        panic!("it does not come to that");
    }

    /// The upstream says this.
    fn say(&mut self, text: &str) {
        let upstream = self.upstream.as_mut().unwrap();
        upstream.write_all(text.as_bytes()).unwrap();
    }

    fn response(&self, stream: StreamId) -> &Response {
        &self.world.clients[0].responses[&stream]
    }
}

fn data(len: usize) -> Vec<u8> {
    framed(kind::DATA, &vec![b'x'; len])
}

/// RFC 9114 §4.1: a body without a length flows to an upstream, in chunks.
#[test]
fn a_long_body_flows() {
    let mut passing = Passing::new(8 << 20);
    let body = content(3_000_000);
    let mut upload = request("POST", "/up", &[("x-of", "nobody")]);
    for part in body.chunks(50_000) {
        upload.extend(framed(kind::DATA, part));
    }
    let stream = passing.world.clients[0].send(upload, true);
    passing.until(|came, _| came.ends_with(b"\r\n0\r\n\r\n"));
    let came = &passing.came;
    let at = came.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&came[..at]);
    assert!(
        head.contains("\r\nTransfer-Encoding: chunked\r\n"),
        "{head}"
    );
    // What a rule sets is there by HTTP/3 too, and nothing else of that name.
    assert!(head.contains("\r\nX-Of: https, 10.0.1.2\r\n"), "{head}");
    assert!(!head.contains("nobody"), "{head}");
    let mut read = Chunked::new(1 << 30);
    assert_eq!(read.take(&came[at..], usize::MAX), Ok(came.len() - at));
    assert!(read.is_over() && read.content == body);
    passing.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    passing.until(|_, world| have_ended(world));
    let response = passing.response(stream);
    assert_eq!((&*response.status, &response.body[..]), ("200", &b"ok"[..]));
}

/// RFC 9114 §4.1: a body that is too long is answered whole, and the rest of it stopped by an error that is none: where its length says so,
/// where it is found while the body is collected, and where the upstream has been asked already.
#[test]
fn a_body_that_is_too_long_is_answered_and_stopped() {
    let most = CHUNKED_BODY_LEN_MAX as usize;
    for (body_max, length, first) in [
        (1000, Some("1001"), 0),
        (1000, None, 1001),
        (most + 5000, None, most + 1000),
    ] {
        let mut passing = Passing::new(body_max as u64);
        let length: Vec<(&str, &str)> = length
            .map(|it| ("content-length", it))
            .into_iter()
            .collect();
        let mut upload = request("POST", "/up", &length);
        upload.extend(data(first));
        let client = &mut passing.world.clients[0];
        let stream = client.send(upload, false);
        if first > most {
            passing.until(|came, _| came.len() > most);
            passing.world.clients[0].send_more(stream, data(5000), false);
        }
        passing.until(|_, world| {
            let response = &world.clients[0].responses[&stream];
            response.ended.is_some() && response.stopped.is_some()
        });
        let response = passing.response(stream);
        assert_eq!((&*response.status, response.ended), ("413", Some(Ok(()))));
        let length = response.field("content-length").unwrap().parse();
        assert_eq!(length, Ok(response.body.len()));
        assert_eq!(response.stopped, Some(ErrorCode::NO_ERROR.0.into()));
        assert!(!passing.came.ends_with(b"0\r\n\r\n"));
        assert_eq!(passing.world.clients[0].closed, None);
    }
}

/// RFC 9114 §4.1.1: where the answer has begun, its client can be told no status any more; nothing went wrong here.
#[test]
fn a_body_that_is_too_long_behind_the_answers_begin_is_cancelled() {
    let most = CHUNKED_BODY_LEN_MAX as usize + 1000;
    let mut passing = Passing::new(most as u64);
    let mut upload = request("POST", "/up", &[]);
    upload.extend(data(most));
    let stream = passing.world.clients[0].send(upload, false);
    passing.until(|came, _| came.len() > most);
    passing.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
    passing.until(|_, world| world.clients[0].responses[&stream].body == b"ab");
    passing.world.clients[0].send_more(stream, data(1), false);
    passing.until(|_, world| have_ended(world));
    let code = u64::from(ErrorCode::REQUEST_CANCELLED.0);
    assert_eq!(passing.response(stream).ended, Some(Err(code)));
}

/// An upstream that ends in the middle of its answer is a failure on this side.
#[test]
fn an_answer_that_breaks_off_is_this_sides_error() {
    let mut passing = Passing::new(1000);
    let stream = passing.world.clients[0].ask("GET", "/up", &[]);
    passing.until(|came, _| came.ends_with(b"\r\n\r\n"));
    passing.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
    passing.until(|_, world| world.clients[0].responses[&stream].body == b"ab");
    passing.upstream = None;
    passing.world.run_until(TIME, have_ended);
    let code = u64::from(ErrorCode::INTERNAL_ERROR.0);
    assert_eq!(passing.response(stream).ended, Some(Err(code)));
}

/// RFC 9114 §4.1.1: a server that ends says of which requests nothing was done, and which it gives up.
#[test]
fn requests_that_a_server_gives_up_say_whether_anything_was_done() {
    let mut passing = Passing::new(1000);
    let client = &mut passing.world.clients[0];
    let mut begun = request("POST", "/up", &[("content-length", "10")]);
    begun.extend(data(1));
    let untouched = client.send(begun, false);
    let asked = client.ask("GET", "/up", &[]);
    passing.until(|came, _| came.ends_with(b"\r\n\r\n"));
    passing.world.stop();
    passing.world.give_up();
    passing.until(|_, world| have_ended(world));
    for (stream, code) in [
        (untouched, ErrorCode::REQUEST_REJECTED),
        (asked, ErrorCode::REQUEST_CANCELLED),
    ] {
        assert_eq!(passing.response(stream).ended, Some(Err(code.0.into())));
    }
}
