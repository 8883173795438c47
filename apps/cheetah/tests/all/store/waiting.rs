//! Requests for documents that are not in memory: they wait, with all behind them, and are answered when
//! the store has said what became of the document, whatever happens meanwhile.

use crate::common;
use crate::common::visit;

use std::time::Duration;

use common::{Client, arrival, path};
use exos_buf::Slice;
use exos_cheetah::http::Attempt;
use exos_cheetah::limits::FETCH_TIME;
use exos_cheetah::message::date::date_text;
use exos_cheetah::site::{About, Change, Wanted};
use exos_cheetah::{Next, Server, ServerConnection, Status};
use visit::Visit;

const GET: &str = "GET /late.txt HTTP/1.1\r\nHost: h\r\n\r\n";

/// The usual site, of which `/late.txt` and the index of `/late/` are not in memory.
fn server() -> Server {
    let mut server = common::server();
    for late in ["/late.txt", "/late/index.html"] {
        server.change_site(0, Change::Listed(path(late), About::default()));
    }
    server
}

/// What a connection sends for some bytes, how many of them it takes, and what it then waits for.
fn handle(
    server: &mut Server,
    connection: &mut ServerConnection,
    bytes: &str,
) -> (String, usize, Next) {
    handle_again(server, connection, bytes, Attempt::default())
}

fn handle_again(
    server: &mut Server,
    connection: &mut ServerConnection,
    bytes: &str,
    attempt: Attempt,
) -> (String, usize, Next) {
    let mut out: Vec<Slice> = Vec::new();
    let (bytes, room) = (bytes.as_bytes(), usize::MAX);
    let handled = connection.handle_again(server, bytes, room, attempt, &mut out);
    let sent: Vec<u8> = out.iter().flat_map(Slice::as_bytes).copied().collect();
    (
        String::from_utf8(sent).unwrap(),
        handled.consumed,
        handled.next,
    )
}

/// The document that a connection waits for.
fn wanted(next: &Next) -> Option<Wanted> {
    match next {
        Next::Wait(missing) => Some(missing.document.clone()),
        _ => None,
    }
}

#[test]
fn a_request_waits_unconsumed_and_is_answered_when_it_is_presented_again() {
    let (mut server, mut connection) = (server(), ServerConnection::new());
    for _ in 0..3 {
        let (sent, consumed, next) = handle(&mut server, &mut connection, GET);
        assert_eq!((sent, consumed), (String::new(), 0));
        assert_eq!(wanted(&next), Some((0, path("/late.txt"))));
    }
    server.change_site(0, arrival("/late.txt", "here now"));
    let (sent, consumed, next) = handle(&mut server, &mut connection, GET);
    assert!(
        sent.starts_with("HTTP/1.1 200 ") && sent.ends_with("here now"),
        "{sent}"
    );
    assert_eq!(consumed, GET.len());
    assert!(matches!(next, Next::Receive));
    assert_eq!(server.counters().response_count(), 1);
}

/// Answers come in the order of the requests: those before it at once, those behind it after it.
#[test]
fn pipelined_requests_keep_their_order() {
    let (mut server, mut connection) = (server(), ServerConnection::new());
    let other = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";
    let all = [other, GET, other, GET].concat();
    let (sent, consumed, next) = handle(&mut server, &mut connection, &all);
    assert!(sent.ends_with("text a"), "{sent}");
    assert_eq!(consumed, other.len());
    assert!(wanted(&next).is_some());
    server.change_site(0, arrival("/late.txt", "late"));
    let (sent, consumed, next) = handle(&mut server, &mut connection, &all[consumed..]);
    let bodies: Vec<&str> = sent
        .split("HTTP/1.1 200 OK")
        .map(|r| &r[r.len().saturating_sub(6)..])
        .collect();
    assert_eq!(bodies, ["", "\r\nlate", "text a", "\r\nlate"]);
    assert_eq!(consumed, all.len() - other.len());
    assert!(matches!(next, Next::Receive));
}

