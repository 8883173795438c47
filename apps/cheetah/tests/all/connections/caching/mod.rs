//! Answers of an upstream that are kept and given out again (RFC 9111), by a server on the kernel's sockets. The upstream is the test.
//!
//! Nothing here waits for time to go by: how old an answer is, the upstream says by Age.

mod pairs;
mod stale;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use exos_cheetah::Site;
use exos_cheetah::applications::proxy::Proxy;
use exos_cheetah::applications::rules::{Rule, Scope};
use exos_cheetah::applications::{Address, Application, Place, Rules};
use exos_cheetah::caching::CacheRules;
use exos_cheetah::connections::Bounds;
use exos_cheetah::site::Settings;

use super::sockets::Running;
use pairs::TABLE;

const LONG: Duration = Duration::from_secs(60);

/// What the upstream answers to a path, in turn; the last of them again and again.
type Script = Vec<String>;

/// An upstream that answers by scripts, and remembers what it was asked.
#[derive(Clone, Default)]
struct Upstream {
    scripts: Arc<Mutex<HashMap<String, Script>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    fn answer(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                match reader.read_line(&mut head) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
            let length = field(&head, "content-length").map_or(0, |it| it.parse().unwrap());
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let path = head.split(' ').nth(1).unwrap().to_owned();
            self.asked.lock().unwrap().push(head.clone());
            let answer = {
                let mut scripts = self.scripts.lock().unwrap();
                let script = scripts.get_mut(&path).expect(&path);
                match script.len() {
                    0 | 1 => script[0].clone(),
                    _ => script.remove(0),
                }
            };
            if answer.is_empty() || stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn script(&self, path: &str, answers: &[String]) {
        let mut scripts = self.scripts.lock().unwrap();
        scripts.insert(path.to_owned(), answers.to_vec());
    }

    /// What was asked for a path.
    fn asked_for(&self, path: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let is_it = |head: &&String| head.split(' ').nth(1) == Some(path);
        asked.iter().filter(is_it).cloned().collect()
    }
}

struct World {
    upstream: Upstream,
    server: Running,
}

impl World {
    fn new(change: impl FnOnce(&mut CacheRules)) -> World {
        World::behind(&[], change)
    }

    /// That believes proxies of these networks.
    fn behind(trusted: &[&str], change: impl FnOnce(&mut CacheRules)) -> World {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Http(Place::Tcp(listener.local_addr().unwrap()));
        let upstream = Upstream::default();
        let its = upstream.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let its = its.clone();
                std::thread::spawn(move || its.answer(stream));
            }
        });
        let mut rules = CacheRules::default();
        change(&mut rules);
        let mut application = Application::at(address);
        application.keep = 4;
        application.proxy = Some(Proxy {
            cache: Some(Arc::new(rules)),
            trusted: trusted.iter().map(|it| it.parse().unwrap()).collect(),
            ..Proxy::default()
        });
        let settings = Settings {
            applications: Rules::new(vec![Rule {
                scope: Scope::path("/*").unwrap(),
                application: Arc::new(application),
            }]),
            ..Settings::default()
        };
        let site = move || Site::with(Arc::new(settings));
        World {
            upstream,
            server: Running::start_bounded(Bounds::default(), site),
        }
    }

    fn client(&self) -> Client {
        let stream = self.server.connect();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Client(BufReader::new(stream))
    }

    fn ask(&self, method: &str, path: &str, fields: &str) -> Response {
        self.client().ask(method, path, fields)
    }
}

struct Client(BufReader<TcpStream>);

#[derive(Debug)]
struct Response {
    head: String,
    content: String,
}

impl Response {
    fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    fn status(&self) -> &str {
        &self.head[9..12]
    }

    /// What Cache-Status says, without numbers.
    fn cache(&self) -> String {
        let said = self.field("cache-status").unwrap_or("none");
        let said = said.strip_prefix("exos; ").unwrap_or(said);
        let parts = said.split("; ").filter(|part| !part.starts_with("ttl="));
        parts.collect::<Vec<_>>().join("; ")
    }
}

