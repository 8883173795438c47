//! What is kept and stale is asked for by the server itself (RFC 5861 §3), and what an operator has forgotten.

use std::time::Duration;

use exos_cheetah::caching::CacheRules;

use super::{World, answer, field, ok};

impl World {
    /// The upstream has been asked for a path this often.
    pub(super) fn until_asked(&self, path: &str, count: usize) {
        self.until(|| self.upstream.asked_for(path).len() == count);
    }

    fn until(&self, holds: impl Fn() -> bool) {
        for _ in 0..6000 {
            if holds() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it never holds");
    }
}

/// Nobody waits for what is asked for meanwhile, and it is asked for once.
#[test]
fn stale_is_given_to_all_while_the_server_asks() {
    let world = World::new(|rules| rules.stale_while_revalidate = Duration::from_secs(1000));
    let stale = ok("Cache-Control: max-age=10\r\nAge: 20\r\nETag: \"v1\"\r\n");
    let holds = "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nX-New: y\r\nCache-Control: max-age=1000\r\n\r\n";
    let other = answer("200 OK", "Cache-Control: max-age=1000\r\n", "other");
    let never = String::new();
    let script = [stale.clone(), holds.to_owned(), never.clone()];
    world.upstream.script("/", &script);
    world.upstream.script("/other", &[stale, other, never]);
    for (path, new) in [("/", "content"), ("/other", "other")] {
        world.ask("GET", path, "");
        world.until_settled(path);
        let gate = world.upstream.scripts.lock().unwrap();
        let first = world.ask("GET", path, "Cookie: a\r\nX-Mine: b\r\n");
        assert_eq!((&*first.cache(), &*first.content), ("hit", "content"));
        world.until_asked(path, 2);
        let second = world.ask("GET", path, "If-None-Match: \"v1\"\r\n");
        assert_eq!(second.status(), "304", "its client has it");
        assert_eq!(world.ask("GET", path, "").cache(), "hit");
        let asked = world.upstream.asked_for(path);
        assert_eq!(asked.len(), 2, "once for all of them");
        assert_eq!(field(&asked[1], "if-none-match"), Some("\"v1\""));
        assert_eq!(field(&asked[1], "x-mine"), Some("b"), "as its client asked");
        drop(gate);
        world.until(|| {
            let now = world.ask("GET", path, "");
            let is_new = now.field("x-new").is_some() || now.content != "content";
            is_new && now.content == new
        });
        assert_eq!(world.upstream.asked_for(path).len(), 2, "it is fresh");
    }
}

/// An upstream that is away keeps nobody from what is kept, and is asked again.
#[test]
fn what_the_server_asks_in_vain_it_asks_again() {
    let world = World::new(|rules| rules.stale_while_revalidate = Duration::from_secs(1000));
    let stale = ok("Cache-Control: max-age=10\r\nAge: 20\r\nETag: \"v1\"\r\n");
    let no_head = "HTTP/1.1 nonsense\r\n\r\n".to_owned();
    let broken = answer("500 Internal Server Error", "", "no");
    let fresh = answer("200 OK", "Cache-Control: max-age=1000\r\n", "other");
    let script = [stale, String::new(), no_head, broken, fresh];
    world.upstream.script("/", &script);
    world.ask("GET", "/", "");
    world.until_settled("/");
    world.until(|| {
        let now = world.ask("GET", "/", "");
        assert_eq!((now.status(), &*now.cache()), ("200", "hit"), "{now:?}");
        now.content == "other"
    });
    assert_eq!(world.upstream.asked_for("/").len(), 5);
    // What asks for a part, or has a password, asks by itself.
    let stale = ok("Cache-Control: public, max-age=10\r\nAge: 20\r\nETag: \"v1\"\r\n");
    for (path, fields) in [
        ("/a", "Range: bytes=0-1\r\n"),
        ("/b", "Authorization: Basic YTpi\r\n"),
    ] {
        world.upstream.script(path, std::slice::from_ref(&stale));
        world.ask("GET", path, "");
        world.until_settled(path);
        assert_ne!(world.ask("GET", path, fields).cache(), "hit", "{path}");
    }
}

/// Of a target with several answers each is asked for once, and not again with each request.
#[test]
fn each_variant_is_asked_for_once() {
    let world = World::new(|rules| rules.stale_while_revalidate = Duration::from_secs(1000));
    let of_two = |fields: &str| {
        ok(&format!(
            "Cache-Control: max-age=10\r\nVary: X-V\r\nETag: \"v1\"\r\n{fields}"
        ))
    };
    let stale = of_two("Age: 20\r\n");
    let script = [stale.clone(), stale, of_two("")];
    world.upstream.script("/", &script);
    let ask = |value: u8| world.ask("GET", "/", &format!("X-V: {value}\r\n")).cache();
    for value in [1, 2] {
        ask(value);
        world.until_settled("/");
    }
    let gate = world.upstream.scripts.lock().unwrap();
    for _ in 0..10 {
        assert_eq!([ask(1), ask(2)], ["hit", "hit"]);
    }
    world.until_asked("/", 4);
    for _ in 0..10 {
        assert_eq!([ask(1), ask(2)], ["hit", "hit"]);
    }
    assert_eq!(world.upstream.asked_for("/").len(), 4);
    drop(gate);
}

/// What the upstream does not have any more, or does not give to all any more, is given to nobody (RFC 9111 §4.3.3).
#[test]
fn an_answer_that_is_not_kept_takes_the_place_of_what_is() {
    let world = World::new(|rules| rules.stale_while_revalidate = Duration::from_secs(1000));
    let stale = ok("Cache-Control: max-age=10\r\nAge: 20\r\nETag: \"v1\"\r\n");
    for (path, next) in [
        (
            "/gone",
            answer("410 Gone", "Cache-Control: no-cache\r\n", "gone"),
        ),
        ("/missing", answer("404 Not Found", "", "no")),
        (
            "/own",
            answer("200 OK", "Cache-Control: private\r\n", "own"),
        ),
        (
            "/long",
            answer("200 OK", "Cache-Control: no-store\r\n", "none"),
        ),
    ] {
        world.upstream.script(path, &[stale.clone(), next]);
        world.ask("GET", path, "");
        world.until_settled(path);
        assert_eq!(world.ask("GET", path, "").content, "content", "{path}");
        world.until(|| world.ask("GET", path, "").content != "content");
        for _ in 0..3 {
            assert_ne!(world.ask("GET", path, "").content, "content", "{path}");
        }
    }
}

#[test]
fn an_operator_has_what_is_kept_forgotten_and_nobody_else() {
    let fresh = ok("Cache-Control: max-age=1000\r\n");
    let of_two = ok("Cache-Control: max-age=1000\r\nVary: X-V\r\n");
    let world = World::new(|rules| rules.purgers = vec!["127.0.0.0/8".parse().unwrap()]);
    let paths = ["/a", "/a?x", "/a/b", "/c/1", "/c/2?y", "/d"];
    let both = |path: &str| {
        let ask = |value| world.ask("GET", path, &format!("X-V: {value}\r\n"));
        let said = [ask(1), ask(2)].map(|it| it.cache() == "hit");
        assert_eq!(said[0], said[1], "{path}");
        said[0]
    };
    for (purged, gone) in [
        ("/a", &["/a"][..]),
        ("/a?x", &["/a?x"]),
        ("/c/*", &["/c/1", "/c/2?y"]),
        ("/nothing", &[]),
        ("/*", &paths),
    ] {
        for path in paths {
            world.upstream.script(path, std::slice::from_ref(&of_two));
            both(path);
            world.until_settled(path);
        }
        let said = world.ask("PURGE", purged, "");
        assert_eq!((said.status(), &*said.content), ("200", "forgotten\n"));
        for path in paths {
            assert_eq!(both(path), !gone.contains(&path), "{purged}: {path}");
        }
    }
    let asked = world.upstream.asked.lock().unwrap();
    assert!(
        asked.iter().all(|it| it.starts_with("GET ")),
        "upstreams never hear of it"
    );
    let others = World::new(|rules| rules.purgers = vec!["192.0.2.0/24".parse().unwrap()]);
    others.upstream.script("/a", &[fresh]);
    others.ask("GET", "/a", "");
    others.until_settled("/a");
    assert_eq!(others.ask("PURGE", "/a", "").status(), "403");
    assert_eq!(others.ask("GET", "/a", "").cache(), "hit");
    // What another one has passed on is another one's.
    let network = "127.0.0.0/8";
    for (trusted, fields) in [
        (&[network][..], ""),
        (&[], "X-Forwarded-For: 192.0.2.1\r\n"),
        (&[], "Via: 1.1 other\r\n"),
        (&[], "Origin: https://else.test\r\n"),
    ] {
        let behind = |rules: &mut CacheRules| rules.purgers = vec![network.parse().unwrap()];
        let world = World::behind(trusted, behind);
        world
            .upstream
            .script("/a", &[ok("Cache-Control: max-age=1000\r\n")]);
        world.ask("GET", "/a", "");
        world.until_settled("/a");
        let said = world.ask("PURGE", "/a", fields);
        assert_eq!(said.status(), "403", "{fields}");
        assert_eq!(world.ask("GET", "/a", "").cache(), "hit", "{fields}");
    }
    // Where nobody may, it is the upstream's.
    let none = World::new(|_| {});
    none.upstream.script("/a", &[ok("")]);
    assert_eq!(none.ask("PURGE", "/a", "").content, "content");
}

/// What was asked for before is not kept behind it.
#[test]
fn what_is_on_its_way_is_forgotten_too() {
    let world = World::new(|rules| rules.purgers = vec!["127.0.0.0/8".parse().unwrap()]);
    let fresh = ok("Cache-Control: max-age=1000\r\n");
    for (path, purged) in [("/a", "/a"), ("/b/1", "/b/*")] {
        world.upstream.script(path, std::slice::from_ref(&fresh));
        let gate = world.upstream.scripts.lock().unwrap();
        let mut first = world.client();
        first.send("GET", path, "");
        world.until_asked(path, 1);
        assert_eq!(world.ask("PURGE", purged, "").status(), "200");
        drop(gate);
        assert_eq!(first.response(false).content, "content");
        world.until_settled(path);
        assert_ne!(world.ask("GET", path, "").cache(), "hit", "{path}");
    }
}
