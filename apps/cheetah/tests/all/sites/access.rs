//! Who may have what, by the rules of `[[site.access]]`, from the text of a configuration to the responses.

use std::fs;

use exos_buf::Slice;
use exos_cheetah::config::Config;
use exos_cheetah::http::Attempt;
use exos_cheetah::site::{About, Change};
use exos_cheetah::{Next, Server, ServerConnection, serve};

use crate::common::{arrival, path};
use crate::sites::{Folder, ask, ask_as, body, from, get, get_as, status, values};

/// Of `openssl passwd -5 -salt saltstring "Hello world!"`.
pub(crate) const ANN: &str = "ann:$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5\n";

/// The Authorization field of `ann:Hello world!`.
pub(crate) const RIGHT: &str = "Authorization: Basic YW5uOkhlbGxvIHdvcmxkIQ==\r\n";

/// What others send for the server is only what anyone would get, also where other paths have rules.
#[test]
fn paths_without_rules_are_rendered() {
    let folder = Folder::new(&[
        ("www/index.html", "open"),
        ("www/admin/index.html", "admin"),
        ("www/slow/a", "slow"),
        ("www/own/a", "own"),
        ("www/own/all", "all"),
        ("users", ANN),
    ]);
    let mut server = folder.server(
        "[[site]]\nroot = \"www\"\n\
         [[site.access]]\npath = \"/admin/*\"\nusers = \"users\"\n\
         [[site.access]]\npath = \"/slow/*\"\nrate = 1\nburst = 1\n\
         [[site.access]]\npath = \"/own/*\"\nrules = [\"deny 10.0.0.0/8\"]\n\
         [[site.access]]\npath = \"/own/all\"\nrules = [\"allow all\"]\n",
    );
    for (path, is_rendered) in [
        ("/", true),
        ("/own/all", true),
        ("/own/a", false),
        ("/slow/a", false),
        ("/admin/", false),
        ("/admin/index.html", false),
        ("/x/../admin/", false),
        ("/%61dmin/", false),
    ] {
        for fields in ["", RIGHT] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let rendered = server.render(request.as_bytes(), 4096);
            assert_eq!(rendered.is_some(), is_rendered, "{path}");
        }
    }
    let counters = server.counters();
    assert_eq!((counters.access_denied, counters.rate_limited), (0, 0));
    // So no client's answer is rendered for others in vain.
    for (path, status, are_for_all) in [
        ("/", "200", true),
        ("/own/all", "200", true),
        ("/own/a", "200", false),
        ("/slow/a", "200", false),
        ("/admin/", "401", false),
    ] {
        let (mut connection, mut out) = (ServerConnection::new(), Vec::new());
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let handled =
            connection.handle_bytes(&mut server, request.as_bytes(), usize::MAX, &mut out);
        assert_eq!(&out[0].as_bytes()[9..12], status.as_bytes(), "{path}");
        assert_eq!(handled.are_for_all, are_for_all, "{path}");
    }
}

/// A request with a password that is not known waits until that is verified, and is answered with this status then.
fn is_verified_first(server: &mut Server, sent: &str, want: &str) {
    let request = format!("GET /admin/ HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {sent}\r\n\r\n");
    let mut out = Vec::new();
    let handled =
        ServerConnection::new().handle_bytes(server, request.as_bytes(), 1 << 20, &mut out);
    assert_eq!(handled.consumed, 0, "it waits to be verified");
    let Next::Wait(missing) = handled.next else {
        panic!("it waits to be verified");
    };
    // When too many wait it is not, and that is no wrong password.
    let attempt = Attempt::after_waiting(Some(&missing.document));
    let mut connection = ServerConnection::new();
    connection.handle_again(server, request.as_bytes(), 1 << 20, attempt, &mut out);
    let busy: Vec<u8> = out.iter().flat_map(Slice::as_bytes).copied().collect();
    let busy = String::from_utf8(busy).unwrap();
    assert_eq!(status(&busy), "503");
    assert_eq!(values(&busy, "Retry-After"), ["1"]);
    let (site, wanted) = missing.document;
    server.sites().get(site).settings().access.verify(&wanted);
    assert_eq!(status(&ask(server, &request)), want);
}