impl Client {
    fn send(&mut self, method: &str, path: &str, fields: &str) {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    fn ask(&mut self, method: &str, path: &str, fields: &str) -> Response {
        self.send(method, path, fields);
        self.response(method == "HEAD")
    }

    fn response(&mut self, is_head: bool) -> Response {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.0.read_line(&mut head).unwrap(), 0, "{head}");
        }
        let is_without = is_head || matches!(&head[9..12], "304" | "204");
        let length = field(&head, "content-length").filter(|_| !is_without);
        let mut content = vec![0; length.map_or(0, |it| it.parse().unwrap())];
        self.0.read_exact(&mut content).unwrap();
        Response {
            head,
            content: String::from_utf8(content).unwrap(),
        }
    }
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "));
    let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

/// An answer with this status line, these fields and this content.
fn answer(status: &str, fields: &str, content: &str) -> String {
    let len = content.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\n{fields}\r\n{content}")
}

fn ok(fields: &str) -> String {
    answer("200 OK", fields, "content")
}

#[test]
fn an_answer_is_kept_and_used_as_the_rfc_says() {
    let world = World::new(|_| {});
    for (n, (name, first, fields, second, wanted)) in TABLE.into_iter().enumerate() {
        let path = format!("/{n}");
        world.upstream.script(&path, &[ok(fields)]);
        let response = world.ask("GET", &path, first);
        assert_eq!(response.content, "content", "{name}");
        world.until_settled(&path);
        let response = world.ask("GET", &path, second);
        assert_eq!(response.content, "content", "{name}");
        let said = response.cache();
        let said = match wanted.contains("uri-miss") {
            // Whether that one is kept is not asked here.
            true => said.trim_end_matches("; stored"),
            false => &said,
        };
        assert_eq!(said, wanted, "{name}: {response:?}");
        let times = if wanted == "hit" { 1 } else { 2 };
        assert_eq!(world.upstream.asked_for(&path).len(), times, "{name}");
    }
}

impl World {
    /// What was answered is kept by now, if it is at all: a request comes behind what the server had to do.
    fn until_settled(&self, path: &str) {
        let probe = format!("{path}-settled");
        self.upstream
            .script(&probe, &[ok("Cache-Control: no-store\r\n")]);
        for _ in 0..2 {
            self.ask("GET", &probe, "");
        }
    }
}

#[test]
fn a_hit_says_its_age_and_has_parts_and_no_content_for_head() {
    let world = World::new(|_| {});
    let fields = "Cache-Control: max-age=100\r\nAge: 30\r\nETag: \"v1\"\r\nX-Own: 1\r\nContent-Type: text/plain\r\n\
                  Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    world
        .upstream
        .script("/", &[answer("200 OK", fields, "0123456789")]);
    let response = world.ask("GET", "/", "");
    assert_eq!(response.cache(), "fwd=uri-miss; stored");
    world.until_settled("/");
    let mut client = world.client();
    for method in ["GET", "HEAD"] {
        let response = client.ask(method, "/", "");
        let age: u64 = response.field("age").unwrap().parse().unwrap();
        assert!((30..60).contains(&age), "{response:?}");
        assert_eq!(response.field("x-own"), Some("1"));
        assert_eq!(response.field("content-length"), Some("10"));
        assert_eq!(response.head.matches("Age: ").count(), 1);
        let wanted = if method == "GET" { "0123456789" } else { "" };
        assert_eq!(response.content, wanted);
    }
    for (asked, status, range, content) in [
        ("Range: bytes=2-4\r\n", "206", Some("bytes 2-4/10"), "234"),
        ("Range: bytes=-2\r\n", "206", Some("bytes 8-9/10"), "89"),
        (
            "Range: bytes=2-4\r\nIf-Range: \"v1\"\r\n",
            "206",
            Some("bytes 2-4/10"),
            "234",
        ),
        (
            "Range: bytes=2-4\r\nIf-Range: \"v2\"\r\n",
            "200",
            None,
            "0123456789",
        ),
        ("Range: bytes=10-\r\n", "416", Some("bytes */10"), ""),
        (
            "Range: bytes=0-1,4-5\r\n",
            "206",
            Some("bytes 0-5/10"),
            "012345",
        ),
        ("If-None-Match: \"v1\"\r\n", "304", None, ""),
        ("If-None-Match: W/\"v1\", \"x\"\r\n", "304", None, ""),
        ("If-None-Match: *\r\n", "304", None, ""),
        ("If-None-Match: \"v2\"\r\n", "200", None, "0123456789"),
        (
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            "304",
            None,
            "",
        ),
        (
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n",
            "200",
            None,
            "0123456789",
        ),
        (
            "If-None-Match: \"v2\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            "200",
            None,
            "0123456789",
        ),
    ] {
        let response = client.ask("GET", "/", asked);
        let is = (
            response.status(),
            response.field("content-range"),
            &*response.content,
        );
        assert_eq!(is, (status, range, content), "{asked}");
        if status == "304" {
            assert_eq!(response.field("content-type"), None);
            assert_eq!(response.field("etag"), Some("\"v1\""));
        }
    }
    assert_eq!(world.upstream.asked_for("/").len(), 1);
}

