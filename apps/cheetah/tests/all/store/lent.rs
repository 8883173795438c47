//! Documents that come from the file cache that processes share, of a real service.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use exos_cheetah::Site;
use exos_cheetah::limits::LENT_LEN_MIN;
use exos_cheetah::site::store::cache::{Figures, FromCache};
use exos_cheetah::site::{Cache, Change, Description, Document, Entry, SharedCache, Tree};
use exos_file_cache::limits::{EXTENT_LEN, MEMORY_MIN};
use exos_file_cache::{Client, Options, Service};
use exos_replacement::PolicyName;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::common::folder::Folder;
use crate::common::path;

/// What is not so by then will not be.
const AT_MOST: Duration = Duration::from_secs(60);
/// Where a service that can end serves.
const SOCKET: &str = "EXOS_TEST_FILE_CACHE";
/// What a program may keep of the least memory, and what documents keep of that.
const SHARE: u64 = MEMORY_MIN / 4;
const LIMIT: u64 = SHARE / 2;

/// A folder beside what was built: a temporary one is often a tmpfs, from which nothing is taken.
fn folder() -> Folder {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    Folder(folder.keep())
}

/// A service with the least memory, for as long as this process runs.
fn serve(folder: &Folder) -> PathBuf {
    std::fs::create_dir(folder.path(".run")).unwrap();
    let socket = folder.path(".run/file-cache.sock");
    let (is_there, told) = channel();
    let path = socket.clone();
    std::thread::spawn(move || {
        let mut service = Service::new(&path, options()).unwrap();
        is_there.send(()).unwrap();
        service.run().unwrap();
    });
    told.recv_timeout(AT_MOST).unwrap();
    socket
}

fn options() -> Options {
    Options {
        memory: MEMORY_MIN,
        policy: PolicyName::S3Fifo.policy(),
        users: Vec::new(),
    }
}

/// A service in a process of its own, which can end: this program, of which that runs one test.
struct Apart(Child);

impl Apart {
    fn new(socket: &Path) -> Apart {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "store::lent::serves_apart"]);
        command.env(SOCKET, socket).stdout(Stdio::null());
        let apart = Apart(command.spawn().unwrap());
        let end = Instant::now() + AT_MOST;
        while Client::connect(socket).is_err() {
            assert!(Instant::now() < end, "it does not serve");
            std::thread::sleep(Duration::from_millis(10));
        }
        apart
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
#[ignore = "this is the service of others"]
fn serves_apart() {
    let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) else {
        return;
    };
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    Service::new(&socket, options()).unwrap().run().unwrap();
}

/// A server's documents.
struct Served {
    site: Site,
    tree: Tree,
    cache: SharedCache,
}

impl Served {
    fn new(folder: &Folder, socket: PathBuf) -> Served {
        let from = FromCache::new(Some(socket), Vec::new());
        let cache = SharedCache::from(Cache::new(64 << 20).lending(Some(from)));
        let tree = Tree::open(&folder.0, Default::default(), Arc::default(), true).unwrap();
        let mut tree = tree.within(0, cache.clone());
        let mut site = Site::with(Arc::default());
        tree.scan(&mut |_, change| site.apply(change)).unwrap();
        Served { site, tree, cache }
    }

    fn found(&self, name: &str) -> Option<Document> {
        self.site
            .find(name.as_bytes())
            .and_then(Entry::document)
            .cloned()
    }

    /// The document at a path, which is fetched if it is not in memory.
    fn get(&mut self, name: &str) -> Document {
        let mut seen = self.found(name);
        let (site, tree) = (&mut self.site, &mut self.tree);
        tree.fetch(&path(name), Instant::now(), &mut |_, change| {
            assert!(!matches!(change, Change::Failed(_)), "{name}");
            site.apply(change);
            let entry = site.find(name.as_bytes());
            seen = entry.and_then(Entry::document).cloned().or(seen.take());
        });
        seen.expect("it is there")
    }