/// Networks, passwords and rates, from the text of a file to the responses.
#[test]
fn rules_about_access_decide_before_documents() {
    let folder = Folder::new(&[
        ("www/index.html", "open"),
        ("www/admin/index.html", "admin"),
        ("www/slow/a", "slow"),
        ("www/own/a", "own"),
        ("users", ANN),
    ]);
    let mut server = folder.server(
        "[[site]]\nroot = \"www\"\n\
         [[site.access]]\npath = \"/admin/*\"\nusers = \"users\"\nrealm = \"Staff\"\n\
         [[site.access]]\npath = \"/slow/*\"\nrate = 1\nburst = 1\n\
         [[site.access]]\npath = \"/own/*\"\nrules = [\"allow 192.0.2.0/24\", \"deny all\"]\n",
    );
    let one = from("10.0.0.1", 1);
    assert_eq!(body(&get_as(&mut server, one, "h", "/")), "open");
    assert_eq!(status(&get_as(&mut server, one, "h", "/own/a")), "403");
    let other = from("192.0.2.9", 1);
    assert_eq!(body(&get_as(&mut server, other, "h", "/own/a")), "own");
    for want in ["200", "200", "429"] {
        let request = "HEAD /slow/a HTTP/1.1\r\nHost: h\r\n\r\n";
        let answer = ask_as(&mut server, other, request);
        assert_eq!(status(&answer), want);
        assert_eq!(
            values(&answer, "Retry-After").len(),
            usize::from(want == "429")
        );
    }
    let later = from("192.0.2.9", 1500);
    assert_eq!(
        status(&get_as(&mut server, later, "h", "/slow/a")),
        "200",
        "a second later"
    );
    for path in [
        "/admin/",
        "/admin/index.html",
        "/admin/%69ndex.html",
        "/x/../admin/",
        "/admin/none",
    ] {
        let answer = get(&mut server, "h", path);
        assert_eq!(status(&answer), "401", "{path}");
        let challenge = "Basic realm=\"Staff\", charset=\"UTF-8\"";
        assert_eq!(values(&answer, "WWW-Authenticate"), [challenge]);
        assert_eq!(values(&answer, "Cache-Control"), ["no-store"]);
    }
    // "ann:Hello world!", and a wrong one: not known at first, then verified.
    for (sent, want) in [
        ("YW5uOkhlbGxvIHdvcmxkIQ==", "200"),
        ("YW5uOnNlY3JldA==", "401"),
    ] {
        is_verified_first(&mut server, sent, want);
    }
    let counters = server.counters();
    let counted = [
        counters.access_denied,
        counters.rate_limited,
        counters.logins_refused,
    ];
    assert!(counted.iter().all(|&count| count > 0), "{counted:?}");
}

/// No method, and no field by which a part or less of a document is asked for, leads past a rule; nor does a redirect.
#[test]
fn no_kind_of_request_leads_past_a_rule() {
    let folder = Folder::new(&[
        ("www/in/a.txt", "secret"),
        ("www/in/index.html", "secret"),
        ("www/in/dir/b.txt", "secret"),
        ("www/404.html", "no secret"),
        ("users", ANN),
    ]);
    for (rule, want) in [
        ("rules = [\"deny all\"]", "403"),
        ("users = \"users\"", "401"),
    ] {
        let mut server = folder.server(&format!(
            "[[site]]\nroot = \"www\"\nlisting = true\n[site.error_pages]\n404 = \"/404.html\"\n\
             [[site.access]]\npath = \"/in/*\"\n{rule}\n\
             [[site.fields]]\npath = \"*\"\nset = {{ Cache-Control = \"public, max-age=60\" }}\n\
             [[site.redirect]]\nfrom = \"/in/old/*\"\nto = \"/in/*\"\n"
        ));
        let attempt = from("192.0.2.1", 0);
        for (line, fields) in [
            ("GET /in/a.txt", ""),
            ("HEAD /in/a.txt", ""),
            ("OPTIONS /in/a.txt", ""),
            ("POST /in/a.txt", "Content-Length: 0\r\n"),
            ("GET /in/a.txt", "Range: bytes=0-1\r\n"),
            ("GET /in/a.txt", "If-None-Match: *\r\n"),
            ("GET /in/a.txt", "If-Match: \"none\"\r\n"),
            ("GET /in/a.txt", "Accept-Encoding: br\r\n"),
            ("GET /in/a.txt", "Authorization: Basic\r\n"),
            ("GET /in/a.txt", "Authorization: Bearer YTpi\r\n"),
            ("GET /in/a.txt?q", ""),
            ("GET http://h/in/a.txt", ""),
            ("GET /in/%61.txt", ""),
            ("GET /%69n/a.txt", ""),
            ("GET /x/..//in/./a.txt", ""),
            ("GET //in/a.txt", ""),
            ("GET /in/", ""),
            ("GET /in/none", ""),
            ("GET /in/dir", ""),
            ("GET /in/dir/", ""),
            ("GET /in/old/a.txt", ""),
        ] {
            let request = format!("{line} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let answer = ask_as(&mut server, attempt, &request);
            assert_eq!(status(&answer), want, "{request}");
            assert!(!answer.contains("secret"), "{answer}");
            let caching = values(&answer, "Cache-Control").join(", ");
            assert!(caching.contains("no-store"), "{caching}");
        }
        // What is beside it is free, by other spellings too.
        for (path, want) in [
            ("/in", "301"),
            ("/404.html", "200"),
            ("/none", "404"),
            ("/in/../none", "404"),
        ] {
            assert_eq!(status(&get(&mut server, "h", path)), want, "{path}");
        }
    }
}

/// What is wrong with a file of passwords is told with file and line of the configuration, and of the file.
#[test]
fn files_of_passwords_are_checked() {
    let folder = Folder::new(&[
        ("www/a", "a"),
        ("www/users", ANN),
        ("other/b", "b"),
        ("bad", "# none\nann:secret\n"),
    ]);
    let rule = |users: &str| {
        format!("[[site]]\nroot = \"www\"\n[[site.access]]\npath = \"*\"\nusers = \"{users}\"\n")
    };
    fs::hard_link(folder.0.join("www/users"), folder.0.join("link")).unwrap();
    for (users, what) in [
        ("none", "cannot read"),
        ("bad", "bad:2: this is no NAME:HASH"),
        ("www", "is no file"),
        ("www/users", "www/users would be served, as /users"),
        ("link", "link would be served, as /users"),
    ] {
        let Err(errors) = folder.load(&rule(users)) else {
            panic!("{users} is taken");
        };
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("serve.toml:5: "), "{errors:?}");
        assert!(errors[0].contains(what), "{errors:?}");
    }
    // Another site would serve them.
    let both = "[[site]]\nnames = [\"a.test\"]\nroot = \"www\"\n[[site]]\ndefault = true\nroot = \"other\"\n\
                [[site.access]]\npath = \"*\"\nusers = \"www/users\"\n";
    let Err(errors) = folder.load(both) else {
        panic!("they would be served");
    };
    assert!(errors[0].contains("serve.toml:9: "), "{errors:?}");
    // Reading passwords is left to who serves.
    assert!(Config::parse(&folder.0.join("serve.toml"), &rule("none")).is_ok());
}