#[test]
fn what_is_stale_is_asked_for_by_its_validators_and_renewed() {
    let world = World::new(|_| {});
    let stale = ok("Cache-Control: max-age=10\r\nAge: 20\r\nETag: \"v1\"\r\nX: old\r\n");
    let holds =
        "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nCache-Control: max-age=100\r\nX: new\r\n\r\n";
    world.upstream.script("/", &[stale, holds.to_owned()]);
    assert_eq!(world.ask("GET", "/", "").content, "content");
    world.until_settled("/");
    // The client's own validators are for what is kept.
    let response = world.ask("GET", "/", "If-None-Match: \"other\"\r\n");
    assert_eq!((response.status(), &*response.content), ("200", "content"));
    assert_eq!(response.cache(), "fwd=stale; fwd-status=304");
    assert_eq!(response.field("x"), Some("new"));
    let asked = world.upstream.asked_for("/");
    assert_eq!(field(&asked[1], "if-none-match"), Some("\"v1\""));
    world.until_settled("/");
    let response = world.ask("GET", "/", "");
    assert_eq!(
        (response.cache(), response.field("x")),
        ("hit".to_owned(), Some("new"))
    );
    assert_eq!(world.upstream.asked_for("/").len(), 2);
}

#[test]
fn what_is_stale_and_has_changed_is_replaced() {
    let world = World::new(|_| {});
    let old = ok("Cache-Control: no-cache\r\nETag: \"v1\"\r\n");
    let new = answer(
        "200 OK",
        "Cache-Control: max-age=100\r\nETag: \"v2\"\r\n",
        "newer",
    );
    world.upstream.script("/", &[old, new]);
    world.ask("GET", "/", "");
    world.until_settled("/");
    assert_eq!(world.ask("GET", "/", "").content, "newer");
    world.until_settled("/");
    let response = world.ask("GET", "/", "");
    assert_eq!(
        (response.cache(), &*response.content),
        ("hit".to_owned(), "newer")
    );
}

#[test]
fn stale_will_do_where_the_upstream_fails() {
    let world = World::new(|rules| rules.stale_if_error = Duration::from_secs(1000));
    let stale = ok("Cache-Control: max-age=10\r\nAge: 20\r\nETag: \"v1\"\r\n");
    let broken = answer("503 Service Unavailable", "", "broken");
    world.upstream.script("/a", &[stale.clone(), broken]);
    // It ends the connection.
    world.upstream.script("/b", &[stale, String::new()]);
    let strict = ok("Cache-Control: max-age=10, must-revalidate\r\nAge: 20\r\nETag: \"v1\"\r\n");
    world.upstream.script("/c", &[strict, String::new()]);
    for (path, said) in [
        ("/a", "fwd=stale; fwd-status=503"),
        ("/b", "fwd=stale; detail=no-answer"),
    ] {
        world.ask("GET", path, "");
        world.until_settled(path);
        let response = world.ask("GET", path, "");
        assert_eq!((response.status(), &*response.content), ("200", "content"));
        assert_eq!(response.cache(), said);
    }
    world.ask("GET", "/c", "");
    world.until_settled("/c");
    assert_eq!(world.ask("GET", "/c", "").status(), "502");
}

#[test]
fn what_changes_something_has_what_is_kept_forgotten() {
    let world = World::new(|_| {});
    let fresh = ok("Cache-Control: max-age=100\r\n");
    for (n, (method, status, is_forgotten)) in [
        ("POST", "200 OK", true),
        ("DELETE", "303 See Other", true),
        ("PUT", "403 Forbidden", false),
        ("PATCH", "500 Internal Server Error", false),
        ("OPTIONS", "200 OK", false),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{n}");
        let done = answer(status, "", "");
        world
            .upstream
            .script(&path, &[fresh.clone(), done, fresh.clone()]);
        world.ask("GET", &path, "");
        world.until_settled(&path);
        world.ask(method, &path, "");
        world.until_settled(&path);
        let response = world.ask("GET", &path, "");
        assert_eq!(response.cache() != "hit", is_forgotten, "{method} {status}");
    }
}