    fn figures(&self) -> Figures {
        self.cache.lock().statistics().figures()
    }
}

fn content(seed: usize, len: usize) -> Vec<u8> {
    let words = (0..).flat_map(|at: usize| (at * 31 + seed * 7919).to_le_bytes());
    words.take(len).collect()
}

fn body(document: &Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    document.body().append_to(&mut bytes);
    bytes
}

/// Files whose last change is a moment ago, so that the service takes them at once.
fn settle() {
    std::thread::sleep(exos_file_cache::limits::SETTLED_AFTER);
}

#[test]
fn two_servers_have_one_copy() {
    let folder = folder();
    let (long, short) = (content(1, EXTENT_LEN + 17), content(2, 1000));
    folder.write("long.bin", &long);
    folder.write("short.bin", &short);
    settle();
    let socket = serve(&folder);
    let mut servers = [(); 2].map(|()| Served::new(&folder, socket.clone()));
    for served in &mut servers {
        assert!(served.found("/long.bin").is_none(), "it is listed");
        let document = served.get("/long.bin");
        assert!(document.lent_body().is_some());
        assert!(body(&document) == long);
        let modified = document.modified_secs();
        let alone = Document::new(
            &long,
            &Description::plain("application/octet-stream", modified),
        );
        assert_eq!(document.fields().as_bytes(), alone.fields().as_bytes());
        assert_eq!(document.about().len, alone.about().len);
        // What would take more there than copies do is in memory as ever.
        let document = served.found("/short.bin").unwrap();
        assert!(document.lent_body().is_none() && body(&document) == short);
        let figures = served.figures();
        assert_eq!((figures.lent_files, figures.copied_files), (1, 0));
        // The last 17 bytes came in the pipe itself.
        assert_eq!(figures.lent, EXTENT_LEN as u64, "{figures:?}");
        assert!(figures.held < 20_000, "{figures:?}");
    }
    assert!(short.len() < LENT_LEN_MIN as usize);
    let statistics = Client::connect(&socket).unwrap().statistics().unwrap();
    assert_eq!((statistics.misses, statistics.hits), (2, 2));
}

/// A response under way goes on with the version that it began with; the next has the other.
#[test]
fn a_document_is_of_one_version() {
    let folder = folder();
    let versions: Vec<Vec<u8>> = (0..4).map(|n| content(n, 50_000 + n)).collect();
    folder.write("a.bin", &versions[0]);
    settle();
    let socket = serve(&folder);
    let mut served = Served::new(&folder, socket);
    let mut had = vec![served.get("/a.bin")];
    for version in &versions[1..] {
        folder.write("a.bin", version);
        let end = Instant::now() + AT_MOST;
        while served
            .found("/a.bin")
            .is_none_or(|it| body(&it) != *version)
        {
            assert!(Instant::now() < end, "it is not seen");
            let site = &mut served.site;
            served
                .tree
                .poll(Instant::now(), &mut |_, change| site.apply(change));
        }
        had.push(served.found("/a.bin").unwrap());
    }
    for (document, version) in had.iter().zip(&versions) {
        assert!(body(document) == *version);
    }
}

