//! `[[site.proxy]]`: what it means, what is wrong with it, and which requests are for upstreams.

use std::path::Path;
use std::time::Duration;

use exos_buf::Slice;
use exos_cheetah::applications::proxy::HostField;
use exos_cheetah::applications::rules::{Rule, Scope};
use exos_cheetah::applications::upload::Length;
use exos_cheetah::caching::CacheRules;
use exos_cheetah::config::{Config, Root};
use exos_cheetah::{Next, Server, ServerConnection};

use crate::sites::Folder;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("/etc/exos/serve.toml"), text).map_err(|errors| errors.to_string())
}

#[test]
fn upstreams_have_defaults_and_more() {
    let config = parse(
        "[[site]]\n[[site.proxy]]\npath = \"/a\"\nto = \"http://10.0.0.5\"\n\
         [[site.proxy]]\npath = \"/b/*\"\nto = [\"http://[::1]:81/c/\", \"http://unix:/run/app:/c\"]\nhost = \"upstream\"\n\
         trusted = [\"10.0.0.0/8\"]\nupgrades = false\ntimeout = \"1s\"\nconnect_timeout = \"2s\"\ntunnel_timeout = \"3s\"\n\
         keep_timeout = \"4s\"\nfail_timeout = \"5s\"\nbody = \"1GiB\"\nconnections = 6\nkeep = 7\n",
    )
    .unwrap();
    assert_eq!(config.sites[0].root, Root::Nowhere);
    let rules: Vec<_> = config.sites[0].settings.applications.iter().collect();
    // The path itself, what is below it, and the other.
    assert_eq!(rules.len(), 3);
    let (plain, other) = (&rules[0].application, &rules[2].application);
    assert_eq!(plain.addresses[0].to_string(), "http://10.0.0.5:80");
    let proxy = plain.proxy.as_ref().unwrap();
    assert_eq!((&proxy.base, &proxy.host), (&None, &HostField::Client));
    assert!(proxy.upgrades && proxy.trusted.is_empty());
    assert_eq!((plain.connections, plain.keep), (512, 64));
    let addresses: Vec<String> = other.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["http://[::1]:81", "http://unix:/run/app"]);
    let proxy = other.proxy.as_ref().unwrap();
    assert_eq!(proxy.base.as_deref(), Some("/c"));
    assert_eq!((&proxy.host, proxy.upgrades), (&HostField::Upstream, false));
    assert_eq!(proxy.trusted, ["10.0.0.0/8".parse().unwrap()]);
    let times = [
        other.timeout,
        proxy.connect_time,
        proxy.tunnel_time,
        proxy.keep_time,
        proxy.fail_time,
    ];
    assert_eq!(times, [1, 2, 3, 4, 5].map(Duration::from_secs));
    assert_eq!((other.connections, other.keep), (6, 7));
    assert_eq!(other.body_max, 1 << 30);
}