#[test]
fn only_if_cached_asks_nobody() {
    let world = World::new(|_| {});
    world
        .upstream
        .script("/", &[ok("Cache-Control: max-age=100\r\n")]);
    let response = world.ask("GET", "/", "Cache-Control: only-if-cached\r\n");
    assert_eq!(response.status(), "504");
    assert!(world.upstream.asked_for("/").is_empty());
    world.ask("GET", "/", "");
    world.until_settled("/");
    let response = world.ask("GET", "/", "Cache-Control: only-if-cached\r\n");
    assert_eq!(response.cache(), "hit");
}

#[test]
fn long_answers_and_heads_are_passed_on_and_not_kept() {
    let world = World::new(|rules| rules.answer_len_max = 5);
    let cases = [
        answer("200 OK", "Cache-Control: max-age=100\r\n", "longer"),
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
            .to_owned(),
        answer(
            "200 OK",
            &format!("Cache-Control: max-age=100\r\nX: {}\r\n", "x".repeat(9000)),
            "",
        ),
    ];
    for (n, case) in cases.into_iter().enumerate() {
        let path = format!("/{n}");
        world.upstream.script(&path, &[case]);
        for _ in 0..2 {
            let mut client = world.client();
            client.send("GET", &path, "Connection: close\r\n");
            let mut all = String::new();
            client.0.read_to_string(&mut all).unwrap();
            assert!(all.starts_with("HTTP/1.1 200"), "{all}");
            world.until_settled(&path);
        }
        assert_eq!(world.upstream.asked_for(&path).len(), 2, "{n}");
    }
    let chunked = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nTransfer-Encoding: chunked\r\n\r\n\
                   2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n";
    world.upstream.script("/short", &[chunked.to_owned()]);
    let mut client = world.client();
    client.send("GET", "/short", "Connection: close\r\n");
    client.0.read_to_string(&mut String::new()).unwrap();
    world.until_settled("/short");
    let response = world.ask("GET", "/short", "");
    assert_eq!(
        (response.cache(), &*response.content),
        ("hit".to_owned(), "abcd")
    );
}

#[test]
fn many_requests_for_one_target_are_one_for_the_upstream() {
    let world = World::new(|_| {});
    world
        .upstream
        .script("/", &[ok("Cache-Control: max-age=100\r\n")]);
    let gate = world.upstream.scripts.lock().unwrap();
    let mut clients: Vec<Client> = (0..20).map(|_| world.client()).collect();
    for client in &mut clients {
        client.send("GET", "/", "");
    }
    // The upstream waits for the scripts until all have asked, or most: what is late is a hit.
    drop(gate);
    for client in &mut clients {
        assert_eq!(client.response(false).content, "content");
    }
    assert_eq!(world.upstream.asked_for("/").len(), 1);
}

#[test]
fn those_who_wait_for_an_answer_that_is_not_kept_get_their_own() {
    let world = World::new(|_| {});
    world
        .upstream
        .script("/", &[ok("Cache-Control: private\r\n")]);
    let mut clients: Vec<Client> = (0..20).map(|_| world.client()).collect();
    for client in &mut clients {
        client.send("GET", "/", "");
    }
    for client in &mut clients {
        assert_eq!(client.response(false).content, "content");
    }
    assert_eq!(world.upstream.asked_for("/").len(), 20);
}

#[test]
fn hosts_and_queries_are_targets_of_their_own() {
    let world = World::new(|_| {});
    for path in ["/a", "/a?b", "/a?c"] {
        world
            .upstream
            .script(path, &[ok("Cache-Control: max-age=100\r\n")]);
    }
    world.ask("GET", "/a?b", "");
    assert_eq!(world.ask("GET", "/a?b", "").cache(), "hit");
    assert_ne!(world.ask("GET", "/a?c", "").cache(), "hit");
    let mut client = world.client();
    let request = "GET /a?b HTTP/1.1\r\nHost: b.test\r\n\r\n";
    client.0.get_mut().write_all(request.as_bytes()).unwrap();
    assert_eq!(client.response(false).cache(), "fwd=uri-miss; stored");
}

