//! A service in a thread of its own, and files.

use exos_file_cache::limits::MEMORY_MIN;
use exos_file_cache::{Client, File, Opened, Options, Service, Statistics, Status, User};
use exos_iolite::Aggregate;
use exos_replacement::PolicyName;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What is not so by then will not be.
pub const AT_MOST: Duration = Duration::from_secs(60);

/// A folder with the socket of a service.
pub struct Place {
    pub folder: TempDir,
    pub socket: PathBuf,
}

/// A service with the least memory, for as long as this process runs.
pub fn serve(policy: PolicyName) -> Place {
    serve_users(policy, Vec::new())
}

/// One for several users.
pub fn serve_users(policy: PolicyName, users: Vec<User>) -> Place {
    let place = if users.is_empty() {
        // Beside what was built: a temporary folder is often a tmpfs, from which nothing is taken.
        env!("CARGO_TARGET_TMPDIR")
    } else {
        // Which users can reach.
        "/var/tmp"
    };
    let folder = tempfile::tempdir_in(place).expect("room");
    let socket = folder.path().join("file-cache.sock");
    let (there, path) = (std::sync::mpsc::channel(), socket.clone());
    let is_there = there.0;
    std::thread::spawn(move || {
        let options = Options {
            memory: MEMORY_MIN,
            policy: policy.policy(),
            users,
        };
        let mut service = Service::new(&path, options).expect("the socket is free");
        is_there.send(()).expect("the test waits");
        service.run().expect("it goes on");
    });
    there.1.recv_timeout(AT_MOST).expect("it starts");
    Place { folder, socket }
}

impl Place {
    /// A program with a share of its own, though it is in this process.
    pub fn client(&self) -> Client {
        static PROGRAMS: AtomicU64 = AtomicU64::new(0);
        let name = format!("program {}", PROGRAMS.fetch_add(1, Ordering::Relaxed));
        self.client_of(&name)
    }

    /// One with the share of a name.
    pub fn client_of(&self, name: &str) -> Client {
        let mut client = Client::connect(&self.socket).expect("it serves");
        client.share_as(name).expect("it serves");
        client
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file whose last change is over.
    pub fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("room");
        path
    }
}

/// Opens a file; one that was just written is settled after a moment.
pub fn open(client: &mut Client, path: &Path) -> File {
    let end = Instant::now() + AT_MOST;
    loop {
        let file = std::fs::File::open(path).expect("it is there");
        match client.open(&file).expect("it answers") {
            Opened::Shared(file) => return file,
            Opened::Not(Status::Unsuitable) => {
                panic!("{} is on no ext4, XFS or Btrfs", path.display())
            }
            Opened::Not(status) => assert!(Instant::now() < end, "{status:?}"),
        }
    }
}

/// All of a file.
pub fn read_all(client: &mut Client, path: &Path) -> Aggregate {
    let mut file = open(client, path);
    let mut all = Aggregate::new();
    loop {
        let bytes = client.read_next(&mut file).expect("it is there");
        if bytes.is_empty() {
            client.close(file).expect("it serves");
            return all;
        }
        all.concatenate(bytes);
    }
}

/// Waits until the service says so of itself.
pub fn wait_until(client: &mut Client, is_so: impl Fn(&Statistics) -> bool) -> Statistics {
    let end = Instant::now() + AT_MOST;
    loop {
        let statistics = client.statistics().expect("it answers");
        if is_so(&statistics) {
            return statistics;
        }
        assert!(Instant::now() < end, "{statistics:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes that tell where they are.
pub fn content(seed: u64, len: usize) -> Vec<u8> {
    let words = (0..).map(|n: u64| (n ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes());
    words.flatten().take(len).collect()
}
