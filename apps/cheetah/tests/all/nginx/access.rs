//! nginx with the same rules about access: networks and passwords lead to the same status, whatever is asked for.
//!
//! Runs where nginx is installed; elsewhere it says that it did nothing.

use std::fs;
use std::path::Path;

use exos_cheetah::Server;

use crate::common::NOW_SECS;
use crate::common::nginx::{self, Nginx};
use crate::sites::access::{ANN, RIGHT, answer, sites_of};
use crate::sites::{from, status};

const OURS: &str = r#"
    [[site]]
    root = "www"
    [[site.access]]
    path = "/none/*"
    rules = ["deny all"]
    [[site.access]]
    path = "/all/*"
    rules = ["allow all", "deny 127.0.0.1"]
    [[site.access]]
    path = "/here/*"
    rules = ["deny 192.0.2.0/24", "allow 127.0.0.0/8", "deny all"]
    [[site.access]]
    path = "/elsewhere/*"
    rules = ["allow 192.0.2.0/24", "allow 2001:db8::/32", "deny all"]
    [[site.access]]
    path = "/not-us/*"
    rules = ["deny 127.0.0.1", "allow all"]
    [[site.access]]
    path = "/staff/*"
    users = "users"
    realm = "Staff"
    [[site.access]]
    path = "/staff/open/*"
    users = ""
    [[site.access]]
    path = "/both/*"
    rules = ["deny 127.0.0.1"]
    users = "users"
"#;

fn theirs(port: u16) -> String {
    format!(
        r#"
    absolute_redirect off;
    server {{
        listen 127.0.0.1:{port}; root www;
        location /none/ {{ deny all; }}
        location /all/ {{ allow all; deny 127.0.0.1; }}
        location /here/ {{ deny 192.0.2.0/24; allow 127.0.0.0/8; deny all; }}
        location /elsewhere/ {{ allow 192.0.2.0/24; allow 2001:db8::/32; deny all; }}
        location /not-us/ {{ deny 127.0.0.1; allow all; }}
        location /staff/ {{
            auth_basic Staff; auth_basic_user_file users;
            location /staff/open/ {{ auth_basic off; }}
        }}
        location /both/ {{ deny 127.0.0.1; auth_basic Staff; auth_basic_user_file users; }}
    }}
    "#
    )
}

const FOLDERS: [&str; 8] = [
    "none",
    "all",
    "here",
    "elsewhere",
    "not-us",
    "staff",
    "staff/open",
    "both",
];

fn prepare(folder: &Path, port: u16) {
    for name in FOLDERS {
        let inside = folder.join("www").join(name);
        fs::create_dir_all(&inside).unwrap();
        fs::write(inside.join("index.html"), "index").unwrap();
        fs::write(inside.join("a.txt"), "a").unwrap();
    }
    fs::write(folder.join("users"), ANN).unwrap();
    nginx::configure(folder, &theirs(port));
}

#[test]
fn nginx_agrees_about_access() {
    let mut files = None;
    let started = Nginx::start(|folder, port| {
        prepare(folder, port);
        files = Some(folder.to_path_buf());
    });
    let Some(nginx) = started else {
        eprintln!("SKIPPED: nginx_agrees_about_access needs nginx");
        return;
    };
    let sites = sites_of(&files.unwrap().join("serve.toml"), OURS);
    let mut server = Server::new(sites, NOW_SECS);
    let local = from("127.0.0.1", 0);
    let fields = [
        "",
        RIGHT,
        "Authorization: Basic YW5uOndyb25n\r\n",
        "Authorization: Basic !\r\n",
        "authorization: basic  YW5uOkhlbGxvIHdvcmxkIQ==\r\n",
        "Authorization: Basic Ym9iOkhlbGxvIHdvcmxkIQ==\r\n",
        "Range: bytes=0-0\r\n",
        "If-None-Match: *\r\n",
    ];
    let mut surprises = Vec::new();
    for folder in FOLDERS {
        for target in ["/a.txt", "/%61.txt", "/", "/x/../a.txt", "/nothing", ""] {
            for (method, fields) in fields
                .iter()
                .map(|f| ("GET", f))
                .chain([("HEAD", &fields[0])])
            {
                let request = format!(
                    "{method} /{folder}{target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n"
                );
                let essence = |answer: &str| {
                    let asks = answer
                        .to_ascii_lowercase()
                        .contains("\r\nwww-authenticate: basic realm=");
                    (status(answer).to_owned(), asks)
                };
                let ours = essence(&answer(&mut server, local, &request));
                let theirs = essence(&nginx.answer(&request, |answer| essence(answer) == ours));
                if ours != theirs {
                    surprises.push(format!("{request:?}: ours {ours:?}, nginx {theirs:?}"));
                }
            }
        }
    }
    nginx.assert_none(&surprises);
}