/// What there is no room for goes by the store's policy; where all of the share is needed by responses under way, the rest is copied.
#[test]
fn the_share_is_kept() {
    let folder = folder();
    let count = 2 * SHARE as usize / EXTENT_LEN;
    let name = |n: usize| format!("/{n}.bin");
    for n in 0..count {
        folder.write(&name(n)[1..], content(n, EXTENT_LEN));
    }
    folder.write("last.bin", content(99, EXTENT_LEN));
    settle();
    let socket = serve(&folder);
    let mut served = Served::new(&folder, socket.clone());
    for n in (0..count).chain([0]) {
        assert!(body(&served.get(&name(n))) == content(n, EXTENT_LEN), "{n}");
        let figures = served.figures();
        assert!(figures.lent <= LIMIT, "{figures:?}");
    }
    let figures = served.figures();
    assert_eq!((figures.lent, figures.copied_files), (LIMIT, 0));
    assert_eq!(figures.evictions, figures.lent_files - 4, "{figures:?}");
    let had: Vec<Document> = (0..count).map(|n| served.get(&name(n))).collect();
    for (n, document) in had.iter().enumerate() {
        assert!(body(document) == content(n, EXTENT_LEN), "{n}");
    }
    let lent = had.iter().filter(|it| it.lent_body().is_some()).count() as u64;
    assert_eq!(lent * EXTENT_LEN as u64, SHARE);
    let figures = served.figures();
    assert_eq!(figures.copied_files, count as u64 - lent, "{figures:?}");
    let statistics = Client::connect(&socket).unwrap().statistics().unwrap();
    assert_eq!(statistics.over_share, 0);
    // And again, when they have ended.
    drop(had);
    assert!(served.get("/last.bin").lent_body().is_some());
}

#[test]
fn without_a_service_documents_are_copied() {
    let folder = folder();
    let long = content(1, 100_000);
    folder.write("long.bin", &long);
    let mut served = Served::new(&folder, folder.path("none"));
    let document = served.get("/long.bin");
    assert!(document.lent_body().is_none() && body(&document) == long);
    let figures = served.figures();
    assert_eq!((figures.lent_files, figures.copied_files), (0, 1));
}

/// Of a service that has ended nothing is kept: it would keep all of its memory.
#[test]
fn documents_of_a_service_that_has_ended_are_read_again() {
    let folder = folder();
    let name = |n: usize| format!("/{n}.bin");
    for n in 0..8 {
        folder.write(&name(n)[1..], content(n, EXTENT_LEN));
    }
    settle();
    std::fs::create_dir(folder.path(".run")).unwrap();
    let socket = folder.path(".run/file-cache.sock");
    let service = Apart::new(&socket);
    let mut served = Served::new(&folder, socket.clone());
    let first = served.get(&name(0));
    assert!(first.lent_body().is_some());
    drop(service);
    let _service = Apart::new(&socket);
    assert!(served.found(&name(0)).is_some(), "nobody knows of it");
    assert!(body(&served.get(&name(1))) == content(1, EXTENT_LEN));
    assert!(served.found(&name(0)).is_none(), "it is of the first");
    assert_eq!(served.figures().lent, 0);
    // A response under way has it.
    assert!(body(&first) == content(0, EXTENT_LEN));
    for n in [0, 1] {
        assert!(served.get(&name(n)).lent_body().is_some(), "{n}");
    }
    assert_eq!(served.figures().lent, 2 * EXTENT_LEN as u64);
}

/// What would not be kept there is not asked for: it is in this process's memory.
#[test]
fn a_document_without_lent_room_is_copied_once() {
    let folder = folder();
    let small = LIMIT as usize / EXTENT_LEN;
    let name = |n: usize| format!("/{n}.bin");
    for n in 0..small {
        folder.write(&name(n)[1..], content(n, EXTENT_LEN));
    }
    let large = [2 * EXTENT_LEN, LIMIT as usize + EXTENT_LEN];
    for len in large {
        folder.write(&name(len)[1..], content(len, len));
    }
    settle();
    let mut served = Served::new(&folder, serve(&folder));
    for n in 0..small {
        assert!(served.get(&name(n)).lent_body().is_some());
    }
    for len in large {
        let document = served.get(&name(len));
        assert!(document.lent_body().is_none() && body(&document) == content(len, len));
        assert!(served.found(&name(len)).is_some(), "it is kept");
    }
    let figures = served.figures();
    let counts = (figures.lent_files, figures.copied_files, figures.evictions);
    assert_eq!(counts, (small as u64, 2, 0), "{figures:?}");
    assert_eq!(figures.lent, LIMIT);
}
