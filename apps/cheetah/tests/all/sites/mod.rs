//! Several sites and their rules, from the text of a configuration to the responses.

pub(crate) mod access;
pub(crate) mod access_log;
mod acme;
mod applications;
mod configuration;
mod loading;
mod proxies;
mod status;

use crate::common;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use common::{Client, NOW_SECS};
use exos_cheetah::Server;
use exos_cheetah::config::Config;
use exos_cheetah::http::Attempt;
use exos_cheetah::serve;

/// A folder with a configuration and the documents of its sites; removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(files: &[(&str, &str)]) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("exos-sites-{}-{number}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        for (name, content) in files {
            let path = folder.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    /// A server of what a configuration in the folder says.
    pub(crate) fn server(&self, configuration: &str) -> Server {
        let sites = self.load(configuration).unwrap();
        Server::new(sites, NOW_SECS)
    }

    pub(crate) fn load(
        &self,
        configuration: &str,
    ) -> Result<exos_cheetah::site::Sites, Vec<String>> {
        let config = Config::parse(&self.0.join("serve.toml"), configuration).unwrap();
        let texts = |errors: Vec<exos::Error>| errors.iter().map(ToString::to_string).collect();
        serve::content::sites::load(&config).map_err(texts)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The answer to one request, byte by byte the same as at once.
pub(crate) fn ask(server: &mut Server, request: &str) -> String {
    ask_as(server, Attempt::default(), request)
}

/// The answer to one request of a client.
pub(crate) fn ask_as(server: &mut Server, attempt: Attempt<'static>, request: &str) -> String {
    let mut client = Client::new(server, usize::MAX);
    client.attempt = attempt;
    client.send(request.as_bytes());
    client.end().text()
}

pub(crate) fn get(server: &mut Server, host: &str, target: &str) -> String {
    get_as(server, Attempt::default(), host, target)
}

pub(crate) fn get_as(
    server: &mut Server,
    attempt: Attempt<'static>,
    host: &str,
    target: &str,
) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    ask_as(server, attempt, &request)
}

/// What a client asks from an address at this many milliseconds.
pub(crate) fn from(peer: &str, ms: u64) -> Attempt<'static> {
    let at = exos_inet::Instant::from_millis(ms);
    Attempt::default().of(peer.parse().unwrap(), at, at)
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

pub(crate) fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// The values of a field, in their order.
pub(crate) fn values<'a>(answer: &'a str, name: &str) -> Vec<&'a str> {
    let head = answer
        .split_once("\r\n\r\n")
        .map_or(answer, |(head, _)| head);
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    fields
        .filter(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
}

const HOSTS: &str = r#"
    [[site]]
    names = ["example.org", "www.example.org"]
    root = "org"
    [[site]]
    names = ["*.example.org", "[2001:db8::7]"]
    root = "star"
    [[site]]
    default = true
    root = "default"
"#;

fn hosts() -> Folder {
    Folder::new(&[
        ("org/index.html", "org"),
        ("star/index.html", "star"),
        ("default/index.html", "default"),
    ])
}

#[test]
fn each_host_has_its_site() {
    let folder = hosts();
    let mut server = folder.server(HOSTS);
    for (host, want) in [
        ("example.org", "org"),
        ("EXAMPLE.ORG:8080", "org"),
        ("www.example.org.", "org"),
        ("a.b.example.org", "star"),
        ("[2001:DB8::7]:80", "star"),
        ("192.0.2.7", "default"),
        ("example.org.evil.test", "default"),
        ("", "default"),
    ] {
        assert_eq!(body(&get(&mut server, host, "/")), want, "{host}");
    }
    assert_eq!(body(&ask(&mut server, "GET / HTTP/1.0\r\n\r\n")), "default");
}

/// RFC 9112 §3.2.2: the host of a whole URI comes before the Host field, which must be there and valid all the same.
#[test]
fn a_whole_uri_decides_before_host() {
    let folder = hosts();
    let mut server = folder.server(HOSTS);
    let whole = get(&mut server, "other.test", "http://example.org:80/");
    assert_eq!((status(&whole), body(&whole)), ("200", "org"));
    let without = ask(&mut server, "GET http://example.org/ HTTP/1.0\r\n\r\n");
    assert_eq!(body(&without), "org");
    let invalid = get(&mut server, "a@b", "http://example.org/");
    assert_eq!(status(&invalid), "400");
    let missing = ask(&mut server, "GET http://example.org/ HTTP/1.1\r\n\r\n");
    assert_eq!(status(&missing), "400");
}