/// Whatever is asked of the document waits for it; what the table knows without it does not.
#[test]
fn all_kinds_of_requests_wait() {
    for (request, answer) in [
        (
            "HEAD /late.txt HTTP/1.1\r\nHost: h\r\n\r\n",
            "HTTP/1.1 200 ",
        ),
        (
            "GET /late.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=1-2\r\n\r\n",
            "HTTP/1.1 206 ",
        ),
        (
            "GET /late.txt HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n",
            "HTTP/1.1 304 ",
        ),
        ("GET /late.txt HTTP/1.0\r\n\r\n", "HTTP/1.1 200 "),
    ] {
        let (mut server, mut connection) = (server(), ServerConnection::new());
        let (.., next) = handle(&mut server, &mut connection, request);
        assert!(wanted(&next).is_some(), "{request}");
        server.change_site(0, arrival("/late.txt", "late"));
        let (sent, consumed, _) = handle(&mut server, &mut connection, request);
        assert!(sent.starts_with(answer), "{request}: {sent}");
        assert_eq!(consumed, request.len());
    }
    let (mut server, mut connection) = (server(), ServerConnection::new());
    let options = GET.replace("GET", "OPTIONS");
    let (sent, ..) = handle(&mut server, &mut connection, &options);
    assert!(sent.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n"), "{sent}");
}

#[test]
fn an_index_is_wanted_by_its_own_name() {
    let (mut server, mut connection) = (server(), ServerConnection::new());
    let request = GET.replace("late.txt", "late/");
    let (.., next) = handle(&mut server, &mut connection, &request);
    assert_eq!(wanted(&next), Some((0, path("/late/index.html"))));
    server.change_site(0, arrival("/late/index.html", "index"));
    let (sent, ..) = handle(&mut server, &mut connection, &request);
    assert!(sent.ends_with("index"), "{sent}");
}

#[test]
fn a_document_that_goes_meanwhile_or_cannot_be_read_is_refused() {
    let (mut server, mut connection) = (server(), ServerConnection::new());
    let (.., next) = handle(&mut server, &mut connection, GET);
    let document = wanted(&next).expect("it waits");
    let attempt = Attempt::after_waiting(Some(&document));
    let (sent, ..) = handle_again(&mut server, &mut connection, GET, attempt);
    assert!(sent.starts_with("HTTP/1.1 500 "), "{sent}");
    let (.., next) = handle(&mut server, &mut connection, GET);
    assert!(wanted(&next).is_some(), "another try");
    server.change_site(0, Change::Gone(path("/late.txt")));
    let (sent, ..) = handle(&mut server, &mut connection, GET);
    assert!(sent.starts_with("HTTP/1.1 404 "), "{sent}");
}

/// A visit whose documents `/0.txt` to `/9.txt` are not in memory.
fn visit() -> Visit {
    Visit::new(common::site(), |server| {
        for n in 0..10 {
            server.change_site(
                0,
                Change::Listed(path(&format!("/{n}.txt")), About::default()),
            );
        }
    })
}

fn get(n: usize) -> Vec<u8> {
    format!("GET /{n}.txt HTTP/1.1\r\nHost: h\r\n\r\n").into()
}

impl Visit {
    fn second(&mut self) {
        self.run(Duration::from_secs(1), usize::MAX);
    }

    /// What the server wants to have read.
    fn wanted(&mut self) -> Vec<String> {
        let wanted = std::iter::from_fn(|| self.cheetah.poll_wanted());
        wanted
            .map(|(_, path)| String::from_utf8(path.to_vec()).unwrap())
            .collect()
    }

    fn received(&self, place: usize) -> String {
        String::from_utf8(self.connections[place].received.clone()).unwrap()
    }

    fn counter(&self, name: &str) -> u64 {
        let counters = self.cheetah.counters();
        counters
            .iter()
            .find(|(known, _)| *known == name)
            .expect(name)
            .1
    }
}

#[test]
fn a_document_is_fetched_once_for_all_who_wait() {
    let mut visit = visit();
    for _ in 0..20 {
        visit.ask("10.0.0.1", &get(1));
    }
    visit.second();
    assert_eq!(visit.wanted(), ["/1.txt"]);
    visit.change(arrival("/1.txt", "for all"));
    visit.second();
    for place in 0..20 {
        assert!(visit.received(place).ends_with("for all"), "{place}");
    }
    assert!(visit.wanted().is_empty());
}

/// Others are served meanwhile, in any order in which the store answers; each has what it asked for.
#[test]
fn nobody_else_waits() {
    let mut visit = visit();
    let waiting: Vec<usize> = (0..10).map(|n| visit.ask("10.0.0.1", &get(n))).collect();
    visit.second();
    let other = visit.ask("10.0.0.1", b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    visit.second();
    assert!(visit.received(other).ends_with("text a"));
    assert_eq!(visit.wanted().len(), 10);
    for n in (0..10).rev() {
        visit.change(arrival(&format!("/{n}.txt"), &format!("document {n}")));
    }
    visit.second();
    for (n, place) in waiting.into_iter().enumerate() {
        assert!(
            visit.received(place).ends_with(&format!("document {n}")),
            "{n}"
        );
    }
}

/// Bytes that come while a request waits are kept behind it, and a client that says it is done is answered.
#[test]
fn what_comes_meanwhile_is_kept() {
    let mut visit = visit();
    let place = visit.ask("10.0.0.1", &get(1));
    visit.second();
    visit.say(place, b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    visit.second();
    visit.client.tcp.finish(visit.connections[place].id);
    visit.second();
    assert_eq!(visit.received(place), "");
    assert_eq!(visit.wanted(), ["/1.txt"], "asked for once");
    visit.change(arrival("/1.txt", "first"));
    visit.second();
    let received = visit.received(place);
    assert!(
        received.contains("first") && received.ends_with("text a"),
        "{received}"
    );
    visit.second();
    assert!(
        visit.connections[place].over.is_some(),
        "both have finished"
    );
}

#[test]
fn a_client_that_goes_meanwhile_leaves_nothing() {
    let mut visit = visit();
    for n in 0..50 {
        visit.ask("10.0.0.1", &get(n % 2));
    }
    visit.second();
    for place in 0..50 {
        visit.give_up(place);
    }
    visit.second();
    assert_eq!(visit.cheetah.connections(), 0);
    // Their slots are others' now, who ask for the other document.
    let newcomers: Vec<usize> = (0..50)
        .map(|n| visit.ask("10.0.0.1", &get(2 + n % 2)))
        .collect();
    visit.second();
    visit.change(arrival("/0.txt", "nobody waits"));
    visit.change(arrival("/1.txt", "nobody waits"));
    visit.second();
    assert!(
        newcomers
            .iter()
            .all(|&place| visit.received(place).is_empty())
    );
    visit.change(arrival("/2.txt", "document 2"));
    visit.change(arrival("/3.txt", "document 3"));
    visit.second();
    for (n, &place) in newcomers.iter().enumerate() {
        assert!(
            visit
                .received(place)
                .ends_with(&format!("document {}", 2 + n % 2))
        );
    }
}

#[test]
fn a_document_that_goes_is_404_and_one_that_fails_500() {
    let mut visit = visit();
    let gone = visit.ask("10.0.0.1", &get(1));
    let failed = visit.ask("10.0.0.1", &get(2));
    visit.second();
    visit.change(Change::Gone(path("/1.txt")));
    visit.change(Change::Failed(path("/2.txt")));
    visit.second();
    assert!(visit.received(gone).starts_with("HTTP/1.1 404 "));
    assert!(visit.received(failed).starts_with("HTTP/1.1 500 "));
    assert_eq!(visit.counter("http_fetch_failures"), 1);
    // The next request tries again, on the same connection.
    visit.say(failed, &get(2));
    visit.second();
    visit.wanted();
    visit.change(arrival("/2.txt", "at last"));
    visit.second();
    assert!(visit.received(failed).ends_with("at last"));
}

/// A store that says nothing: the request is refused in time, and what comes later finds nobody.
#[test]
fn waiting_has_an_end() {
    let mut visit = visit();
    let place = visit.ask("10.0.0.1", &get(1));
    visit.run(FETCH_TIME - Duration::from_secs(2), usize::MAX);
    assert_eq!(visit.received(place), "");
    visit.run(Duration::from_secs(4), usize::MAX);
    assert!(visit.received(place).starts_with("HTTP/1.1 503 "));
    assert_eq!(visit.counter("http_fetch_timeouts"), 1);
    visit.change(arrival("/1.txt", "too late"));
    visit.second();
    assert!(!visit.received(place).contains("too late"));
    let counters = visit.cheetah.server().counters();
    assert_eq!(counters.responses(Status::Ok), 0);
}

/// A stop lets a request that waits be answered, and ends the connection behind it.
#[test]
fn a_stop_waits_for_the_store() {
    let mut visit = visit();
    let place = visit.ask("10.0.0.1", &get(1));
    visit.second();
    visit.stop();
    assert!(visit.cheetah.is_busy());
    visit.change(arrival("/1.txt", "the last one"));
    visit.second();
    assert!(visit.received(place).ends_with("the last one"));
    assert!(!visit.cheetah.is_busy());
}

/// The request is still whole in the receive buffer of a client's connection, byte for byte as it was cut.
#[test]
fn a_waiting_request_may_have_come_in_any_pieces() {
    for cut in 1..GET.len() {
        let mut server = server();
        server.change_site(0, arrival("/late.txt", "late"));
        let mut client = Client::new(&mut server, usize::MAX);
        client.send(&GET.as_bytes()[..cut]);
        client.send(&GET.as_bytes()[cut..]);
        assert_eq!(client.end().statuses(), [200]);
        let (mut server, mut connection) = (self::server(), ServerConnection::new());
        let (.., next) = handle(&mut server, &mut connection, &GET[..cut]);
        assert!(matches!(next, Next::Receive));
        let (.., next) = handle(&mut server, &mut connection, GET);
        assert!(wanted(&next).is_some());
        server.change_site(0, arrival("/late.txt", "late"));
        assert_eq!(
            handle(&mut server, &mut connection, GET).1,
            GET.len(),
            "cut at {cut}"
        );
    }
}

/// What waited is answered at the time at which what it waited for comes, and not at that of the turn before.
#[test]
fn an_answer_that_waited_has_the_time_of_its_making() {
    let mut visit = visit();
    for retried in [false, true] {
        let place = visit.ask("10.0.0.1", &get(usize::from(retried)));
        visit.second();
        // The loop slept meanwhile.
        visit.now += Duration::from_secs(5);
        let date = format!("\r\nDate: {}\r\n", date_text(visit.unix_secs()));
        if retried {
            let server = visit.cheetah.server_mut();
            server.change_site(0, arrival("/1.txt", "again"));
            visit.retry_all();
        } else {
            visit.change(arrival("/0.txt", "late"));
        }
        visit.second();
        let got = visit.received(place);
        assert!(got.contains(&date), "{got} has not{date}");
    }
}
