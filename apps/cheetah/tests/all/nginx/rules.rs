//! nginx with the same sites and rules: hosts, redirects, header fields, error pages. Where its answers differ, the
//! case says why.
//!
//! Runs where nginx is installed; elsewhere it says that it did nothing.

use crate::common;
use crate::common::nginx;

use std::fs;
use std::path::Path;

use common::{Client, NOW_SECS};
use exos_cheetah::config::Config;
use exos_cheetah::{Server, serve};
use nginx::Nginx;

const OURS: &str = r#"
    [[site]]
    names = ["one.test", "www.one.test"]
    root = "one"
    error_pages = { 404 = "/404.html" }
    [[site.fields]]
    path = "*"
    set = { X-Rule = "all" }
    [[site.fields]]
    path = "/assets/*"
    set = { X-Rule = "assets", Cache-Control = "max-age=60" }
    [[site.redirect]]
    from = "/old/*"
    to = "/new/*"
    [[site.redirect]]
    from = "/fixed"
    to = "/new/"
    status = 308
    keep_query = false
    [[site]]
    names = ["*.one.test"]
    root = "star"
    [[site]]
    default = true
    root = "other"
"#;

fn theirs(port: u16) -> String {
    format!(
        r#"
    absolute_redirect off;
    server {{
        listen 127.0.0.1:{port}; server_name one.test www.one.test; root one;
        error_page 404 /404.html;
        add_header X-Rule all always;
        location /assets/ {{ add_header X-Rule assets always; add_header Cache-Control max-age=60 always; }}
        location /old/ {{ rewrite ^/old/(.*)$ /new/$1 permanent; }}
        location = /fixed {{ return 308 /new/; }}
    }}
    server {{ listen 127.0.0.1:{port}; server_name *.one.test; root star; }}
    server {{ listen 127.0.0.1:{port} default_server; root other; }}
    "#
    )
}

fn prepare(folder: &Path, port: u16) {
    for (name, content) in [
        ("one/index.html", "one"),
        ("one/404.html", "not here"),
        ("one/assets/a.txt", "a"),
        ("one/new/a.txt", "new"),
        ("star/index.html", "star"),
        ("other/index.html", "other"),
    ] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    nginx::configure(folder, &theirs(port));
}

/// What counts of an answer: status, address, fields of rules, and the body of a document or an error page of ours.
fn essence(answer: &str) -> Vec<String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default().split(' ').nth(1);
    let counts = ["location: ", "x-rule: ", "cache-control: "];
    let fields = lines.map(|line| {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        format!("{}: {value}", name.to_ascii_lowercase())
    });
    let mut fields: Vec<String> = fields
        .filter(|line| counts.iter().any(|name| line.starts_with(name)))
        .collect();
    fields.sort();
    let body = if body.contains("<h1>") {
        ""
    } else {
        body.trim_end()
    };
    let status = status.unwrap_or_default().to_owned();
    [status]
        .into_iter()
        .chain(fields)
        .chain([body.to_owned()])
        .collect()
}

/// A request's host, target and fields, and what nginx answers otherwise, with the reason.
type Case = (
    &'static str,
    &'static str,
    Option<(&'static [&'static str], &'static str)>,
);

const CASES: &[Case] = &[
    ("one.test", "/", None),
    ("ONE.test:81", "/", None),
    ("one.test.", "/", None),
    ("www.one.test", "/", None),
    ("a.b.one.test", "/", None),
    ("notone.test", "/", None),
    ("one.test.evil", "/", None),
    ("127.0.0.1", "/", None),
    ("other", "http://one.test/", None),
    ("one.test", "http://a.one.test/", None),
    ("one.test", "/assets/a.txt", None),
    (
        "one.test",
        "/assets/none",
        Some((
            &["404", "x-rule: all", "not here"],
            "nginx takes the rules of the error page's own path, we those of the path that was asked for",
        )),
    ),
    ("one.test", "/none", None),
    ("a.one.test", "/none", None),
    ("one.test", "/old/a.txt", None),
    ("one.test", "/old/a.txt?q=1", None),
    ("one.test", "/old/", None),
    ("one.test", "/old/x/../a%20b", None),
    ("one.test", "/fixed?q", None),
    ("one.test", "/fixed", None),
    ("one.test", "/assets", None),
];

#[test]
fn nginx_agrees_or_the_difference_is_explained() {
    let mut files = None;
    let started = Nginx::start(|folder, port| {
        prepare(folder, port);
        files = Some(folder.to_path_buf());
    });
    let Some(nginx) = started else {
        eprintln!("SKIPPED: nginx_agrees_or_the_difference_is_explained needs nginx");
        return;
    };
    let file = files.unwrap().join("serve.toml");
    let sites = serve::content::sites::load(&Config::parse(&file, OURS).unwrap()).unwrap();
    let mut server = Server::new(sites, NOW_SECS);
    let mut surprises = Vec::new();
    for (host, target, differs) in CASES {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut client = Client::new(&mut server, usize::MAX);
        client.send(request.as_bytes());
        let ours = essence(&client.end().text());
        let wanted = match differs {
            Some((wanted, _)) => wanted.iter().map(|line| (*line).to_owned()).collect(),
            None => ours.clone(),
        };
        let theirs = essence(&nginx.answer(&request, |answer| essence(answer) == wanted));
        if theirs != wanted {
            surprises.push(format!("{host} {target}: ours {ours:?}, nginx {theirs:?}"));
        }
    }
    nginx.assert_none(&surprises);
}