#[test]
fn unknown_hosts_are_misdirected_where_that_is_wanted() {
    let folder = hosts();
    let mut server = folder.server(&format!("unknown_hosts = \"refuse\"\n{HOSTS}"));
    assert_eq!(status(&get(&mut server, "other.test", "/")), "421");
    assert_eq!(
        status(&get(&mut server, "example.org", "http://other.test/")),
        "421"
    );
    assert_eq!(body(&get(&mut server, "example.org", "/")), "org");
    // Who names no host is not misdirected.
    assert_eq!(body(&ask(&mut server, "GET / HTTP/1.0\r\n\r\n")), "default");
    // The connection goes on: a proxy may have requests for other hosts on it.
    let two = "GET / HTTP/1.1\r\nHost: no\r\n\r\nGET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
    assert!(ask(&mut server, two).ends_with("org"));
}

const FIELDS: &str = r#"
    [[site]]
    root = "www"
    [[site.fields]]
    path = "*"
    set = { X-Content-Type-Options = "nosniff", Cache-Control = "no-cache" }
    [[site.fields]]
    path = "/assets/*"
    set = { cache-control = "max-age=31536000, immutable", Link = ["<a>", "<b>"] }
    [[site.fields]]
    path = "/assets/plain.txt"
    set = { X-Content-Type-Options = "", Access-Control-Allow-Origin = "*" }
"#;

fn www() -> Folder {
    Folder::new(&[
        ("www/index.html", "home"),
        ("www/assets/a.css", "a{}"),
        ("www/assets/plain.txt", "0123456789"),
        ("www/bare/x.txt", "x"),
    ])
}

#[test]
fn rules_add_fields_and_the_most_specific_decides() {
    let folder = www();
    let mut server = folder.server(FIELDS);
    for (target, caching, sniffing, links) in [
        ("/", "no-cache", true, 0),
        ("/bare/x.txt", "no-cache", true, 0),
        ("/assets/a.css", "max-age=31536000, immutable", true, 2),
        (
            "/assets/../assets/%61.css",
            "max-age=31536000, immutable",
            true,
            2,
        ),
        ("/assets/plain.txt", "max-age=31536000, immutable", false, 2),
    ] {
        let answer = get(&mut server, "h", target);
        assert_eq!(status(&answer), "200");
        assert_eq!(values(&answer, "cache-control"), [caching], "{target}");
        assert_eq!(
            values(&answer, "x-content-type-options").len(),
            usize::from(sniffing),
            "{target}"
        );
        assert_eq!(values(&answer, "link").len(), links, "{target}");
    }
}

/// Whatever the status is, the fields of the path are there, and once.
#[test]
fn fields_are_on_every_answer() {
    let folder = www();
    let mut server = folder.server(FIELDS);
    let tag = values(&get(&mut server, "h", "/assets/plain.txt"), "etag")[0].to_owned();
    for (method, target, fields, want) in [
        (
            "GET",
            "/assets/plain.txt",
            format!("If-None-Match: {tag}\r\n"),
            "304",
        ),
        (
            "GET",
            "/assets/plain.txt",
            "If-Match: \"x\"\r\n".into(),
            "412",
        ),
        (
            "GET",
            "/assets/plain.txt",
            "Range: bytes=1-2\r\n".into(),
            "206",
        ),
        (
            "GET",
            "/assets/plain.txt",
            "Range: bytes=0-0,9-9\r\n".into(),
            "206",
        ),
        (
            "GET",
            "/assets/plain.txt",
            "Range: bytes=99-\r\n".into(),
            "416",
        ),
        ("HEAD", "/assets/plain.txt", String::new(), "200"),
        ("OPTIONS", "/assets/plain.txt", String::new(), "200"),
        ("POST", "/assets/plain.txt", String::new(), "405"),
        ("GET", "/assets/missing", String::new(), "404"),
        ("HEAD", "/assets/missing", String::new(), "404"),
        ("GET", "/assets/", String::new(), "403"),
        ("GET", "/bare", String::new(), "301"),
    ] {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let answer = ask(&mut server, &request);
        assert_eq!(status(&answer), want, "{request}");
        let caching = values(&answer, "cache-control");
        let (first, others) = caching.split_first().expect(&answer);
        assert!(others.is_empty(), "{answer}");
        assert_eq!(
            first.contains("immutable"),
            target.starts_with("/assets"),
            "{answer}"
        );
        let open = values(&answer, "access-control-allow-origin");
        assert_eq!(
            open.len(),
            usize::from(target.ends_with("plain.txt")),
            "{answer}"
        );
    }
    let range = "GET /assets/plain.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=99-\r\n\r\n";
    assert_eq!(
        values(&ask(&mut server, range), "content-range"),
        ["bytes */10"]
    );
}

