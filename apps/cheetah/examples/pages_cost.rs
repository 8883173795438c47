//! Counts the instructions that the server takes for pages that an application makes, or another server: two stacks in one process and no
//! wire; the application is the same thread, over the kernel's sockets or buffers that both share. Each of 64 clients asks for a page of
//! 1 KB, and again when it has come.
//!
//! ```text
//! cargo build --release -p exos-cheetah --example pages_cost
//! valgrind --tool=callgrind --toggle-collect='*counted_turn*' target/release/examples/pages_cost proxy 20000
//! ```
//!
//! In place of `proxy`: `fastcgi`, `own` (a connection of FastCGI for each request), `shared`, or `document` for what a document of the
//! server's own costs. The collected instructions, divided by the requests, are those of a request.

mod ends;

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant as Clock;

use ends::{Ends, UNIX_SECS};
use exos_application as shared;
use exos_buf::Buffer;
use exos_cheetah::Site;
use exos_cheetah::applications::proxy::Proxy;
use exos_cheetah::applications::rules::{Rule, Scope};
use exos_cheetah::applications::{Address, Application, Place, Rules};
use exos_cheetah::site::{Description, Document, Settings};
use exos_inet::tcp::{ConnectionId, EventSet, Options};
use exos_iolite::{Aggregate, Shape};

const CLIENTS: usize = 64;
/// Requests before those that are counted.
const FIRST: usize = 1000;
const PAGE: [u8; 1024] = [b'a'; 1024];
const REQUEST: &[u8] = b"GET /page.html HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n";

/// What answers.
enum Answerer {
    /// The server itself.
    Nobody,
    /// At this socket, with these bytes, when a request ends so.
    Sockets {
        listener: UnixListener,
        open: Vec<UnixStream>,
        answer: Vec<u8>,
        end: &'static [u8],
        keeps: bool,
    },
    /// Over shared buffers.
    Shared(Box<shared::Application>, Aggregate),
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0][..], content].concat()
}

impl Answerer {
    fn of(how: &str, path: &Path) -> Answerer {
        let _ = std::fs::remove_file(path);
        if how == "document" {
            return Answerer::Nobody;
        }
        if how == "shared" {
            let application = shared::Application::listen(path, Shape::of(1024));
            let application = application.expect("memory, and a socket");
            let page = application.pool().copy(&PAGE).expect("a fresh pool");
            return Answerer::Shared(Box::new(application), page);
        }
        let head = "Content-Type: text/html\r\nContent-Length: 1024\r\n\r\n";
        let page = [head.as_bytes(), &PAGE].concat();
        let (answer, end) = match how {
            "proxy" => (
                [b"HTTP/1.1 200 OK\r\n", &page[..]].concat(),
                &b"\r\n\r\n"[..],
            ),
            _ => (
                [record(6, &page), record(6, b""), record(3, &[0; 8])].concat(),
                &[1, 5, 0, 1, 0, 0, 0, 0][..],
            ),
        };
        let listener = UnixListener::bind(path).expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        Answerer::Sockets {
            listener,
            open: Vec::new(),
            answer,
            end,
            keeps: how != "own",
        }
    }

    /// It answers all that was asked.
    fn turn(&mut self) {
        match self {
            Answerer::Nobody => {}
            Answerer::Sockets {
                listener,
                open,
                answer,
                end,
                keeps,
            } => {
                while let Ok((made, _)) = listener.accept() {
                    made.set_nonblocking(true).expect("a socket");
                    open.push(made);
                }
                let mut part = [0; 4096];
                open.retain_mut(|it| match it.read(&mut part) {
                    Ok(0) => false,
                    Ok(count) => {
                        assert!(part[..count].ends_with(end), "a request, whole");
                        it.write_all(answer).expect("the server reads");
                        *keeps
                    }
                    Err(_) => true,
                });
            }
            Answerer::Shared(application, page) => {
                while let Some(event) = application
                    .wait(Some(Default::default()))
                    .expect("a socket")
                {
                    if let shared::Event::Request(id) = event {
                        let head = shared::Head::new(200).field("Content-Type", "text/html");
                        application.answer(id, shared::Answer::new(head).kept(page.clone()));
                    }
                }
            }
        }
    }
}

/// A site of which everything is asked there.
fn site(how: &str, path: &Path) -> Site {
    let place = || Place::Unix(path.into());
    let address = match how {
        "document" => {
            let mut site = Site::new();
            let description = Description::plain("text/html", UNIX_SECS);
            site.insert(b"/page.html", Document::new(&PAGE, &description));
            return site;
        }
        "proxy" => Address::Http(place()),
        "shared" => Address::Shared(path.into()),
        "fastcgi" | "own" => Address::Fastcgi(place()),
        _ => panic!("not {how}; write proxy, fastcgi, own, shared or document"),
    };
    let application = Application {
        keep: if how == "own" { 0 } else { CLIENTS },
        connections: 4 * CLIENTS,
        proxy: (how == "proxy").then(Proxy::default),
        ..Application::at(address)
    };
    Site::with(Arc::new(Settings {
        applications: Rules::new(vec![Rule {
            scope: Scope::path("/*").expect("a scope"),
            application: Arc::new(application),
        }]),
        ..Settings::default()
    }))
}

struct World {
    ends: Ends,
    answerer: Answerer,
    done: usize,
}

impl World {
    fn new(how: &str, path: &Path) -> World {
        let mut ends = Ends::new(site(how, path));
        for _ in 0..CLIENTS {
            ends.connect(&Options::with_receive_buffer(1 << 16));
        }
        World {
            ends,
            answerer: Answerer::of(how, path),
            done: 0,
        }
    }

    fn ask(&mut self, client: ConnectionId) {
        let request = Buffer::from_static(REQUEST);
        self.ends.client.tcp.send(client, request.into());
    }

    /// Each client takes what has come, and asks when it has a page.
    fn turn(&mut self) {
        self.ends.receive();
        while let Some(event) = self.ends.client.poll_event() {
            let client = event.connection;
            if event.set.contains(EventSet::CONNECTED) {
                self.ask(client);
            }
            let bytes = self.ends.client.tcp.readable(client);
            if bytes.ends_with(&PAGE) {
                assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n"));
                let count = bytes.len();
                self.ends.client.tcp.consume(client, count);
                self.done += 1;
                self.ask(client);
            }
        }
        self.ends.send();
    }

    fn run(&mut self, most: usize, server_turn: fn(&mut Ends)) {
        while self.done < most {
            self.turn();
            server_turn(&mut self.ends);
            self.answerer.turn();
        }
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let how = words.next().unwrap_or_else(|| "proxy".to_owned());
    let count = words
        .next()
        .map_or(20_000, |it| it.parse().expect("a number"));
    let path: PathBuf = std::env::temp_dir().join(format!("exos-pages-{}", std::process::id()));
    let mut world = World::new(&how, &path);
    world.run(FIRST, Ends::server_turn);
    let (clock, done) = (Clock::now(), world.done);
    world.run(done + count, Ends::counted_turn);
    let nanos = clock.elapsed().as_nanos() as f64 / (world.done - done) as f64;
    let _ = std::fs::remove_file(&path);
    println!(
        "{} requests, {nanos:.0} ns each with their client and what answers",
        world.done - done
    );
}
