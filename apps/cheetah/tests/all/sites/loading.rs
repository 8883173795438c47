//! Loading a directory of the real file system: what is served, what is left out, and that
//! nothing outside is reached.

use crate::common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;

use common::Client;
use common::folder::Folder;
use exos_cheetah::site::{Entry, Limits, Omission, Reason};
use exos_cheetah::{Server, Site};

fn content(site: &Site, path: &str) -> Option<String> {
    let document = site.find(path.as_bytes())?.document()?;
    Some(String::from_utf8(document.body().as_bytes().to_vec()).unwrap())
}

fn is_forbidden(site: &Site, path: &str) -> bool {
    matches!(site.find(path.as_bytes()), Some(Entry::Forbidden))
}

fn texts(omissions: &[Omission]) -> Vec<String> {
    omissions.iter().map(ToString::to_string).collect()
}

#[test]
fn files_are_served_under_their_names() {
    let folder = Folder::new();
    folder.write("index.html", "root");
    folder.write("a/b/c.txt", "c");
    folder.write("a/index.html", "a");
    folder.write("naïve name%.txt", "odd");
    folder.write(".well-known/security.txt", "known");
    let (site, omissions) = folder.load_and_say(Limits::default());
    for (path, want) in [
        ("/", "root"),
        ("/index.html", "root"),
        ("/a/", "a"),
        ("/a/b/c.txt", "c"),
        ("/naïve name%.txt", "odd"),
        ("/.well-known/security.txt", "known"),
    ] {
        assert_eq!(content(&site, path).as_deref(), Some(want), "{path}");
    }
    assert!(matches!(site.find(b"/a"), Some(Entry::Directory)));
    assert!(matches!(site.find(b"/a/b"), Some(Entry::Directory)));
    assert!(is_forbidden(&site, "/a/b/"));
    assert!(site.find(b"/a/b/c").is_none());
    assert_eq!(
        (site.document_count(), site.content_len()),
        (5, 4 + 1 + 1 + 3 + 5)
    );
    assert_eq!(texts(&omissions), [""; 0]);
}

#[test]
fn hidden_files_are_left_out_and_not_admitted() {
    let folder = Folder::new();
    folder.write(".env", "secret");
    folder.write(".git/config", "secret");
    folder.write("a/.htpasswd", "secret");
    let (site, omissions) = folder.load_and_say(Limits::default());
    for path in ["/.env", "/.git", "/.git/", "/.git/config", "/a/.htpasswd"] {
        assert!(site.find(path.as_bytes()).is_none(), "{path}");
    }
    assert_eq!(omissions.len(), 3);
    assert!(
        omissions
            .iter()
            .all(|omission| matches!(omission.reason, Reason::Hidden))
    );
}

#[test]
fn links_count_only_inside() {
    let outside = Folder::new();
    outside.write("secret.txt", "secret");
    let folder = Folder::new();
    folder.write("real/a.txt", "inside");
    folder.link("real/a.txt", "relative.txt");
    folder.link(folder.path("real/a.txt"), "absolute.txt");
    folder.link("real", "directory");
    folder.link("../real/a.txt", "real/up-and-down.txt");
    folder.link(outside.path("secret.txt"), "leaves.txt");
    folder.link(&outside.0, "leaves");
    folder.link("..", "parent");
    folder.link("/etc/passwd", "passwd.txt");
    folder.link("/proc/self/root", "magic");
    folder.link("missing", "broken.txt");
    folder.link("self", "self");
    let sneaky = format!(
        "../{}/../{}",
        folder.0.file_name().unwrap().display(),
        outside.0.file_name().unwrap().display()
    );
    folder.link(sneaky, "sneaky");
    let (site, omissions) = folder.load_and_say(Limits::default());
    for path in [
        "/relative.txt",
        "/absolute.txt",
        "/directory/a.txt",
        "/real/up-and-down.txt",
    ] {
        assert_eq!(content(&site, path).as_deref(), Some("inside"), "{path}");
    }
    let out = [
        "/leaves.txt",
        "/leaves",
        "/parent",
        "/passwd.txt",
        "/magic",
        "/broken.txt",
        "/self",
        "/sneaky",
    ];
    for path in out {
        assert!(is_forbidden(&site, path), "{path}");
    }
    assert!(site.find(b"/leaves/secret.txt").is_none());
    assert_eq!(omissions.len(), out.len(), "{:?}", texts(&omissions));
    assert_eq!(
        site.content_len(),
        6,
        "one file under many names is in memory once"
    );
}

