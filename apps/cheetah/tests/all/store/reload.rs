//! Reading everything again while it is served: no answer is of half a site, no connection notices, and what cannot be
//! served changes nothing.

use crate::common;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::NOW_SECS;
use common::folder::Folder;
use exos_buf::Slice;
use exos_cheetah::config::Config;
use exos_cheetah::serve::content::exchange::{Exchange, Step};
use exos_cheetah::serve::content::reload::{Outcome, Reload};
use exos_cheetah::serve::content::sites::{Filling, Fresh};
use exos_cheetah::site::Tree;
use exos_cheetah::site::store::cache::FromCache;
use exos_cheetah::{Next, Server, ServerConnection};

const DOCUMENTS: usize = 100;

/// A server of a folder with a configuration, one connection to it, and its reload.
struct Visit {
    folder: Folder,
    server: Server,
    connection: ServerConnection,
    reload: Reload,
    exchange: Exchange,
    /// What tells of changes of what is served.
    serving: Vec<Tree>,
    /// And of what has been read and is not served yet: of the exchange that is under way, and of the next.
    trees: VecDeque<Vec<Tree>>,
}

/// What a reload came to.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// The sites were exchanged; this many directories are to be followed.
    Exchanged(usize),
    /// They were not, and why.
    Refused(Vec<String>),
}

impl Visit {
    fn new() -> Visit {
        let folder = Folder::new();
        write_version(&folder, "old");
        Visit::of(folder)
    }

    fn of(folder: Folder) -> Visit {
        let file = folder.path("serve.toml");
        let (fresh, serving) = read(&file).unwrap();
        let mut filling = Filling::new(fresh);
        while !filling.step(7) {}
        let sites = filling.finish();
        let read = Arc::new(move || read(&file));
        Visit {
            folder,
            server: Server::new(sites, NOW_SECS),
            connection: ServerConnection::new(),
            reload: Reload::new(read, vec![0]).unwrap(),
            exchange: Exchange::default(),
            serving,
            trees: VecDeque::new(),
        }
    }

    /// The answer to a request on the one connection, as it would be sent. What it waits for is read.
    fn get(&mut self, target: &str) -> Vec<Slice> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut out = Vec::new();
        let mut handle = |server: &mut Server| {
            let bytes = request.as_bytes();
            self.connection
                .handle_bytes(server, bytes, usize::MAX, &mut out)
        };
        let mut handled = handle(&mut self.server);
        if let Next::Wait(missing) = handled.next {
            let (site, path) = missing.document;
            let server = &mut self.server;
            self.serving[site].fetch(&path, Instant::now(), &mut |site, change| {
                server.change_site(site, change);
            });
            handled = handle(server);
        }
        assert_eq!((handled.consumed, handled.responses), (request.len(), 1));
        out
    }

    fn body(&mut self, target: &str) -> String {
        let answer = text(&self.get(target));
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// A turn's part of the work.
    fn turn(&mut self) -> Option<Told> {
        match self.reload.turn() {
            None => {}
            Some(Err(errors)) => {
                let errors = errors.iter().map(ToString::to_string);
                return Some(Told::Refused(errors.collect()));
            }
            Some(Ok((fresh, trees))) => {
                self.trees.push_back(trees);
                self.exchange.begin(fresh);
            }
        }
        if self.exchange.turn(&mut self.server) != Some(Step::Exchanged) {
            return None;
        }
        self.serving = self.trees.pop_front().expect("they were read");
        Some(Told::Exchanged(self.serving.len()))
    }

    fn is_busy(&self) -> bool {
        self.reload.is_busy() || self.exchange.is_busy()
    }

    /// Turns until something is to be told; `each` sees the visit after each of them.
    fn turn_until_told(&mut self, mut each: impl FnMut(&mut Visit)) -> Told {
        let deadline = Instant::now() + Duration::from_secs(120);
        while Instant::now() < deadline {
            match self.turn() {
                None => each(self),
                Some(told) => return told,
            }
            std::thread::sleep(Duration::from_micros(100)); // The reader may need the core.
        }
        panic!("the reload does not end");
    }
}

fn read(file: &Path) -> Outcome {
    let config = Config::read(file).map_err(|e| vec![exos::Error::new(e.to_string())])?;
    Fresh::read(config, true, &FromCache::new(None, Vec::new()))
}

/// Documents that say which version they are of, and a configuration that says it too.
fn write_version(folder: &Folder, version: &str) {
    write_version_at_length(folder, version, 1, "");
}