/// A request that cannot be understood has no path, hence no rules.
#[test]
fn requests_without_a_path_have_no_rules() {
    let folder = www();
    let mut server = folder.server(FIELDS);
    for request in [
        "nonsense\r\n\r\n",
        "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    ] {
        let answer = ask(&mut server, request);
        assert!(values(&answer, "cache-control").is_empty(), "{answer}");
    }
}

const REDIRECTS: &str = r#"
    [[site]]
    root = "www"
    [[site.redirect]]
    from = "/old"
    to = "/assets/"
    [[site.redirect]]
    from = "/old/*"
    to = "/assets/*"
    status = 308
    [[site.redirect]]
    from = "/old/gone/*"
    to = "/"
    status = 302
    keep_query = false
    [[site.redirect]]
    from = "/index.html"
    to = "https://example.org/?from=index"
    status = 307
    [[site.fields]]
    path = "/old/*"
    set = { Cache-Control = "max-age=60" }
"#;

#[test]
fn redirects_keep_what_they_say() {
    let folder = www();
    let mut server = folder.server(REDIRECTS);
    for (target, want, location) in [
        ("/old", "301", "/assets/"),
        ("/old?q=1", "301", "/assets/?q=1"),
        ("/old/", "308", "/assets/"),
        ("/old/a%20b/c?q", "308", "/assets/a%20b/c?q"),
        ("/old/x/../y", "308", "/assets/y"),
        ("/old/gone/by?q", "302", "/"),
        ("/index.html", "307", "https://example.org/?from=index"),
        ("/index.html?q", "307", "https://example.org/?from=index&q"),
    ] {
        let answer = get(&mut server, "h", target);
        assert_eq!(status(&answer), want, "{target}");
        assert_eq!(values(&answer, "location"), [location], "{target}");
        let has_rule = target.starts_with("/old/");
        assert_eq!(
            values(&answer, "cache-control").len(),
            usize::from(has_rule),
            "{target}"
        );
    }
    // The document behind a redirect is still its directory's.
    assert_eq!(body(&get(&mut server, "h", "/")), "home");
    let head = ask(&mut server, "HEAD /old HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((status(&head), body(&head)), ("301", ""));
    let options = ask(&mut server, "OPTIONS /old/x HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(
        (status(&options), values(&options, "allow").len()),
        ("200", 1)
    );
}

/// A client can write what it likes behind the star: it does not get out of the Location field, nor to another host.
#[test]
fn a_redirect_holds_what_a_client_writes() {
    let folder = www();
    let mut server =
        folder.server("[[site]]\nroot = \"www\"\n[[site.redirect]]\nfrom = \"/go*\"\nto = \"/*\"");
    for (target, location) in [
        ("/go/evil.test", "/evil.test"),
        ("/go//evil.test", "/evil.test"),
        ("/go%2F%2Fevil.test", "/evil.test"),
        ("/go%5Cevil.test", "/%5Cevil.test"),
        ("/go%0D%0ASet-Cookie:%20a=b", "/%0D%0ASet-Cookie:%20a=b"),
        ("/go%3Fx", "/%3Fx"),
    ] {
        let answer = get(&mut server, "h", target);
        assert_eq!(values(&answer, "location"), [location], "{target}");
        assert!(values(&answer, "set-cookie").is_empty(), "{answer}");
    }
}

const PAGES: &str = r#"
    [[site]]
    names = ["own"]
    root = "own"
    [site.error_pages]
    404 = "/errors/missing.json"
    405 = "/errors/any.html"
    416 = "/errors/any.html"
    400 = "/errors/any.html"
    [[site]]
    default = true
    root = "plain"
"#;

#[test]
fn a_site_has_error_pages_of_its_own() {
    let folder = Folder::new(&[
        ("own/errors/missing.json", "{\"error\":404}"),
        ("own/errors/any.html", "<p>own"),
        ("own/a.txt", "a"),
        ("plain/a.txt", "a"),
    ]);
    let mut server = folder.server(PAGES);
    let missing = get(&mut server, "own", "/none");
    assert_eq!(
        (status(&missing), body(&missing)),
        ("404", "{\"error\":404}")
    );
    assert_eq!(values(&missing, "content-type"), ["application/json"]);
    assert_eq!(values(&missing, "content-length"), ["13"]);
    // It is no document: nothing to be cached or asked for in parts by.
    for name in ["etag", "last-modified", "accept-ranges"] {
        assert!(values(&missing, name).is_empty(), "{name}");
    }
    let head = ask(&mut server, "HEAD /none HTTP/1.1\r\nHost: own\r\n\r\n");
    assert_eq!(
        (body(&head), values(&head, "content-length")[0]),
        ("", "13")
    );
    let post = ask(&mut server, "POST /a.txt HTTP/1.1\r\nHost: own\r\n\r\n");
    assert_eq!((status(&post), body(&post)), ("405", "<p>own"));
    assert_eq!(values(&post, "allow"), ["GET, HEAD, OPTIONS"]);
    let range = ask(
        &mut server,
        "GET /a.txt HTTP/1.1\r\nHost: own\r\nRange: bytes=9-\r\n\r\n",
    );
    assert_eq!((status(&range), body(&range)), ("416", "<p>own"));
    assert_eq!(values(&range, "content-range"), ["bytes */1"]);
    assert_eq!(body(&get(&mut server, "own", "/%zz")), "<p>own");
    // The other site has the server's.
    assert!(body(&get(&mut server, "other", "/none")).contains("<h1>404 Not Found</h1>"));
    // By its address the document is one like any other.
    let itself = get(&mut server, "own", "/errors/missing.json");
    assert_eq!((status(&itself), values(&itself, "etag").len()), ("200", 1));
}

#[test]
fn an_error_page_that_is_not_there_is_an_error() {
    let folder = Folder::new(&[("www/a.txt", "a")]);
    let errors = folder
        .load("[[site]]\nroot = \"www\"\nerror_pages = { 404 = \"/404.html\" }\n[[site]]\nnames = [\"a\"]\nroot = \"none\"")
        .unwrap_err();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors[0].contains("/404.html") && errors[1].contains("none"),
        "{errors:?}"
    );
}