#[test]
fn cycles_of_links_end() {
    let folder = Folder::new();
    folder.write("a/b/c.txt", "c");
    folder.link("../..", "a/b/root");
    folder.link(".", "a/here");
    folder.link("b", "a/again");
    let (site, omissions) = folder.load_and_say(Limits::default());
    assert_eq!(content(&site, "/a/again/c.txt").as_deref(), Some("c"));
    let cycles: Vec<_> = texts(&omissions);
    assert_eq!(
        cycles,
        [
            "a/again/root: a link to a directory that holds it",
            "a/b/root: a link to a directory that holds it",
            "a/here: a link to a directory that holds it",
        ]
    );
}

/// Pipes, sockets and devices neither block nor appear.
#[test]
fn what_is_not_regular_is_left_out() {
    let folder = Folder::new();
    let fifo = folder.path("pipe.txt");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o644.into(),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path("socket")).unwrap();
    folder.write("a.txt", "a");
    let (site, omissions) = folder.load_and_say(Limits::default());
    assert!(is_forbidden(&site, "/pipe.txt") && is_forbidden(&site, "/socket"));
    assert_eq!(omissions.len(), 2);
    assert_eq!(content(&site, "/a.txt").as_deref(), Some("a"));
}

#[test]
fn limits_leave_out_and_say_so() {
    let folder = Folder::new();
    for (name, len) in [("a", 10), ("b", 11), ("c", 10), ("d", 5), ("e", 0)] {
        folder.write(name, vec![b'x'; len]);
    }
    let (site, omissions) = folder.load_and_say(Limits {
        document_len: 10,
        files: 100,
        ..Limits::default()
    });
    assert_eq!(texts(&omissions), ["b: longer than 10 bytes"]);
    assert!(is_forbidden(&site, "/b") && site.find(b"/e").unwrap().document().is_some());
    let (_, omissions) = folder.load_and_say(Limits {
        files: 2,
        ..Limits::default()
    });
    assert_eq!(
        texts(&omissions),
        [
            "c: more than 2 files",
            "d: more than 2 files",
            "e: more than 2 files"
        ]
    );
}

#[test]
fn deep_directories_end_at_the_limit() {
    let folder = Folder::new();
    folder.write(&("d/".repeat(70) + "a.txt"), "deep");
    let (_, omissions) = folder.load_and_say(Limits::default());
    assert_eq!(omissions.len(), 1);
    assert!(matches!(omissions[0].reason, Reason::TooDeep));
}