/// Where unknown hosts are refused, status pages are seen by address: the rules of the default site are about them.
#[test]
fn rules_hold_for_status_pages_by_address() {
    use exos_cheetah::status::{Allowed, Snapshot, StatusPages};
    let folder = Folder::new(&[("www/a", "a"), ("users", ANN)]);
    let text = "unknown_hosts = \"refuse\"\n[[site]]\nnames = [\"a.test\"]\nroot = \"www\"\n\
                [[site.access]]\npath = \"/.exos/*\"\nusers = \"users\"\n";
    let mut server = folder.server(text);
    let attempt = from("10.0.0.1", 0);
    let prefix = "10.0.0.1/32".parse().unwrap();
    let mut pages = StatusPages::new("/.exos", Allowed::new(Vec::new(), vec![prefix]));
    pages.update(exos_inet::Instant::from_millis(1), Snapshot::default());
    server.set_status_pages(pages);
    for host in ["a.test", "192.0.2.7"] {
        assert_eq!(
            status(&get_as(&mut server, attempt, host, "/.exos/metrics")),
            "401",
            "{host}"
        );
    }
    for (host, path) in [("b.test", "/.exos/metrics"), ("192.0.2.7", "/a")] {
        assert_eq!(status(&get_as(&mut server, attempt, host, path)), "421");
    }
}

/// A request behind one that has waited begins when that is answered, and is counted then.
#[test]
fn what_is_behind_a_request_that_waited_is_counted_at_its_own_time() {
    let folder = Folder::new(&[("www/late", "late"), ("www/a", "a")]);
    let text = "[[site]]\nroot = \"www\"\n[[site.access]]\npath = \"*\"\nrate = 1\nburst = 0\n";
    for (waited_ms, wanted) in [(2000, "200"), (100, "429")] {
        let mut server = folder.server(text);
        server.change_site(0, Change::Listed(path("/late"), About::default()));
        let both = "GET /late HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n";
        let mut connection = ServerConnection::new();
        let mut out = Vec::new();
        let mut handle = |server: &mut Server, attempt| {
            out.clear();
            connection.handle_again(server, both.as_bytes(), usize::MAX, attempt, &mut out);
            let bytes: Vec<u8> = out.iter().flat_map(Slice::as_bytes).copied().collect();
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(handle(&mut server, from("10.0.0.1", 1)), "", "it waits");
        server.change_site(0, arrival("/late", "late"));
        let mut attempt = Attempt {
            has_waited: true,
            ..from("10.0.0.1", 1)
        };
        attempt.now += std::time::Duration::from_millis(waited_ms);
        let answers = handle(&mut server, attempt);
        let (first, second) = answers.split_once("\r\n\r\nlate").expect("two answers");
        assert_eq!(
            (status(first), status(second)),
            ("200", wanted),
            "{answers}"
        );
    }
}

/// Verifies whatever password a request waits for.
pub(crate) fn answer(server: &mut Server, attempt: Attempt<'static>, request: &str) -> String {
    let mut out = Vec::new();
    let handled = ServerConnection::new().handle_again(
        server,
        request.as_bytes(),
        1 << 20,
        attempt,
        &mut out,
    );
    if let Next::Wait(missing) = handled.next {
        let (site, wanted) = missing.document;
        server.sites().get(site).settings().access.verify(&wanted);
    }
    ask_as(server, attempt, request)
}

/// Of a configuration beside files.
pub(crate) fn sites_of(file: &std::path::Path, text: &str) -> exos_cheetah::site::Sites {
    let config = Config::parse(file, text).expect("a configuration");
    serve::content::sites::load(&config).expect("sites")
}