/// What the upstream was not sent is not what its answer depends on.
#[test]
fn fields_that_are_left_out_tell_no_answers_apart() {
    let world = World::new(|_| {});
    let fields = "Vary: Origin\r\nCache-Control: max-age=100\r\n";
    world
        .upstream
        .script("/", &[ok(fields), answer("200 OK", fields, "for it")]);
    // The one is asked for without Origin, whatever its client says.
    world.ask(
        "GET",
        "/",
        "Origin: https://a.test\r\nConnection: origin\r\n",
    );
    assert_eq!(field(&world.upstream.asked_for("/")[0], "origin"), None);
    let response = world.ask("GET", "/", "Origin: https://a.test\r\n");
    assert_eq!(
        (response.cache(), &*response.content),
        ("fwd=vary-miss; stored".to_owned(), "for it")
    );
    assert_eq!(world.ask("GET", "/", "").content, "content");
    for vary in ["X-Forwarded-For", "Forwarded", "Via"] {
        let path = format!("/{vary}");
        world.upstream.script(
            &path,
            &[ok(&format!(
                "Vary: {vary}\r\nCache-Control: max-age=100\r\n"
            ))],
        );
        world.ask("GET", &path, "");
        assert_ne!(world.ask("GET", &path, "").cache(), "hit", "{vary}");
    }
}

/// An answer that is asked for each time is nobody else's: nobody waits for it.
#[test]
fn what_is_never_used_without_asking_is_not_waited_for() {
    let world = World::new(|_| {});
    for (path, fields) in [
        ("/a", "Cache-Control: no-cache\r\nETag: \"v1\"\r\n"),
        ("/b", "Cache-Control: max-age=0\r\nETag: \"v1\"\r\n"),
        (
            "/c",
            "Cache-Control: max-age=9\r\nAge: 9\r\nETag: \"v1\"\r\n",
        ),
    ] {
        world.upstream.script(path, &[ok(fields)]);
        world.ask("GET", path, "");
        let gate = world.upstream.scripts.lock().unwrap();
        let mut clients: Vec<Client> = (0..10).map(|_| world.client()).collect();
        for client in &mut clients {
            client.send("GET", path, "");
        }
        // All of them are asked for before any is answered.
        let is_asked = || world.upstream.asked_for(path).len() == 11;
        for _ in 0..6000 {
            if is_asked() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(is_asked(), "{path}");
        drop(gate);
        for client in &mut clients {
            assert_eq!(client.response(false).content, "content");
        }
    }
}

/// Those who have a password have an answer of their own: nobody waits for that.
#[test]
fn a_request_with_a_password_holds_nobody() {
    let world = World::new(|_| {});
    world
        .upstream
        .script("/", &[ok("Cache-Control: max-age=100\r\n")]);
    let gate = world.upstream.scripts.lock().unwrap();
    let mut with = world.client();
    with.send("GET", "/", "Authorization: Basic YTpi\r\n");
    let mut without = world.client();
    world.until_asked("/", 1);
    without.send("GET", "/", "");
    world.until_asked("/", 2);
    drop(gate);
    assert_eq!(with.response(false).cache(), "fwd=uri-miss");
    assert_eq!(without.response(false).cache(), "fwd=uri-miss; stored");
}

/// A 304 that is about another version, or another way to tell answers apart, renews nothing.
#[test]
fn a_304_of_another_answer_renews_nothing() {
    let world = World::new(|_| {});
    let stale = "Cache-Control: max-age=10\r\nAge: 20\r\nETag: \"v1\"\r\n";
    for (path, fields) in [
        ("/a", "ETag: \"v2\""),
        ("/b", "ETag: \"v1\"\r\nVary: Cookie"),
    ] {
        let holds =
            format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\nCache-Control: max-age=100\r\n\r\n");
        world.upstream.script(path, &[ok(stale), holds, ok(stale)]);
        world.ask("GET", path, "");
        assert_eq!(world.ask("GET", path, "").content, "content");
        assert_eq!(
            world.ask("GET", path, "").cache(),
            "fwd=uri-miss; stored",
            "{path}"
        );
    }
}

/// Clients go on to hear that nothing has changed where nothing is kept.
#[test]
fn validators_of_clients_go_on_where_nothing_is_kept() {
    let world = World::new(|_| {});
    let private = ok("Cache-Control: private\r\nETag: \"v1\"\r\n");
    let holds = "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n".to_owned();
    world.upstream.script("/", &[private, holds]);
    world.ask("GET", "/", "");
    let response = world.ask("GET", "/", "If-None-Match: \"v1\"\r\n");
    assert_eq!(response.status(), "304");
}
