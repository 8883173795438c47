//! A browser's visit over the simulator's worst wire: the page, its style and all its images, by
//! several connections at once, byte for byte, whatever the wire does to the packets.
//!
//! Seeds are tried one after the other; a failing one is named. `EXOS_SEEDS` multiplies how
//! many.

use std::time::Duration;

use exos_buf::Buffer;
use exos_cheetah::serve::Cheetah;
use exos_cheetah::{Server, Site};
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_sim::random::Seed;
use exos_sim::sim::mac;
use exos_sim::wire::{Conditions, Wire};

const BROWSER: usize = 0;
const SERVER: usize = 1;
/// As browsers have them to one server.
const CONNECTIONS: usize = 6;

/// One connection of the browser: the requests it has to make, one at a time.
struct Fetch {
    id: ConnectionId,
    paths: Vec<String>,
    received: Vec<u8>,
    bodies: Vec<(String, Vec<u8>)>,
    /// When something last came.
    heard: Instant,
}

impl Fetch {
    fn is_done(&self) -> bool {
        self.bodies.len() == self.paths.len()
    }
}

/// A browser gives a silent connection up after some time, and tries another.
const PATIENCE: Duration = Duration::from_secs(120);

struct Visit {
    now: Instant,
    wire: Wire,
    stacks: [Stack; 2],
    cheetah: Cheetah,
    fetches: Vec<Fetch>,
}

impl Visit {
    fn new(seed: u64, conditions: Conditions, site: Site) -> Self {
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

    fn fetch(&mut self, paths: Vec<String>) {
        let id = self.connect();
        self.fetches.push(Fetch {
            id,
            paths,
            received: Vec::new(),
            bodies: Vec::new(),
            heard: self.now,
        });
        self.ask(self.fetches.len() - 1);
    }

    fn connect(&mut self) -> ConnectionId {
        let server = "10.0.0.2:80".parse().unwrap();
        self.stacks[BROWSER]
            .tcp_connect(self.now, None, server, &Options::default())
            .unwrap()
    }

    /// The connection is no good any more (the server may close one that is silent for long, and its
    /// reset may be lost): what is missing is asked for on another.
    fn retry(&mut self, n: usize) {
        self.stacks[BROWSER].tcp_abort(self.fetches[n].id);
        let id = self.connect();
        let fetch = &mut self.fetches[n];
        (fetch.id, fetch.heard) = (id, self.now);
        fetch.received.clear();
        self.ask(n);
    }

    fn ask(&mut self, n: usize) {
        let fetch = &mut self.fetches[n];
        let Some(path) = fetch.paths.get(fetch.bodies.len()) else {
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
            while let Some(body) = whole_response(&mut self.fetches[n].received) {
                let path = self.fetches[n].paths[self.fetches[n].bodies.len()].clone();
                self.fetches[n].bodies.push((path, body));
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
    fn run(&mut self) -> bool {
        while self.now < Instant::from_millis(4 * 3600 * 1000) {
            while let Some(arrival) = self.wire.poll_arrival(self.now) {
                self.stacks[1 - arrival.from].handle_frame(
                    self.now,
                    &arrival.frame,
                    RxChecksum::Unknown,
                );
            }
            self.browse();
            self.cheetah.handle(self.now, 0, &mut self.stacks[SERVER]);
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

/// Take a whole response off the front of `bytes` and give its body; it must be a 200.
fn whole_response(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
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
    let rest = bytes.split_off(whole);
    Some(std::mem::replace(bytes, rest).split_off(head_len))
}

/// The documents of the mosaic page, as the site has them.
fn documents(site: &Site) -> Vec<(String, Vec<u8>)> {
    let tiles = (0..6).flat_map(|y| (0..8).map(move |x| format!("/tiles/{y}{x}.png")));
    let paths = ["/mosaic.html", "/style.css", "/savanna.png"]
        .map(str::to_owned)
        .into_iter()
        .chain(tiles);
    let body = |path: &String| {
        site.find(path.as_bytes())
            .and_then(|e| e.document())
            .map(|d| d.body().as_bytes().to_vec())
    };
    paths
        .filter_map(|path| body(&path).map(|bytes| (path, bytes)))
        .collect()
}

/// One visit; gives how many segments the server had to send again.
fn visit(seed: u64, conditions: Conditions) -> u64 {
    let site = Site::example();
    let wanted = documents(&site);
    assert!(wanted.len() >= 48, "the example site has its images");
    let mut visit = Visit::new(seed, conditions, site);
    for n in 0..CONNECTIONS {
        visit.fetch(
            wanted
                .iter()
                .skip(n)
                .step_by(CONNECTIONS)
                .map(|d| d.0.clone())
                .collect(),
        );
    }
    assert!(visit.run(), "seed {seed}: not done after four hours");
    let again = visit.stacks[SERVER].counters().tcp_segments_retransmitted;
    let mut got: Vec<_> = visit.fetches.into_iter().flat_map(|f| f.bodies).collect();
    let mut wanted = wanted;
    got.sort();
    wanted.sort();
    assert!(
        got == wanted,
        "seed {seed}: a document is not as the site has it"
    );
    again
}

#[test]
fn a_page_with_all_its_images_over_the_worst_wire() {
    let factor: u64 = std::env::var("EXOS_SEEDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    let seeds = 300 * factor;
    let again: u64 = (0..seeds).map(|seed| visit(seed, Conditions::WORST)).sum();
    assert!(
        again > 10 * seeds,
        "the wire is not as bad as it should be: {again} segments sent again"
    );
}

#[test]
fn a_page_over_a_perfect_wire_takes_no_retransmission() {
    let site = Site::example();
    let wanted = documents(&site);
    let mut visit = Visit::new(1, Conditions::PERFECT, site);
    visit.fetch(wanted.iter().map(|d| d.0.clone()).collect());
    assert!(visit.run());
    assert_eq!(
        visit.stacks[SERVER].counters().tcp_segments_retransmitted,
        0
    );
    assert_eq!(
        visit.cheetah.server().counters().response_count(),
        wanted.len() as u64
    );
    // The acknowledgement of a request rides on the response: the server sends nothing that carries no data
    // but its side of opening (one SYN-ACK, one ARP answer, its announcement and its question).
    let sent = visit.stacks[SERVER].counters();
    let data: u64 = wanted
        .iter()
        .map(|d| (d.1.len() as u64 + 330).div_ceil(1448))
        .sum();
    assert!(
        sent.tcp_segments_sent <= data + 2,
        "{} segments for {data} of data",
        sent.tcp_segments_sent
    );
}
