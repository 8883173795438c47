//! Configurations: what is understood, and what is said about what is not.

use std::path::Path;

use exos_cheetah::config::{Config, Root};

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
    let text = include_str!("../../../dist/serve.toml");
    let config = parse(text).unwrap();
    assert_eq!(config.port, 80);
    assert_eq!(config.link.address.len(), 2);
    assert_eq!(config.tcp.receive_buffer, Some(64 << 10));
    assert_eq!(config.sites[0].root, Root::Directory("/srv/www".into()));
    // So is every line of it that is commented out, in its place.
    let line = |line: &str| match line.strip_prefix("# ") {
        Some(key) if key.contains(" = ") => key.to_owned(),
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
    assert!(config.link.link.is_none() && !config.tcp.no_sack);
}

/// Every error is told at once, in the order of the lines, with what to write instead.
#[test]
fn all_errors_are_told_at_once() {
    let said = complaints(
        "prot = 80\nport = 70000\n[link]\nname = \"eth0\"\naddresses = [\"192.0.2.7\"]\n\
         [tcp]\nsack = 1\ncongestion = \"vegas\"\n[limits]\ndocument = \"9GB\"\n\
         [[site]]\nroot = \"/srv\"\nindx = []\n[sites]\n",
    );
    let wanted = [
        ("1: ", "no key `prot` here; write one of `port`"),
        ("2: ", "from 1 to 65535"),
        ("4: ", "xdp:INTERFACE"),
        ("5: ", "192.0.2.7/24"),
        ("7: ", "write true or false"),
        ("8: ", "cubic"),
        ("10: ", "512MiB"),
        ("13: ", "no key `indx`"),
        ("14: ", "no key `sites`"),
    ];
    assert_eq!(said.len(), wanted.len(), "{said:#?}");
    for (said, (line, what)) in said.iter().zip(wanted) {
        assert!(said.starts_with(line) && said.contains(what), "{said}");
    }
}

#[test]
fn what_is_missing_or_malformed_is_named() {
    for (text, line, what) in [
        ("", " ", "write [[site]]"),
        ("[[site]]\n", "1: ", "write root ="),
        ("[[site]]\nroot = \n", "2: ", "toml.io"),
        ("port = 1\nport = 2\n", "2: ", "duplicate key"),
        ("[site]\nroot = \"/srv\"\n", "1: ", "write a list"),
        ("[[site]]\nroot = 5\n", "2: ", "a text in double quotes"),
        ("site = [1]\n", "1: ", "[[site]]"),
        ("link = 3\n", "1: ", "[link]"),
    ] {
        let said = complaints(text).join("\n");
        assert!(
            said.starts_with(line) && said.contains(what),
            "{text:?}: {said}"
        );
    }
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