#[test]
fn answers_are_kept_and_upstreams_asked_whether_they_are_well_where_a_rule_says_so() {
    let config = parse(
        "[[site]]\n[[site.proxy]]\npath = \"/a\"\nto = \"http://10.0.0.5\"\ncache = true\n\
         check = { path = \"/health?x\", host = \"a.test\", interval = \"1s\", timeout = \"2s\", fails = 4, passes = 5 }\n\
         [[site.proxy]]\npath = \"/b\"\nto = \"http://10.0.0.5\"\ncache = { answer = \"1KiB\", share = \"9%\", \
         obey_clients = false, guess = \"1h\", stale_while_revalidate = \"6s\", stale_if_error = \"7s\", purge = [\"10.0.0.0/8\"] }\n\
         [[site.proxy]]\npath = \"/c\"\nto = \"http://10.0.0.5\"\ncache = false\nset = { A = \"{client_address}\" }\n\
         [[site.proxy]]\npath = \"/d\"\nto = \"http://10.0.0.5\"\ncache = true\nset = { Cookie = \"\", B = \"{host}\" }\n",
    )
    .unwrap();
    let rules = &config.sites[0].settings.applications;
    let proxy = |path: &str| {
        let is_it = |rule: &&Rule| matches!(&rule.scope, Scope::Path(it) if it.to_string() == path);
        let rule = rules.iter().find(is_it).unwrap();
        rule.application.proxy.clone().unwrap()
    };
    assert_eq!(proxy("/a").cache.as_deref(), Some(&CacheRules::default()));
    // What is below is of the same rule, and what is kept too.
    let (whole, below) = (proxy("/a").cache.unwrap(), proxy("/a/*").cache.unwrap());
    assert!(std::sync::Arc::ptr_eq(&whole, &below));
    // Of what a rule sets, clients say nothing by which answers could differ.
    let mut withheld = proxy("/d").cache.unwrap().withheld.clone();
    withheld.sort();
    assert_eq!(withheld, ["B", "Cookie"]);
    let check = proxy("/a").check.unwrap();
    assert_eq!(
        (&*check.path, check.host.as_deref()),
        ("/health?x", Some("a.test"))
    );
    let times = [check.interval, check.timeout].map(|time| time.as_secs());
    assert_eq!((times, check.fails, check.passes), ([1, 2], 4, 5));
    let wanted = CacheRules {
        answer_len_max: 1024,
        share_percent: 9,
        obeys_clients: false,
        heuristic: Some(Duration::from_secs(3600)),
        stale_while_revalidate: Duration::from_secs(6),
        stale_if_error: Duration::from_secs(7),
        purgers: vec!["10.0.0.0/8".parse().unwrap()],
        withheld: Vec::new(),
    };
    assert_eq!(proxy("/b").cache.as_deref(), Some(&wanted));
    assert_eq!((proxy("/c").cache, proxy("/c").check), (None, None));
}