#[test]
fn names_of_indexes_and_types_are_what_is_said() {
    let folder = Folder::new(&[
        ("www/both/index.html", "html"),
        ("www/both/start.htm", "htm"),
        ("www/second/index.html", "html"),
        ("www/none/other.html", "other"),
        ("www/a.gmi", "gemini"),
        ("www/a.txt", "latin"),
    ]);
    let mut server = folder.server(
        "[[site]]\nroot = \"www\"\nindex = [\"start.htm\", \"index.html\"]\n[site.types]\n\
         gmi = \"text/gemini\"\nTXT = \"text/plain; charset=iso-8859-1\"",
    );
    for (target, want, content) in [
        ("/both/", "200", "htm"),
        ("/second/", "200", "html"),
        ("/both/index.html", "200", "html"),
    ] {
        let answer = get(&mut server, "h", target);
        assert_eq!(
            (status(&answer), body(&answer)),
            (want, content),
            "{target}"
        );
    }
    assert_eq!(status(&get(&mut server, "h", "/none/")), "403");
    let types = |server: &mut Server, target| {
        values(&get(server, "h", target), "content-type")[0].to_owned()
    };
    assert_eq!(types(&mut server, "/a.gmi"), "text/gemini; charset=utf-8");
    assert_eq!(
        types(&mut server, "/a.txt"),
        "text/plain; charset=iso-8859-1"
    );
    let mut server = folder.server("[[site]]\nroot = \"www\"\nindex = []");
    assert_eq!(status(&get(&mut server, "h", "/both/")), "403");
}

/// A file has other fields under another name.
#[test]
fn a_file_under_two_names_has_the_fields_of_each() {
    let folder = Folder::new(&[("www/a/x.txt", "x")]);
    fs::create_dir(folder.0.join("www/b")).unwrap();
    fs::hard_link(folder.0.join("www/a/x.txt"), folder.0.join("www/b/x.txt")).unwrap();
    let mut server = folder.server(
        "[[site]]\nroot = \"www\"\n[[site.fields]]\npath = \"/b/*\"\nset = { X-B = \"b\" }",
    );
    assert!(values(&get(&mut server, "h", "/a/x.txt"), "x-b").is_empty());
    assert_eq!(values(&get(&mut server, "h", "/b/x.txt"), "x-b"), ["b"]);
}

