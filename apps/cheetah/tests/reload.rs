//! Reading everything anew while it is served: no answer is of half a site, no connection notices, and what cannot be
//! served changes nothing.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::NOW_SECS;
use common::folder::Folder;
use exos_buf::Slice;
use exos_cheetah::config::Config;
use exos_cheetah::serve::reload::{Progress, Reload};
use exos_cheetah::serve::sites::{Filling, Fresh};
use exos_cheetah::{Server, ServerConnection};

const DOCUMENTS: usize = 100;

/// A server of a folder with a configuration, one connection to it, and its reload.
struct Visit {
    folder: Folder,
    server: Server,
    connection: ServerConnection,
    reload: Reload,
}

impl Visit {
    fn new() -> Visit {
        let folder = Folder::new();
        write_version(&folder, "old");
        let file = folder.path("serve.toml");
        let mut filling = Filling::new(read(&file).unwrap());
        while !filling.step(7) {}
        let (sites, _) = filling.finish();
        let read = Arc::new(move || read(&file));
        Visit {
            folder,
            server: Server::new(sites, NOW_SECS),
            connection: ServerConnection::new(),
            reload: Reload::new(read, vec![0]).unwrap(),
        }
    }

    /// The answer to a request on the one connection, as it would be sent.
    fn get(&mut self, target: &str) -> Vec<Slice> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut out = Vec::new();
        let handled = self.connection.handle_bytes(
            &mut self.server,
            request.as_bytes(),
            usize::MAX,
            &mut out,
        );
        assert_eq!((handled.consumed, handled.responses), (request.len(), 1));
        out
    }

    fn body(&mut self, target: &str) -> String {
        let answer = text(&self.get(target));
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Turns until something is to be told; `each` sees the visit after each of them.
    fn turn_until_told(&mut self, mut each: impl FnMut(&mut Visit)) -> Progress {
        let deadline = Instant::now() + Duration::from_secs(120);
        while Instant::now() < deadline {
            match self.reload.turn(&mut self.server) {
                Progress::None => each(self),
                told => return told,
            }
            std::thread::sleep(Duration::from_micros(100)); // The reader may need the core.
        }
        panic!("the reload does not end");
    }
}

fn read(file: &Path) -> Result<Fresh, Vec<exos::Error>> {
    let config = Config::read(file).map_err(|e| vec![exos::Error::new(e.to_string())])?;
    Fresh::read(config, true)
}

/// Documents that say which version they are of, and a configuration that says it too.
fn write_version(folder: &Folder, version: &str) {
    for n in 0..DOCUMENTS {
        folder.write(&format!("{version}/{n}.txt"), version);
    }
    let rule = format!("[[site.fields]]\npath = \"*\"\nset = {{ X-Version = \"{version}\" }}");
    folder.write(
        "serve.toml",
        format!("[[site]]\nroot = \"{version}\"\n{rule}\n"),
    );
}

fn text(answer: &[Slice]) -> String {
    let bytes: Vec<u8> = answer
        .iter()
        .flat_map(|slice| slice.as_bytes().to_vec())
        .collect();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn all_is_old_until_all_is_new() {
    let mut visit = Visit::new();
    let under_way = visit.get("/0.txt");
    write_version(&visit.folder, "new");
    visit.reload.request();
    let last = format!("/{}.txt", DOCUMENTS - 1);
    let told = visit.turn_until_told(|visit| {
        assert_eq!(visit.body("/0.txt"), "old");
        assert_eq!(visit.body(&last), "old");
    });
    assert!(matches!(told, Progress::Exchanged(trees) if trees.len() == 1));
    for target in ["/0.txt", &last] {
        let answer = text(&visit.get(target));
        assert!(
            answer.ends_with("\r\n\r\nnew") && answer.contains("\r\nX-Version: new\r\n"),
            "{answer}"
        );
    }
    while visit.reload.is_busy() {
        visit.reload.turn(&mut visit.server); // The old table goes.
        assert_eq!(visit.body("/0.txt"), "new");
    }
    let kept = text(&under_way);
    assert!(
        kept.ends_with("\r\n\r\nold") && kept.contains("X-Version: old"),
        "{kept}"
    );
}

/// Nothing changes for a configuration that cannot stand, and the next one that can is taken.
#[test]
fn what_cannot_be_served_is_refused() {
    let mut visit = Visit::new();
    let good = std::fs::read_to_string(visit.folder.path("serve.toml")).unwrap();
    for (bad, wanted) in [
        (
            "prot = 1\nport = 0\n".to_owned(),
            "serve.toml:1: there is no key `prot`",
        ),
        (
            "[[site]]\nroot = \"none\"\n".to_owned(),
            "give the path of a directory that exists",
        ),
        (
            format!("{good}[site.error_pages]\n404 = \"/none\"\n"),
            "no document /none",
        ),
    ] {
        visit.folder.write("serve.toml", bad);
        visit.reload.request();
        let Progress::Refused(errors) = visit.turn_until_told(|_| {}) else {
            panic!("{wanted}: not refused");
        };
        assert!(errors[0].to_string().contains(wanted), "{errors:?}");
        assert_eq!(visit.body("/0.txt"), "old");
        assert!(!visit.reload.is_busy());
    }
    write_version(&visit.folder, "new");
    visit.reload.request();
    assert!(matches!(
        visit.turn_until_told(|_| {}),
        Progress::Exchanged(_)
    ));
    assert_eq!(visit.body("/0.txt"), "new");
}

/// What was asked for while a reload reads may be newer than what it has read.
#[test]
fn a_request_during_a_reload_is_not_lost() {
    let mut visit = Visit::new();
    visit.reload.request();
    assert!(matches!(
        visit.reload.turn(&mut visit.server),
        Progress::None
    ));
    write_version(&visit.folder, "new");
    visit.reload.request();
    visit.reload.request();
    assert!(!matches!(
        visit.turn_until_told(|_| {}),
        Progress::Refused(_)
    ));
    assert!(!matches!(
        visit.turn_until_told(|_| {}),
        Progress::Refused(_)
    ));
    assert_eq!(visit.body("/0.txt"), "new");
    while visit.reload.is_busy() {
        assert!(matches!(
            visit.reload.turn(&mut visit.server),
            Progress::None
        ));
    }
    assert!(
        matches!(visit.reload.turn(&mut visit.server), Progress::None),
        "twice is once"
    );
}
