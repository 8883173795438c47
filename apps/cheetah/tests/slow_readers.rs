//! Clients that take their time: a response is not cut off while the client goes on taking it,
//! whoever is to close the connection, and a stop lets it end.

use std::net::IpAddr;
use std::time::Duration;

use exos_buf::Buffer;
use exos_cheetah::serve::Cheetah;
use exos_cheetah::site::{Description, Document};
use exos_cheetah::{Server, Site};
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;

const DOCUMENT_LEN: usize = 3_000_000;

/// A client's stack, the server's, and a wire without faults.
struct Visit {
    now: Instant,
    client: Stack,
    server: Stack,
    cheetah: Cheetah,
    id: ConnectionId,
    read: usize,
    over: Option<EventSet>,
}

impl Visit {
    fn new(request: &str) -> Self {
        let now = Instant::from_millis(1);
        let stack = |n: u8, ip: &str| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n]), 1500);
            config.addresses = vec![(ip.parse::<IpAddr>().unwrap(), 24)];
            Stack::new(config, u64::from(n), now).unwrap()
        };
        let (mut client, mut server) = (stack(1, "10.0.0.1"), stack(2, "10.0.0.2"));
        server
            .tcp
            .listen(None, 80, ListenOptions::default())
            .unwrap();
        let mut site = Site::new();
        site.insert(
            b"/big",
            Document::new(&vec![7; DOCUMENT_LEN], &Description::plain("image/png", 0)),
        );
        let id = client
            .tcp_connect(
                now,
                None,
                "10.0.0.2:80".parse().unwrap(),
                &Options::default(),
            )
            .unwrap();
        client
            .tcp
            .send(id, Buffer::from(request.as_bytes().to_vec()).into());
        Self {
            now,
            client,
            server,
            cheetah: Cheetah::new(Server::new(site, 0), now),
            id,
            read: 0,
            over: None,
        }
    }

    fn carry(from: &mut Stack, to: &mut Stack, now: Instant) -> bool {
        from.handle_timeout(now);
        let mut moved = false;
        while let Some(t) = from.poll_transmit(now) {
            let frame = [&[t.head], t.body.parts()].concat().concat();
            to.handle_frame(now, &frame, RxChecksum::Unknown);
            moved = true;
        }
        moved
    }

    /// Let `time` pass, the client reading up to `bytes` each second.
    fn run(&mut self, time: Duration, bytes: usize) {
        let end = self.now + time;
        while self.now < end {
            let mut moved = true;
            while moved {
                self.cheetah.handle(self.now, 0, &mut self.server);
                moved = Self::carry(&mut self.server, &mut self.client, self.now);
                moved |= Self::carry(&mut self.client, &mut self.server, self.now);
                self.now += Duration::from_micros(100);
            }
            while let Some(event) = self.client.poll_event() {
                if event.set.contains(EventSet::CLOSED) {
                    self.over = Some(event.set);
                }
            }
            if self.now.micros() % 1_000_000 < 10_000 {
                let count = self.client.tcp.readable(self.id).len().min(bytes);
                self.client.tcp.consume(self.id, count);
                self.read += count;
            }
            self.now = Instant::from_millis((self.now.millis() / 10 + 1) * 10);
        }
    }
}

/// 3 MB at 50 kB a second take a minute, twice the time for lingering.
#[test]
fn a_slow_download_that_ends_with_the_connection_is_not_cut_off() {
    let mut visit = Visit::new("GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    visit.run(Duration::from_secs(55), 50_000);
    assert_eq!(visit.over, None, "cut off after {} bytes", visit.read);
    visit.run(Duration::from_secs(15), 50_000);
    assert!(visit.read > DOCUMENT_LEN, "{} bytes", visit.read);
}

/// A client that says at once that it will ask for nothing more is served like others.
#[test]
fn a_slow_download_of_a_half_closed_client_is_not_cut_off() {
    let mut visit = Visit::new("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    visit.client.tcp.finish(visit.id);
    visit.run(Duration::from_secs(45), 50_000);
    assert_eq!(visit.over, None, "cut off after {} bytes", visit.read);
}

/// A client that takes nothing at all is given up, whoever is to close.
#[test]
fn a_client_that_takes_nothing_is_given_up() {
    for close in ["", "Connection: close\r\n"] {
        let mut visit = Visit::new(&format!("GET /big HTTP/1.1\r\nHost: a\r\n{close}\r\n"));
        visit.run(Duration::from_secs(70), 0);
        assert_eq!(visit.cheetah.connections(), 0);
    }
}

#[test]
fn a_stop_waits_for_responses_that_end_with_the_connection() {
    let mut visit = Visit::new("GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    visit.run(Duration::from_secs(2), 50_000);
    visit.cheetah.stop(visit.now, &mut visit.server);
    assert!(visit.cheetah.is_busy(), "a response is under way");
}

/// A request that begins behind an answered one has a request's time, not an idle connection's.
#[test]
fn a_half_begun_next_request_is_answered_with_408_in_its_time() {
    let mut visit = Visit::new("GET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /ne");
    visit.run(Duration::from_secs(15), 0);
    let counters = visit.cheetah.server().counters();
    assert_eq!(counters.responses(exos_cheetah::Status::RequestTimeout), 0);
    assert_eq!(counters.responses(exos_cheetah::Status::NotFound), 1);
    visit.run(Duration::from_secs(10), 0);
    let counters = visit.cheetah.server().counters();
    assert_eq!(counters.responses(exos_cheetah::Status::RequestTimeout), 1);
}
