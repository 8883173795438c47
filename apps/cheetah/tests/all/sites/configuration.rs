//! Configurations: what is understood, and what is said about what is not.

use std::path::Path;
use std::time::Duration;

use exos_cheetah::applications::rules::Scope;
use exos_cheetah::config::{CacheSize, Config, Root};

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("/etc/exos/serve.toml"), text).map_err(|errors| errors.to_string())
}

/// What is said about a configuration that cannot stand, a line for each error, without the file's name.
fn complaints(text: &str) -> Vec<String> {
    let said = parse(text).expect_err(text);
    let without_name = |line: &str| {
        line.strip_prefix("/etc/exos/serve.toml:")
            .unwrap()
            .to_owned()
    };
    said.lines().map(without_name).collect()
}

/// The example in dist/ has every key, and is understood.
#[test]
fn the_example_is_understood() {
    let text = include_str!("../../../../../dist/serve.toml");
    let config = parse(text).unwrap();
    assert_eq!(config.port, 80);
    assert_eq!(config.link.address.len(), 2);
    assert_eq!(config.tcp.receive_buffer, Some(64 << 10));
    assert_eq!(config.log.file, Some("/var/log/exos/access.log".into()));
    assert_eq!(config.status.path.as_deref(), Some("/.exos"));
    assert_eq!(config.cache, CacheSize::Percent(25));
    assert_eq!(config.bounds.max_connections, Some(1 << 20));
    assert_eq!(config.status.allow, ["192.0.2.0/24".parse().unwrap()]);
    assert_eq!(config.sites[0].root, Root::Directory("/srv/www".into()));
    assert_eq!((config.sites.len(), config.default_site), (2, 0));
    // So is every line of it that is commented out, in its place.
    let line = |line: &str| match line.strip_prefix("# ") {
        Some(key) if key.find(" = ") == key.find(' ') => key.to_owned(),
        _ => line.to_owned(),
    };
    let whole: Vec<String> = text.lines().map(line).collect();
    parse(&whole.join("\n")).unwrap();
}

#[test]
fn little_is_needed_and_the_rest_has_defaults() {
    let config = parse("[[site]]\nroot = \"www\"").unwrap();
    assert_eq!(config.port, 80);
    assert_eq!(config.sites.len(), 1);
    assert_eq!(
        config.sites[0].root,
        Root::Directory("/etc/exos/www".into()),
        "relative to the file"
    );
    assert_eq!(config.limits.files, 500_000);
    assert_eq!(config.cache, CacheSize::HalfOfAvailable);
    assert!(config.link.link.is_none() && !config.tcp.no_sack);
}

#[test]
fn a_stop_waits_as_long_as_is_said() {
    let clients = |keys: &str| format!("[clients]\n{keys}\n[[site]]\nroot = \"www\"");
    for (keys, wanted) in [
        ("", None),
        ("shutdown_timeout = \"5m\"", Some(300)),
        ("shutdown_timeout = \"0s\"", Some(0)),
        ("shutdown_timeout = \"24h\"", Some(86_400)),
    ] {
        let config = parse(&clients(keys)).unwrap();
        let said = config.bounds.shutdown_timeout;
        assert_eq!(said, wanted.map(Duration::from_secs), "{keys}");
    }
    let said = complaints(&clients("shutdown_timeout = \"25h\""));
    assert_eq!(
        said,
        ["2: \"25h\" is out of bounds; write a time up to 24 h"]
    );
}

#[test]
fn cores_are_a_number_and_named_by_one_or_by_a_list() {
    let link = |keys: &str| parse(&format!("[link]\n{keys}\n[[site]]\nroot = \"www\""));
    for (keys, cores, named) in [
        ("", None, &[][..]),
        ("core = 3", None, &[3]),
        ("cores = 2\ncore = 1", Some(2), &[1]),
        ("core = [0, 2]", None, &[0, 2]),
    ] {
        let config = link(keys).unwrap();
        assert_eq!(
            (config.cores, &config.link.core[..]),
            (cores, named),
            "{keys}"
        );
    }
    for (keys, wanted) in [
        ("cores = 0", "2: 0 is out of bounds"),
        ("core = [0, -1]", "2: -1 is out of bounds"),
        ("core = \"0\"", "2: write a number, or a list of such"),
    ] {
        let said = complaints(&format!("[link]\n{keys}\n[[site]]\nroot = \"www\""));
        assert!(said[0].starts_with(wanted), "{keys}: {said:?}");
    }
}

