//! Requests that upstreams answer, behind the server on the kernel's sockets; the upstreams are the test.

mod failing;
mod long_bodies;
mod requests;
mod tunnels;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use exos_cheetah::Site;
use exos_cheetah::applications::proxy::Proxy;
use exos_cheetah::applications::rules::{Rule, Scope};
use exos_cheetah::applications::{Address, Application, Place, Rules};
use exos_cheetah::connections::Bounds;
use exos_cheetah::site::Settings;

use super::sockets::Running;

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

fn line(stream: &mut TcpStream) -> String {
    let mut all = String::new();
    while !all.ends_with("\r\n") {
        all.push_str(&bytes(stream, 1));
    }
    all
}

/// Reads a chunk; of the last one, which is empty, its first line alone.
fn chunk(stream: &mut TcpStream) -> String {
    let len = line(stream);
    let len = usize::from_str_radix(len.trim_end(), 16).unwrap();
    let content = bytes(stream, len);
    if len > 0 {
        assert_eq!(line(stream), "\r\n");
    }
    content
}

/// Reads chunks until there is this much of content, and no more.
fn chunks_of(stream: &mut TcpStream, len: usize) -> String {
    let mut content = String::new();
    while content.len() < len {
        let part = chunk(stream);
        assert!(!part.is_empty(), "{} of {len} bytes", content.len());
        content.push_str(&part);
    }
    assert_eq!(content.len(), len);
    content
}

/// Reads a body in chunks: its content, and the lines behind it.
fn chunks(stream: &mut TcpStream) -> (String, String) {
    let mut content = String::new();
    loop {
        let part = chunk(stream);
        if part.is_empty() {
            break;
        }
        content.push_str(&part);
    }
    let mut behind = String::new();
    loop {
        match &*line(stream) {
            "\r\n" => return (content, behind),
            field => behind.push_str(field),
        }
    }
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