/// What comes while the site is served obeys the rules, and what goes leaves its place to the next.
#[test]
fn documents_that_change_follow_the_rules() {
    let folder = Folder::new(&[
        ("www/start.htm", "start"),
        ("www/index.html", "index"),
        ("www/404.html", "first"),
    ]);
    let configuration = "[[site]]\nroot = \"www\"\nindex = [\"start.htm\", \"index.html\"]\n\
         error_pages = { 404 = \"/404.html\" }\n\
         [[site.fields]]\npath = \"/new*\"\nset = { X-New = \"yes\" }\n\
         [[site.redirect]]\nfrom = \"/moved\"\nto = \"/new\"";
    let config = Config::parse(&folder.0.join("serve.toml"), configuration).unwrap();
    let settings = config.sites[0].settings.clone();
    let www = folder.0.join("www");
    let (site, mut tree) = common::folder::load_live(&www, config.limits, settings);
    let mut server = Server::new(site, NOW_SECS);
    let mut follow = |server: &mut Server| {
        tree.poll(Instant::now(), &mut |_, change| {
            server.change_site(0, change)
        });
    };
    let path = |name: &str| folder.0.join("www").join(name);
    assert_eq!(body(&get(&mut server, "h", "/")), "start");
    fs::remove_file(path("start.htm")).unwrap();
    fs::write(path("new.txt"), "new").unwrap();
    fs::write(path("moved"), "not to be seen").unwrap();
    fs::write(path("404.html"), "second").unwrap();
    follow(&mut server);
    assert_eq!(body(&get(&mut server, "h", "/")), "index");
    assert_eq!(values(&get(&mut server, "h", "/new.txt"), "x-new"), ["yes"]);
    assert_eq!(status(&get(&mut server, "h", "/moved")), "301");
    assert_eq!(body(&get(&mut server, "h", "/none")), "second");
    fs::remove_file(path("index.html")).unwrap();
    fs::remove_file(path("404.html")).unwrap();
    follow(&mut server);
    assert_eq!(status(&get(&mut server, "h", "/")), "403");
    assert!(body(&get(&mut server, "h", "/none")).contains("<h1>404"));
}

/// Two names of one file, of which one is redirected: the other has the document.
#[test]
fn a_redirect_takes_the_document_from_its_own_path_alone() {
    let folder = Folder::new(&[("www/a.txt", "x")]);
    let path = |name: &str| folder.0.join("www").join(name);
    fs::hard_link(path("a.txt"), path("b.txt")).unwrap();
    let mut server = folder
        .server("[[site]]\nroot = \"www\"\n[[site.redirect]]\nfrom = \"/a.txt\"\nto = \"/b.txt\"");
    assert_eq!(status(&get(&mut server, "h", "/a.txt")), "301");
    assert_eq!(body(&get(&mut server, "h", "/b.txt")), "x");
}

#[test]
fn directories_are_listed_where_a_site_says_so() {
    let folder = Folder::new(&[
        ("a/with/index.html", "<p>index"),
        ("a/without/b & c.txt", "text"),
        ("a/404.html", "<p>not here"),
        ("b/without/x", ""),
    ]);
    let mut server = folder.server(
        "[[site]]\nnames = [\"a\"]\nroot = \"a\"\nlisting = true\n\
         [[site.fields]]\npath = \"/without/*\"\nset = { Cache-Control = \"no-cache\" }\n\
         [[site]]\nnames = [\"b\"]\nroot = \"b\"",
    );
    let listed = get(&mut server, "a", "/without/");
    assert_eq!(status(&listed), "200");
    assert_eq!(values(&listed, "Cache-Control"), ["no-cache"]);
    assert_eq!(
        values(&listed, "Content-Type"),
        ["text/html; charset=utf-8"]
    );
    assert!(
        body(&listed).contains("<a href=\"./b%20&amp;%20c.txt\">"),
        "{listed}"
    );
    assert_eq!(body(&get(&mut server, "a", "/with/")), "<p>index");
    assert_eq!(status(&get(&mut server, "a", "/without")), "301");
    assert_eq!(status(&get(&mut server, "a", "/nothing/")), "404");
    assert_eq!(status(&get(&mut server, "b", "/without/")), "403");
    let head = ask(&mut server, "HEAD /without/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(head, listed[..listed.len() - body(&listed).len()]);
    let options = ask(&mut server, "OPTIONS /without/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(
        (status(&options), values(&options, "Allow").len()),
        ("200", 1)
    );
}