#[test]
fn what_is_wrong_with_upstreams_is_said() {
    let rule = "path = \"/a\"\nto = \"http://10.0.0.5\"";
    for (keys, wanted) in [
        ("path = \"/a\"", "2: nobody answers; write to ="),
        (
            "to = \"http://10.0.0.5\"",
            "2: the rule is about nothing; write path =",
        ),
        (
            "path = \"a\"\nto = \"http://10.0.0.5\"",
            "3: \"a\" is no path",
        ),
        (
            "path = \"*.php\"\nto = \"http://10.0.0.5\"",
            "3: \"*.php\" is no path",
        ),
        (
            "path = \"/a\"\nto = \"10.0.0.5\"",
            "4: \"10.0.0.5\" does not say how it is asked; write \"http://10.0.0.5\"",
        ),
        (
            "path = \"/a\"\nto = \"https://unix:/run/a\"",
            "4: \"https://unix:/run/a\" is a socket of this host",
        ),
        ("path = \"/a\"\nto = []", "4: nobody answers"),
        (
            "path = \"/a\"\nto = [\"http://10.0.0.5/a\", \"http://10.0.0.6\"]",
            "4: upstreams of one rule have one path",
        ),
        (
            "path = \"/a\"\nto = [\"http://10.0.0.5\", \"http://10.0.0.5:80\"]",
            "4: http://10.0.0.5:80 is there twice",
        ),
        (&format!("{rule}\nhost = \"a b\""), "5: \"a b\" is no host"),
        (&format!("{rule}\ntrusted = [\"x\"]"), "5: \"x\" is neither"),
        (
            &format!("{rule}\nconnect_timeout = \"2h\""),
            "5: \"2h\" is out of bounds",
        ),
        (&format!("{rule}\nconnections = 0"), "5: 0 is out of bounds"),
        (
            &format!("{rule}\n[[site.proxy]]\n{rule}"),
            "6: \"/a\" is there in line 3 too",
        ),
        (
            &format!("{rule}\n[[site.proxy]]\npath = \"/a/\"\nto = \"http://10.0.0.6\""),
            "6: \"/a/\" is there in line 3 too",
        ),
        (
            &format!("{rule}\n[[site.fastcgi]]\npath = \"/a/*\"\nto = \"/run/a\""),
            "3: \"/a\" is there in line 6 too",
        ),
        (
            "path = \"/a\"\nto = \"http://10.0.0.5/b\"\nraw = true",
            "2: raw has targets go on",
        ),
        (
            &format!("{rule}\nfiles_first = true"),
            "2: files_first is about documents",
        ),
        (
            &format!("{rule}\ntls_name = \"a\""),
            "2: ca and tls_name are about HTTPS",
        ),
        (
            &format!("{rule}\ncache = 5"),
            "5: write true, false, or a table",
        ),
        (
            &format!("{rule}\ncache = {{ share = \"0%\" }}"),
            "5: \"0%\" is no share",
        ),
        (
            &format!("{rule}\ncache = {{ what = 1 }}"),
            "5: write true, false, or a table",
        ),
        (
            &format!("{rule}\ncheck = {{ interval = \"1s\" }}"),
            "5: nothing is asked for",
        ),
        (
            &format!("{rule}\ncheck = {{ path = \"a\" }}"),
            "5: \"a\" is no path",
        ),
        (
            &format!("{rule}\ncheck = {{ path = \"/\", fails = 0 }}"),
            "5: 0 is out of bounds",
        ),
        (
            "path = \"/a\"\nto = \"https://10.0.0.5\"\nca = \"none.pem\"",
            "4: ",
        ),
        (
            &format!("{rule}\nset = {{ Host = \"b\" }}"),
            "5: \"Host\" is what the key `host` of the rule says",
        ),
        (
            &format!("{rule}\nset = {{ X_Real_IP = \"b\" }}"),
            "5: \"X_Real_IP\" is no field for this; write a name",
        ),
        (
            &format!("{rule}\nset = {{ X-Forwarded-For = \"\" }}"),
            "5: \"X-Forwarded-For\" is written by the server itself",
        ),
        (
            &format!("{rule}\nset = {{ A = \"b\", a = \"c\" }}"),
            "5: \"a\" is there twice; write a list",
        ),
        (
            &format!("{rule}\nset = {{ A = \"b\" }}\ntls_fields = {{ a = \"tls_version\" }}"),
            "5: \"A\" is in tls_fields too",
        ),
        (
            &format!("{rule}\nset = {{ A = \"{{client}}\" }}"),
            "5: \"{client}\" has braces around nothing that is known of a request; write one of {client_address}, ",
        ),
        (
            &format!("{rule}\nset = {{ A = [\"b\", \"c\\r\\nD: e\"] }}"),
            "5: \"c\\r\\nD: e\" is no value of a header field",
        ),
        (
            &format!("{rule}\ncache = true\nset = {{ A = \"{{client_address}}\" }}"),
            "6: \"{client_address}\" makes answers depend on the client",
        ),
        (
            &format!("{rule}\nset = {{ A = \"{}\" }}", "x".repeat(4096)),
            "5: the fields that the rule sets may be longer than 4096 bytes",
        ),
        (
            &format!("{rule}\nset = {{ A = \"{}\" }}", "{host}".repeat(20)),
            "5: the fields that the rule sets may be longer than 4096 bytes",
        ),
        // Those who verify passwords follow documents.
        (
            &format!("{rule}\n[[site.access]]\npath = \"*\"\nusers = \"users\""),
            "1: the site has no documents",
        ),
    ] {
        let said = parse(&format!("[[site]]\n[[site.proxy]]\n{keys}\n")).unwrap_err();
        let wanted = format!("/etc/exos/serve.toml:{wanted}");
        assert!(
            said.lines().any(|line| line.starts_with(&wanted)),
            "{keys}: {said}"
        );
    }
}

/// Those that say where a message ends, about what connection it is, and what the server itself has to know, are nobody's to set.
#[test]
fn fields_that_frame_a_request_are_not_set() {
    let parse_with = |name: &str| {
        parse(&format!(
            "[[site]]\n[[site.proxy]]\npath = \"/a\"\nto = \"http://10.0.0.5\"\nset = {{ {name} = \"\" }}\n"
        ))
    };
    for name in [
        "Content-Length",
        "transfer-encoding",
        "Connection",
        "UPGRADE",
        "TE",
        "Trailer",
        "Expect",
        "Keep-Alive",
        "Proxy-Connection",
        "Max-Forwards",
        "If-None-Match",
        "Sec-WebSocket-Key",
        "Early-Data",
    ] {
        let said = parse_with(name).unwrap_err();
        let wanted =
            format!("{name:?} is about the connection, the message's length or what is kept");
        assert!(said.contains(&wanted), "{said}");
    }
    for name in [
        "X-Real-IP",
        "Authorization",
        "Cookie",
        "Accept-Encoding",
        "X-Forwarded-Port",
    ] {
        let config = parse_with(name).expect(name);
        let rule = config.sites[0].settings.applications.iter().next().unwrap();
        let proxy = rule.application.proxy.clone().unwrap();
        assert!(proxy.set.len() == 1 && proxy.set[0].values.is_empty());
    }
}