#[test]
fn several_links_have_addresses_of_their_own() {
    let site = "[[site]]\nroot = \"www\"";
    let one = "[[link]]\nname = \"xdp:eth0\"\naddresses = [\"192.0.2.7/24\"]\n";
    let other = "[[link]]\nname = \"xdp:eth1\"\naddresses = [\"198.51.100.7/24\"]\n\
                 gateways = [\"198.51.100.1\"]\n";
    let config = parse(&format!("{one}{other}{site}")).unwrap();
    let each = config.link.each().unwrap();
    let names: Vec<_> = each
        .iter()
        .map(|l| l.link.as_ref().unwrap().interface())
        .collect();
    assert_eq!(names, ["eth0", "eth1"]);
    assert_eq!(each[1].address, ["198.51.100.7/24".parse().unwrap()]);
    assert_eq!((each[0].gateway.len(), each[1].gateway.len()), (0, 1));
    let said = |text: &str| complaints(&format!("{text}{site}")).remove(0);
    let nameless = said("[[link]]\nname = \"xdp:eth1\"\n[[link]]\naddresses = []\n");
    assert!(nameless.contains("add name = "), "{nameless}");
    let core = said(&format!("{one}[[link]]\nname = \"xdp:eth1\"\ncores = 2\n"));
    assert!(
        core.starts_with("6: ") && core.contains("first [[link]]"),
        "{core}"
    );
    let bad = said(&format!("{one}[[link]]\nname = \"eth1\"\n"));
    assert!(
        bad.starts_with("5: ") && bad.contains("xdp:INTERFACE"),
        "{bad}"
    );
}

#[test]
fn the_log_is_in_a_file_or_on_standard_output() {
    for (text, file) in [
        ("file = \"log\"", Some("/etc/exos/log")),
        ("file = \"-\"\nformat = \"json\"", Some("-")),
        ("", None),
    ] {
        let config = parse(&format!("[log]\n{text}\n[[site]]\nroot = \"www\"")).unwrap();
        assert_eq!(config.log.file, file.map(Into::into));
    }
    assert_eq!(
        complaints("[log]\nformat = \"nginx\"\n[[site]]\nroot = \"www\""),
        ["2: \"nginx\" is no format; write common, combined or json"]
    );
}

/// Every error is told at once, in the order of the lines, with what to write instead.
#[test]
fn all_errors_are_told_at_once() {
    let said = complaints(
        "prot = 80\nport = 70000\n[link]\nname = \"eth0\"\naddresses = [\"192.0.2.7\"]\n\
         [tcp]\nsack = 1\ncongestion = \"vegas\"\n[limits]\ndocument = \"9 pages\"\n\
         [[site]]\nroot = \"/srv\"\nindx = []\n[sites]\n",
    );
    let wanted = [
        ("1: ", "no key `prot` here; write one of `port`"),
        ("2: ", "from 1 to 65535"),
        ("4: ", "xdp:INTERFACE"),
        ("5: ", "192.0.2.7/24"),
        ("7: ", "write true or false"),
        ("8: ", "cubic"),
        ("10: ", "64kb"),
        ("13: ", "no key `indx`"),
        ("14: ", "no key `sites`"),
    ];
    assert_eq!(said.len(), wanted.len(), "{said:#?}");
    for (said, (line, what)) in said.iter().zip(wanted) {
        assert!(said.starts_with(line) && said.contains(what), "{said}");
    }
}

