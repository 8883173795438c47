//! A head that is ready says what one says that is made for the request.

use std::fs;

use exos_application::asking::Head as Sent;

use super::*;
use crate::applications::heads::Heads;
use crate::config::Config;
use crate::http::attempt::Attempt;
use crate::http::connection::{Next, ServerConnection};
use crate::limits::LENGTHS_ALIKE;
use crate::serve::content::sites;

/// Two sites of one application, of which one sets a field.
const SITES: &str = "[[site]]\nroot = \"www\"\nnames = [\"one.test\"]\n\
    [[site.fastcgi]]\npath = \"/*\"\nto = \"/run/app\"\n\
    [[site]]\nroot = \"www\"\nnames = [\"two.test\"]\n\
    [[site.fastcgi]]\npath = \"/*\"\nto = \"/run/app\"\n\
    [[site.fields]]\npath = \"*\"\nset = { X-Set = \"by a rule\" }\n";

fn server() -> Server {
    let folder = std::env::temp_dir().join(format!("exos-ready-{}", std::process::id()));
    fs::create_dir_all(folder.join("www")).unwrap();
    let config = Config::parse(&folder.join("serve.toml"), SITES).unwrap();
    let sites = sites::load(&config).unwrap_or_else(|errors| panic!("{errors:?}"));
    fs::remove_dir_all(folder).unwrap();
    Server::new(sites, 0)
}

fn asking(server: &mut Server, is_encrypted: bool, request: &str) -> Box<Asking> {
    let attempt = Attempt {
        is_encrypted,
        ..Attempt::default()
    };
    let (mut connection, mut out) = (ServerConnection::new(), Vec::new());
    let request = request.as_bytes();
    match connection
        .handle_again(server, request, 1 << 20, attempt, &mut out)
        .next
    {
        Next::Ask(asking) => asking,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ready_heads_are_those_that_are_made_for_each_request() {
    let (mut server, mut heads, mut count) = (server(), Heads::default(), 0);
    server.announce_http3(443);
    for (status, length) in [("200", 1000), ("204", 0), ("304", 1000), ("404", 7)] {
        let text = format!("Status: {status}\r\nA: b\r\nX-Set: by itself\r\n\r\n");
        let sent = Sent {
            bytes: text.into_bytes().into(),
            is_again: true,
            length: Some(length),
        };
        for request in 0..32 {
            let is = |bit: u32| request >> bit & 1 == 1;
            let method = ["GET", "HEAD"][usize::from(is(0))];
            let version = ["1.0", "1.1"][usize::from(is(1))];
            let (site, persistent) = (["one", "two"][usize::from(is(2))], is(3));
            let text = format!(
                "{method} /a HTTP/{version}\r\nHost: {site}.test\r\nConnection: keep-alive\r\n\r\n"
            );
            let asking = asking(&mut server, is(4), &text);
            let mut parse = || heads.parse(&sent, asking.more_fields()).unwrap();
            let known = (0..LENGTHS_ALIKE).map(|_| parse()).last().unwrap();
            let framing = asking.framing(&known);
            let made = server.application_head(&asking, &known, framing, persistent, 0);
            let Some(ready) = server.ready_head(&asking, &known, persistent) else {
                // A status that answers of ours do not have.
                assert_eq!(status, "204");
                continue;
            };
            let ready = ready.map(|slice| slice.as_bytes().to_vec()).concat();
            let (made, ready) = (String::from_utf8(made), String::from_utf8(ready));
            assert_eq!(ready, made, "{text}");
            count += usize::from(ready.unwrap().contains("X-Set: by a rule\r\n"));
        }
    }
    assert_eq!(count, 3 * 16);
}
