//! A browser before the simulator's wire: several connections to one server, each with a list of
//! documents to fetch, in virtual time.

use std::time::Duration;

use exos_buf::Buffer;
use exos_cheetah::connections::{Cheetah, Packets};
use exos_cheetah::{Server, Site};
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_sim::random::Seed;
use exos_sim::sim::mac;
use exos_sim::wire::{Conditions, Wire};

const BROWSER: usize = 0;
/// The server's end of the wire, and its stack.
pub const SERVER: usize = 1;
/// As browsers have them to one server.
pub const CONNECTIONS: usize = 6;

/// A whole response, a 200.
pub struct Response {
    pub path: String,
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header field.
    pub fn field(&self, name: &str) -> &str {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut named = fields.filter(|(known, _)| *known == name);
        named.next().expect("the field is there").1
    }
}

/// One connection of the browser: the requests it has to make, one at a time.
pub struct Fetch {
    id: ConnectionId,
    paths: Vec<String>,
    received: Vec<u8>,
    pub responses: Vec<Response>,
    /// When something last came.
    heard: Instant,
}

impl Fetch {
    fn is_done(&self) -> bool {
        self.responses.len() == self.paths.len()
    }
}

/// A browser gives a silent connection up after some time, and tries another.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Visit {
    now: Instant,
    wire: Wire,
    pub stacks: [Stack; 2],
    pub cheetah: Cheetah,
    pub fetches: Vec<Fetch>,
}

impl Visit {
    /// Nothing is asked for yet.
    pub fn new(seed: u64, conditions: Conditions, site: Site) -> Self {
        let mut wire = Wire::new(Seed(seed), 2);
        wire.set_conditions(conditions);
        let now = Instant::from_millis(1);
        let stack = |end: usize| {
            let mut config = Config::new(mac(end), 1500);
            config.addresses = vec![(["10.0.0.1", "10.0.0.2"][end].parse().unwrap(), 24)];
            Stack::new(config, seed + end as u64, now).unwrap()
        };
        let mut stacks = [stack(BROWSER), stack(SERVER)];
        stacks[SERVER]
            .tcp
            .listen(None, 80, ListenOptions::default())
            .unwrap();
        let cheetah = Cheetah::new(Server::new(site, 0), now);
        Self {
            now,
            wire,
            stacks,
            cheetah,
            fetches: Vec::new(),
        }
    }

    /// Asks for documents on a connection of their own, one after the other.
    pub fn fetch(&mut self, paths: Vec<String>) {
        let id = self.connect();
        self.fetches.push(Fetch {
            id,
            paths,
            received: Vec::new(),
            responses: Vec::new(),
            heard: self.now,
        });
        self.ask(self.fetches.len() - 1);
    }

    fn connect(&mut self) -> ConnectionId {
        let server = "10.0.0.2:80".parse().unwrap();
        self.stacks[BROWSER]
            .tcp
            .connect(self.now, None, server, &Options::default())
            .unwrap()
    }

    /// The connection is no good any more (the server may close one that is silent for long, and its
    /// reset may be lost): what is missing is asked for on another.
    fn retry(&mut self, n: usize) {
        self.stacks[BROWSER].tcp.abort(self.fetches[n].id);
        let id = self.connect();
        let fetch = &mut self.fetches[n];
        (fetch.id, fetch.heard) = (id, self.now);
        fetch.received.clear();
        self.ask(n);
    }

    fn ask(&mut self, n: usize) {
        let fetch = &mut self.fetches[n];
        let Some(path) = fetch.paths.get(fetch.responses.len()) else {
            self.stacks[BROWSER].tcp.finish(fetch.id);
            return;
        };
        let request = format!("GET {path} HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n");
        self.stacks[BROWSER]
            .tcp
            .send(fetch.id, Buffer::from(request.into_bytes()).into());
    }

    /// The browser reads: whole responses are taken off and the next request is made.
    fn browse(&mut self) {
        while let Some(event) = self.stacks[BROWSER].poll_event() {
            // One that was given up has nothing more to say.
            let Some(n) = self.fetches.iter().position(|f| f.id == event.connection) else {
                continue;
            };
            let bytes = self.stacks[BROWSER].tcp.readable(event.connection).to_vec();
            self.stacks[BROWSER]
                .tcp
                .consume(event.connection, bytes.len());
            self.fetches[n].received.extend(bytes);
            self.fetches[n].heard = self.now;
            while let Some((head, body)) = whole_response(&mut self.fetches[n].received) {
                let fetch = &mut self.fetches[n];
                let path = fetch.paths[fetch.responses.len()].clone();
                fetch.responses.push(Response { path, head, body });
                self.ask(n);
            }
            let over =
                event.set.contains(EventSet::FINISHED) || event.set.contains(EventSet::CLOSED);
            if over && !self.fetches[n].is_done() {
                self.retry(n);
            }
        }
        for n in 0..self.fetches.len() {
            if !self.fetches[n].is_done() && self.now - self.fetches[n].heard >= PATIENCE {
                self.retry(n);
            }
        }
    }

    /// Run until every fetch is done; false when virtual hours did not suffice.
    pub fn run(&mut self) -> bool {
        self.run_beside(|_| {})
    }

    /// Run until every fetch is done, while `happens` is called on the server between its turns.
    pub fn run_beside(&mut self, mut happens: impl FnMut(&mut Server)) -> bool {
        while self.now < Instant::from_millis(4 * 3600 * 1000) {
            while let Some(arrival) = self.wire.poll_arrival(self.now) {
                self.stacks[1 - arrival.from].handle_frame(
                    self.now,
                    &arrival.frame,
                    RxChecksum::Unknown,
                );
            }
            self.browse();
            happens(self.cheetah.server_mut());
            let mut packets = Packets::new(&mut self.stacks[SERVER]);
            self.cheetah.handle(self.now, 0, &mut packets);
            for end in [BROWSER, SERVER] {
                self.stacks[end].handle_timeout(self.now);
                while let Some(t) = self.stacks[end].poll_transmit(self.now) {
                    let frame = [&[t.head], t.body.parts()].concat().concat();
                    self.wire.send(self.now, end, frame);
                }
            }
            if self.fetches.iter().all(Fetch::is_done) {
                return true;
            }
            let timeouts = [BROWSER, SERVER].map(|end| self.stacks[end].poll_timeout(self.now));
            // A browser whose server's reset was lost hears nothing more: its patience ends.
            let waiting = self.fetches.iter().filter(|f| !f.is_done());
            let impatient = waiting.map(|f| f.heard + PATIENCE);
            let next = timeouts
                .into_iter()
                .flatten()
                .chain(self.wire.next_arrival())
                .chain(self.cheetah.poll_timeout())
                .chain(impatient);
            // A deadline may be early; time goes on all the same.
            self.now = next
                .min()
                .expect("something is always due")
                .max(self.now + Duration::from_micros(100));
        }
        false
    }
}

/// Take a whole response off the front of `bytes` and give its head and body; it must be a 200.
fn whole_response(bytes: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let head_len = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..head_len]).expect("an ASCII head");
    if head.starts_with("HTTP/1.1 408 ") {
        // The request did not come through in time; the server closes behind this.
        bytes.clear();
        return None;
    }
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .expect("a length");
    let whole = head_len + length.parse::<usize>().unwrap();
    if bytes.len() < whole {
        return None;
    }
    let head = head.to_owned();
    let rest = bytes.split_off(whole);
    let body = std::mem::replace(bytes, rest).split_off(head_len);
    Some((head, body))
}