/// What follows a bracket that was forgotten is no second mistake.
#[test]
fn one_forgotten_bracket_is_one_error() {
    for text in [
        "[[site]]\nroot = \"/srv\"\nnames = [\"a.org\", \"b.org\"\n[cache]\nsize = \"25%\"\n",
        "port = 80\n[[site]\nroot = \"/srv\"\n[site.types]\ngmi = \"text/gemini\"\n",
        "[log\nfile = \"a\"\nformat = \"json\"\n[[site]]\nroot = \"/srv\"\n",
        "[[site]]\nroot = \"/srv\n[site.types]\ngmi = \"text/gemini\"\n",
        "[[site]]\nroot = \"/srv\"\n[[site.fields]]\npath = \"*\"\nset = { A = \"b\"\n[[site]]\nroot = \"/other\"\n",
    ] {
        let said = complaints(text);
        assert_eq!(said.len(), 1, "{text:?}: {said:#?}");
        assert!(said[0].contains("toml.io"), "{said:?}");
    }
}

#[test]
fn what_is_missing_or_malformed_is_named() {
    for (text, line, what) in [
        ("", " ", "write [[site]]"),
        ("[[site]]\n", "1: ", "write root ="),
        ("[[site]]\nroot = \n", "2: ", "toml.io"),
        ("port = 1\nport = 2\n", "2: ", "duplicate key"),
        ("[site]\nroot = \"/srv\"\n", "1: ", "name in [[ ]]"),
        ("[[site]]\nroot = 5\n", "2: ", "a text in double quotes"),
        ("site = [1]\n", "1: ", "[[site]]"),
        ("link = 3\n", "1: ", "[link]"),
        ("cache = 3\n", "1: ", "[cache]"),
        (
            "[cache]\nsize = \"99%\"\n[[site]]\nroot = \"a\"",
            "2: ",
            "\"1%\" to \"90%\"",
        ),
        (
            "[cache]\nsize = \"1KiB\"\n[[site]]\nroot = \"a\"",
            "2: ",
            "at least \"1MiB\"",
        ),
        (
            "[limits]\nsite = \"2GiB\"\n[[site]]\nroot = \"a\"",
            "2: ",
            "no key `site`",
        ),
    ] {
        let said = complaints(text).join("\n");
        assert!(
            said.starts_with(line) && said.contains(what),
            "{text:?}: {said}"
        );
    }
}

/// What is said about a key of a site.
#[test]
fn sites_are_checked() {
    let site = "[[site]]\nroot = \"a\"\n";
    for (rest, line, what) in [
        ("names = [\"a:80\"]", 3, "ports do not count"),
        ("names = [\"a\", \"A.\"]", 3, "named in line 3"),
        ("index = [\"a/b\"]", 3, "index.html"),
        ("types = { \".txt\" = \"text/plain\" }", 3, "without dots"),
        ("types = { txt = \"plain\" }", 3, "text/html"),
        ("error_pages = { 200 = \"/a\" }", 3, "write one of 400"),
        ("error_pages = { 404 = \"a.html\" }", 3, "/errors/404.html"),
        ("[[site.fields]]\npath = \"a\"", 4, "*.css"),
        ("[[site.fields]]\nset = {}", 3, "write path ="),
        (
            "[[site.fields]]\npath = \"*\"\nset = { Content-Length = \"1\" }",
            5,
            "by the server itself",
        ),
        (
            "[[site.fields]]\npath = \"*\"\nset = { A = \"a\\r\\nB: c\" }",
            5,
            "one line of ASCII",
        ),
        (
            "[[site.fields]]\npath = \"*\"\nset = { A = \"1\", a = \"2\" }",
            5,
            "write a list",
        ),
        (
            "[[site.fields]]\npath = \"*\"\nset = { A = 1 }",
            5,
            "a list of such",
        ),
        (
            "[[site.fields]]\npath = \"*\"\n[[site.fields]]\npath = \"*\"",
            6,
            "line 4 too",
        ),
        ("[[site.redirect]]\nfrom = \"/a\"", 3, "write from ="),
        (
            "[[site.redirect]]\nfrom = \"/a\"\nto = \"b\"",
            5,
            "https://example.org/*",
        ),
        (
            "[[site.redirect]]\nfrom = \"/a\"\nto = \"/b/*\"",
            3,
            "write one there",
        ),
        (
            "[[site.redirect]]\nfrom = \"/*\"\nto = \"/b/*\"",
            3,
            "back to itself",
        ),
        (
            "[[site.redirect]]\nfrom = \"/a\"\nto = \"/b\"\nstatus = 303",
            6,
            "301, 302, 307 or 308",
        ),
        ("[[site]]\nroot = \"b\"", 3, "nothing leads to this site"),
        (
            "default = true\n[[site]]\ndefault = true\nnames = [\"b\"]\nroot = \"b\"",
            4,
            "line 1 already",
        ),
    ] {
        let said = complaints(&format!("{site}{rest}"));
        let is_it = |said: &String| said.starts_with(&format!("{line}: ")) && said.contains(what);
        assert!(said.len() == 1 && is_it(&said[0]), "{rest:?}: {said:?}");
    }
    let said = complaints(&format!("unknown_hosts = \"421\"\n{site}"));
    assert!(
        said[0].starts_with("1: ") && said[0].contains("refuse"),
        "{said:?}"
    );
}