/// What becomes of a request: the head that an upstream is asked with, or the status of another answer.
fn asked(server: &mut Server, line: &str) -> Result<String, String> {
    asked_with(server, line, "")
}

fn asked_with(server: &mut Server, line: &str, fields: &str) -> Result<String, String> {
    let request = format!("{line} HTTP/1.1\r\nHost: client.test\r\n{fields}\r\n");
    let (mut connection, mut out) = (ServerConnection::new(), Vec::new());
    let handled = connection.handle_bytes(server, request.as_bytes(), 1 << 20, &mut out);
    let Next::Ask(asking) = handled.next else {
        let answer: Vec<u8> = out.iter().flat_map(Slice::as_bytes).copied().collect();
        return Err(String::from_utf8_lossy(&answer[9..12]).into_owned());
    };
    let to = asking.asked.application.addresses[0].clone();
    let head = asking.head_for(&to, Length::NONE, true);
    let head = String::from_utf8(head.unwrap()).unwrap();
    let line = head.lines().next().unwrap_or_default();
    Ok(format!("{to} {line}"))
}

#[test]
fn rules_say_which_requests_are_for_upstreams() {
    let folder = Folder::new(&[
        ("www/a.txt", ""),
        ("www/both/there.txt", ""),
        ("www/old", ""),
    ]);
    let mut server = folder.server(
        "[[site]]\nroot = \"www\"\n\
         [[site.proxy]]\npath = \"/api\"\nto = \"http://10.0.0.1\"\n\
         [[site.proxy]]\npath = \"/api/deep\"\nto = \"http://10.0.0.2/\"\n\
         [[site.proxy]]\npath = \"/both\"\nto = \"http://10.0.0.3/x\"\nfiles_first = true\n\
         [[site.access]]\npath = \"/api/closed/*\"\nrules = [\"deny all\"]\n\
         [[site.redirect]]\nfrom = \"/api/old\"\nto = \"/a.txt\"\n",
    );
    for (line, wanted) in [
        ("GET /api", Ok("http://10.0.0.1:80 GET /api")),
        ("GET /api/", Ok("http://10.0.0.1:80 GET /api/")),
        (
            "PROPFIND /api/x?y",
            Ok("http://10.0.0.1:80 PROPFIND /api/x?y"),
        ),
        ("GET /apix", Err("404")),
        ("GET /a.txt", Err("200")),
        (
            "GET /api/deep/x%20y?z",
            Ok("http://10.0.0.2:80 GET /x%20y?z"),
        ),
        ("GET /api/deep", Ok("http://10.0.0.2:80 GET /")),
        ("GET /api/x/../deep/y", Ok("http://10.0.0.2:80 GET /y")),
        ("GET /both/there.txt", Err("200")),
        ("GET /both/none", Ok("http://10.0.0.3:80 GET /x/none")),
        ("POST /both/none", Ok("http://10.0.0.3:80 POST /x/none")),
        // What is closed or elsewhere is so by each of its names.
        ("GET /api/closed/x", Err("403")),
        ("GET /api/%63losed/x", Err("403")),
        ("GET /api/y/..%2Fclosed/x", Err("403")),
        ("GET /api//closed/x", Err("403")),
        ("GET /api/old", Err("301")),
        ("TRACE /api/x", Err("405")),
        ("CONNECT /api/x", Err("405")),
    ] {
        let wanted = wanted
            .map(|it| format!("{it} HTTP/1.1"))
            .map_err(str::to_owned);
        assert_eq!(asked(&mut server, line), wanted, "{line}");
    }
    // RFC 9110 §7.6.2.
    for (count, is_passed_on) in [(0, false), (1, true)] {
        let fields = format!("Max-Forwards: {count}\r\n");
        let answer = asked_with(&mut server, "OPTIONS /api/x", &fields);
        assert_eq!(answer.is_ok(), is_passed_on, "{answer:?}");
    }
}
