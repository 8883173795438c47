//! Clients that take their time: a response is not cut off while the client goes on taking it,
//! anyone who is to close the connection, and a stop lets it end.

use crate::common::visit;

use std::time::Duration;

use visit::Visit;

const DOCUMENT_LEN: usize = 3_000_000;

/// A client of a site with a long document, which asks once.
struct Client(Visit);

impl Client {
    fn new(request: &str) -> Self {
        let mut visit = Visit::new(visit::big(DOCUMENT_LEN), |_| ());
        visit.ask("10.0.0.1", request.as_bytes());
        Self(visit)
    }

    /// What it has after this many seconds more at a rate, in bytes a second.
    fn read(&mut self, secs: u64, rate: usize) -> usize {
        self.0.run(Duration::from_secs(secs), rate);
        self.0.connections[0].received.len()
    }

    fn is_cut_off(&self) -> bool {
        self.0.connections[0].over.is_some()
    }

    /// Says that it will send nothing more.
    fn finish(&mut self) {
        self.0.client.tcp.finish(self.0.connections[0].id);
    }
}

/// 3 MB at 50 kB a second take a minute, twice the time for lingering.
#[test]
fn a_slow_download_that_ends_with_the_connection_is_not_cut_off() {
    let mut client = Client::new("GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let read = client.read(55, 50_000);
    assert!(!client.is_cut_off(), "cut off after {read} bytes");
    let read = client.read(15, 50_000);
    assert!(read > DOCUMENT_LEN, "{read} bytes");
}

/// A client that says at once that it will ask for nothing more is served like others.
#[test]
fn a_slow_download_of_a_half_closed_client_is_not_cut_off() {
    let mut client = Client::new("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    client.finish();
    let read = client.read(45, 50_000);
    assert!(!client.is_cut_off(), "cut off after {read} bytes");
}

/// Bytes of responses are those that clients have taken, not those that wait for them.
#[test]
fn response_bytes_are_what_was_acknowledged() {
    let mut client = Client::new("GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let read = client.read(5, 50_000);
    let counted = |client: &Client| client.0.cheetah.server().counters().response_bytes as usize;
    // What has come to the client may wait in its window.
    let most = read + (1 << 20);
    assert!(
        (1..=most).contains(&counted(&client)) && most < DOCUMENT_LEN,
        "{read} read"
    );
    let read = client.read(70, 50_000);
    assert!(read > DOCUMENT_LEN, "{read} bytes");
    client.finish();
    client.read(5, 50_000);
    assert_eq!(counted(&client), read);
}

/// A client that takes nothing at all is given up, no matter who is to close.
#[test]
fn a_client_that_takes_nothing_is_given_up() {
    for close in ["", "Connection: close\r\n"] {
        let mut client = Client::new(&format!("GET /big HTTP/1.1\r\nHost: a\r\n{close}\r\n"));
        client.read(70, 0);
        assert_eq!(client.0.cheetah.connections(), 0);
    }
}

#[test]
fn a_stop_waits_for_responses_that_end_with_the_connection() {
    let mut client = Client::new("GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.read(2, 50_000);
    let Client(visit) = &mut client;
    visit.stop();
    assert!(visit.cheetah.is_busy(), "a response is under way");
}

/// A request that begins behind an answered one has a request's time, not an idle connection's.
#[test]
fn a_half_begun_next_request_is_answered_with_408_in_its_time() {
    let mut client = Client::new("GET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /ne");
    client.read(15, 0);
    let counters = client.0.cheetah.server().counters();
    assert_eq!(counters.responses(exos_cheetah::Status::RequestTimeout), 0);
    assert_eq!(counters.responses(exos_cheetah::Status::NotFound), 1);
    client.read(10, 0);
    let counters = client.0.cheetah.server().counters();
    assert_eq!(counters.responses(exos_cheetah::Status::RequestTimeout), 1);
}