#[test]
fn files_that_are_none_are_refused() {
    for (file, what) in [
        ("/nowhere/serve.toml", "cannot be read"),
        ("/etc", "is not a file"),
    ] {
        let said = Config::read(Path::new(file)).unwrap_err().to_string();
        assert!(said.starts_with(file) && said.contains(what), "{said}");
    }
}

#[test]
fn applications_have_defaults_and_a_place() {
    let site = "[[site]]\nroot = \"www\"\n";
    let config = parse(&format!(
        "{site}[[site.fastcgi]]\nextension = \".php\"\nto = \"/run/app\"\n\
         [[site.fastcgi]]\npath = \"/app/*\"\nto = \"127.0.0.1:9000\"\nroot = \"/elsewhere/\"\ntimeout = \"1.5s\"\nkeep = 2\nbody = \"1MiB\"\n\
         parameters = {{ appName = \"own on\", z = \"{}\" }}",
        // All that fits.
        "x".repeat(4096 - "appName".len() - "own on".len() - 1)
    ));
    let settings = config.unwrap().sites[0].settings.clone();
    assert_eq!(settings.index, ["index.php", "index.html"]);
    let all: Vec<_> = settings
        .applications
        .iter()
        .map(|rule| &rule.application)
        .collect();
    assert_eq!(all.len(), 2);
    let (path, extension) = (all[0], all[1]);
    assert_eq!(extension.addresses[0].to_string(), "/run/app");
    assert_eq!(
        (&extension.root[..], &path.root[..]),
        (&b"/etc/exos/www"[..], &b"/elsewhere"[..])
    );
    assert_eq!(
        (extension.timeout.as_secs(), path.timeout.as_millis()),
        (60, 1500)
    );
    assert_eq!((extension.keep, path.keep), (0, 2));
    assert_eq!(extension.parameters, b"");
    assert!(path.parameters.starts_with(b"\x07\x06appNameown on") && path.parameters.len() > 4095);
    assert_eq!((extension.body_max, path.body_max), (8 << 20, 1 << 20));
    assert_eq!((extension.connections, path.connections), (64, 64));
    let own = parse(
        "[[site]]\nroot = \"www\"\nindex = [\"a.html\"]\n[[site.fastcgi]]\nextension = \".php\"\nto = \"/run/app\"",
    );
    assert_eq!(own.unwrap().sites[0].settings.index, ["a.html"]);
}