/// Root may read everything, so this says something only when run as somebody else.
#[test]
fn what_cannot_be_read_is_forbidden() {
    let folder = Folder::new();
    folder.write("locked.txt", "x");
    folder.write("locked/a.txt", "x");
    for (name, mode) in [("locked.txt", 0), ("locked", 0)] {
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let may_read_all = fs::read(folder.path("locked.txt")).is_ok();
    let (site, omissions) = folder.load_and_say(Limits::default());
    fs::set_permissions(folder.path("locked"), fs::Permissions::from_mode(0o755)).unwrap();
    if may_read_all {
        assert_eq!(site.document_count(), 2);
        return;
    }
    assert!(is_forbidden(&site, "/locked.txt") && is_forbidden(&site, "/locked/"));
    assert!(
        omissions
            .iter()
            .all(|o| matches!(o.reason, Reason::Unreadable(_)))
    );
}

#[test]
fn a_directory_that_cannot_be_served_says_what_to_do() {
    let folder = Folder::new();
    folder.write("file", "");
    for (name, want) in [
        ("missing", "give the path of a directory that exists"),
        ("file", "give the directory that holds the documents"),
    ] {
        let error = common::folder::load(
            &folder.path(name),
            Limits::default(),
            Default::default(),
            false,
        )
        .unwrap_err()
        .to_string();
        assert!(
            error.starts_with("cannot serve ") && error.ends_with(want),
            "{error}"
        );
    }
}

/// RFC 9110 §8.8.2.1: Last-Modified never lies in the future.
#[test]
fn times_are_those_of_the_files_but_not_in_the_future() {
    let folder = Folder::new();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_secs = now.unwrap().as_secs();
    folder.write_at("old", "", common::MODIFIED_SECS);
    folder.write_at("new", "", now_secs + 1_000_000);
    let site = folder.load();
    let modified = |path: &[u8]| site.find(path).unwrap().document().unwrap().modified_secs();
    assert_eq!(modified(b"/old"), common::MODIFIED_SECS);
    assert!(
        modified(b"/new")
            <= SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap()
                .as_secs()
    );
}

#[test]
fn coded_files_are_variants_unless_they_are_older() {
    let folder = Folder::new();
    folder.write_at("a/page.html", "<p>page", 1000);
    folder.write_at("a/page.html.br", "b", 1000);
    folder.write_at("a/page.html.gz", "gz", 999);
    folder.write_at("z/page.zst", "zst", 2000);
    folder.link("../z/page.zst", "a/page.html.zst");
    folder.write_at("a/lonely.txt.gz", "lonely", 1000);
    folder.write(".gz", "hidden");
    let (site, omissions) = folder.load_and_say(Limits::default());
    let Some(Entry::Document(variants)) = site.find(b"/a/page.html") else {
        panic!("the page is a document");
    };
    let coded = variants.coded().iter();
    let coded: Vec<_> = coded
        .map(|(coding, document)| (coding.name(), document.body().as_bytes().to_vec()))
        .collect();
    assert_eq!(coded, [("br", b"b".to_vec()), ("zstd", b"zst".to_vec())]);
    assert_eq!(content(&site, "/a/page.html").as_deref(), Some("<p>page"));
    // They remain files of their own, the outdated one too.
    assert_eq!(content(&site, "/a/page.html.br").as_deref(), Some("b"));
    assert_eq!(content(&site, "/a/page.html.gz").as_deref(), Some("gz"));
    let omissions = texts(&omissions);
    assert_eq!(omissions.len(), 2, "{omissions:?}");
    assert!(omissions[1].starts_with("a/page.html.gz: ") && omissions[1].contains("older"));
    // The page, three files that are variants or could be, the lonely one, and again the variants.
    assert_eq!(site.content_len(), 7 + (1 + 2 + 3) + 6 + (1 + 3));
}

/// From a file to the bytes on the connection.
#[test]
fn a_file_arrives() {
    let folder = Folder::new();
    let picture: Vec<u8> = (0..200_000u32)
        .map(|i| (i.wrapping_mul(i) >> 7) as u8)
        .collect();
    folder.write("picture.png", &picture);
    let mut server = Server::new(folder.load(), common::NOW_SECS);
    let mut client = Client::new(&mut server, usize::MAX);
    client.send(b"GET /picture.png HTTP/1.1\r\nHost: h\r\n\r\n");
    let output = client.end().output;
    assert!(output.ends_with(&picture));
    let head = String::from_utf8_lossy(&output[..output.len() - picture.len()]);
    assert!(
        head.contains("\r\nContent-Type: image/png\r\nContent-Length: 200000\r\n"),
        "{head}"
    );
}