/// Documents that repeat their version `times` times, and a configuration with `more` in it.
fn write_version_at_length(folder: &Folder, version: &str, times: usize, more: &str) {
    for n in 0..DOCUMENTS {
        folder.write(&format!("{version}/{n}.txt"), version.repeat(times));
    }
    let rule = format!("[[site.fields]]\npath = \"*\"\nset = {{ X-Version = \"{version}\" }}");
    // At once: a reload that is under way may read it.
    folder.write(
        "serve.toml.new",
        format!("{more}[[site]]\nroot = \"{version}\"\n{rule}\n"),
    );
    std::fs::rename(folder.path("serve.toml.new"), folder.path("serve.toml")).unwrap();
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
    assert_eq!(told, Told::Exchanged(1));
    for target in ["/0.txt", &last] {
        let answer = text(&visit.get(target));
        assert!(
            answer.ends_with("\r\n\r\nnew") && answer.contains("\r\nX-Version: new\r\n"),
            "{answer}"
        );
    }
    while visit.is_busy() {
        assert_eq!(visit.turn(), None); // The old table goes.
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
        let Told::Refused(errors) = visit.turn_until_told(|_| {}) else {
            panic!("{wanted}: not refused");
        };
        assert!(errors[0].contains(wanted), "{errors:?}");
        assert_eq!(visit.body("/0.txt"), "old");
        assert!(!visit.is_busy());
    }
    write_version(&visit.folder, "new");
    visit.reload.request();
    assert_eq!(visit.turn_until_told(|_| {}), Told::Exchanged(1));
    assert_eq!(visit.body("/0.txt"), "new");
}

/// What was asked for while a reload reads may be newer than what it has read.
#[test]
fn a_request_during_a_reload_is_not_lost() {
    let mut visit = Visit::new();
    visit.reload.request();
    assert_eq!(visit.turn(), None);
    write_version(&visit.folder, "new");
    visit.reload.request();
    visit.reload.request();
    for _ in 0..2 {
        assert_eq!(visit.turn_until_told(|_| {}), Told::Exchanged(1));
    }
    assert_eq!(visit.body("/0.txt"), "new");
    while visit.is_busy() {
        assert_eq!(visit.turn(), None);
    }
    assert_eq!(visit.turn(), None, "twice is once");
}

/// Three times as much as the cache may hold is read again while all of it is asked for: the old table and the new one
/// each keep to the bound, before the exchange and after it, and every answer is of the version of its time.
#[test]
fn a_set_larger_than_its_cache_is_exchanged_within_the_bound() {
    const LIMIT: u64 = 1 << 20;
    const TIMES: usize = 10_000;
    let write = |folder: &Folder, version| {
        write_version_at_length(folder, version, TIMES, "[cache]\nsize = \"1MiB\"\n");
    };
    let check = |visit: &mut Visit, n: usize, version: &str| {
        let body = visit.body(&format!("/{}.txt", n % DOCUMENTS));
        assert!(body == version.repeat(TIMES), "{n}: {} bytes", body.len());
        let sites = visit.server.sites();
        let (site, figures) = (sites.get(0), sites.cache_figures());
        assert!(
            site.content_len() <= LIMIT && figures.held <= LIMIT,
            "{n}: {figures:?}"
        );
        assert_eq!(site.document_count() + site.listed().0, DOCUMENTS);
        assert!(site.document_count() > DOCUMENTS / 4, "it is used");
    };
    let folder = Folder::new();
    write(&folder, "old");
    let mut visit = Visit::of(folder);
    let mut asked = 0;
    for _ in 0..2 * DOCUMENTS {
        check(&mut visit, asked, "old");
        asked += 1;
    }
    write(&visit.folder, "new");
    visit.reload.request();
    let told = visit.turn_until_told(|visit| {
        check(visit, asked, "old");
        asked += 1;
    });
    assert_eq!(told, Told::Exchanged(1));
    let before = visit.server.sites().cache_figures().fetched;
    while visit.is_busy() {
        assert_eq!(visit.turn(), None);
        check(&mut visit, asked, "new");
        asked += 1;
    }
    (0..DOCUMENTS).for_each(|n| check(&mut visit, n, "new"));
    let fetched = visit.server.sites().cache_figures().fetched - before;
    assert!(fetched > DOCUMENTS as u64 / 2, "{fetched}");
}

/// What changes while all is read is in it: the old tables have it by then.
#[test]
fn what_changes_during_a_reload_is_in_it() {
    let folder = Folder::new();
    write_version(&folder, "old");
    let (mut fresh, mut trees) = read(&folder.path("serve.toml")).unwrap();
    folder.write("old/0.txt", "changed");
    folder.write("old/more.txt", "more");
    std::fs::remove_file(folder.path("old/1.txt")).unwrap();
    fresh.catch_up(&mut trees);
    let sites = fresh.into_sites();
    let content = |path: &str| {
        let document = sites.get(0).find(path.as_bytes())?.document()?;
        Some(String::from_utf8(document.body().as_bytes().to_vec()).unwrap())
    };
    assert_eq!(content("/0.txt").as_deref(), Some("changed"));
    assert_eq!(content("/more.txt").as_deref(), Some("more"));
    assert_eq!(content("/1.txt"), None);
    assert_eq!(content("/2.txt").as_deref(), Some("old"));
}

/// Several loops fill tables of their own from what was read once: the bytes of the documents, and their sums, are the same.
#[test]
fn tables_of_several_loops_share_the_documents() {
    let visit = Visit::new();
    let (fresh, _) = read(&visit.folder.path("serve.toml")).unwrap();
    let sites = [fresh.clone(), fresh].map(Fresh::into_sites);
    for n in 0..DOCUMENTS {
        let path = format!("/{n}.txt");
        let [one, other] = sites.each_ref().map(|sites| {
            let entry = sites.get(0).find(path.as_bytes()).unwrap();
            entry.document().unwrap().buffer().as_slice().as_ptr()
        });
        assert_eq!(one, other);
    }
}