#[test]
fn a_front_is_a_rule_behind_that_of_its_extension() {
    for (files, is_checked) in [("", true), ("files = false\n", false)] {
        let config = parse(&format!(
            "[[site]]\nroot = \"www\"\n[[site.fastcgi]]\nextension = \".php\"\nto = \"/run/app\"\n{files}front = \"/blog/index.php\""
        ));
        let settings = config.unwrap().sites[0].settings.clone();
        let scopes: Vec<_> = settings
            .applications
            .iter()
            .map(|rule| &rule.scope)
            .collect();
        let extension = Scope::extension(".php").unwrap().only_documents(is_checked);
        let front = Scope::Front("/blog/index.php".to_owned(), is_checked);
        assert_eq!(scopes, [&extension, &front]);
        assert_eq!(settings.index, ["index.php", "index.html"]);
    }
}

#[test]
fn what_is_wrong_with_applications_is_said() {
    let site =
        "[[site]]\nroot = \"www\"\n[site.error_pages]\n404 = \"/404.php\"\n[[site.fastcgi]]\n";
    for (keys, wanted) in [
        ("extension = \".php\"", "5: nobody answers; write to ="),
        (
            "to = \"/run/app\"",
            "5: the rule is about nothing; write extension =",
        ),
        (
            "extension = \"php\"\nto = \"/run/app\"",
            "6: \"php\" is no extension",
        ),
        (
            "path = \"*.php\"\nto = \"/run/app\"",
            "6: \"*.php\" is no path of an application",
        ),
        (
            "path = \"/a\"\nextension = \".php\"\nto = \"/run/app\"",
            "6: a rule is about an extension or",
        ),
        (
            "path = \"/a\"\nto = \"run/app\"",
            "7: \"run/app\" is no address of an application",
        ),
        (
            "path = \"/a\"\nto = \"/run/app\"\nroot = \"www\"",
            "8: \"www\" is no root",
        ),
        (
            "path = \"/a\"\nto = \"/run/app\"\ntimeout = \"2h\"",
            "8: \"2h\" is",
        ),
        (
            "path = \"/a\"\nto = \"/run/app\"\ntimeout = \"0s\"",
            "8: \"0s\" is out of bounds",
        ),
        (
            "path = \"/a\"\nto = \"/run/app\"\nconnections = 0",
            "8: 0 is out of bounds",
        ),
        (
            "path = \"/a\"\nto = \"/run/app\"\nparameters = { \"app-env\" = \"x\" }",
            "8: \"app-env\" is no parameter; write a name",
        ),
        (
            "path = \"/a\"\nto = \"/run/app\"\nparameters = { SCRIPT_FILENAME = \"/etc/x.php\" }",
            "8: \"SCRIPT_FILENAME\" is what the server tells of each request",
        ),
        (
            "path = \"/a\"\nto = \"/run/app\"\nparameters = { http_host = \"x\" }",
            "8: \"http_host\" is what the server tells",
        ),
        (
            "path = \"/a\"\nto = \"/run/app\"\nparameters = { A = \"\\u0000\" }",
            "8: \"A\" has a byte 0",
        ),
        (
            &format!(
                "path = \"/a\"\nto = \"/run/app\"\nparameters = {{ A = \"{}\" }}",
                "x".repeat(4096)
            ),
            "8: parameters may be 4096 bytes long together",
        ),
        (
            "path = \"/a\"\nto = \"/run/app\"\n[[site.fastcgi]]\npath = \"/a\"\nto = \"/b\"",
            "9: \"/a\" is there in line 6 too",
        ),
        (
            "path = \"/a/*\"\nto = \"/run/app\"\nfront = \"/a/index.php\"",
            "8: a front is a script",
        ),
        (
            "extension = \".php\"\nto = \"/run/app\"\nfront = \"index.php\"",
            "8: \"index.php\" is no",
        ),
        (
            "extension = \".php\"\nto = \"/run/app\"\nfront = \"/index.html\"",
            "8: \"/index.html\" is no path of a script",
        ),
        (
            "extension = \".php\"\nto = \"/run/app\"",
            "4: the error page 404 is a script",
        ),
    ] {
        let said = complaints(&format!("{site}{keys}"));
        assert!(
            said.iter().any(|line| line.starts_with(wanted)),
            "{keys}: {said:?}"
        );
    }
}
