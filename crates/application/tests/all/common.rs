//! An application on a thread of its own, and a server's link to it.

use exos_application::asking::{Content, Link, Part};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What takes longer fails.
pub const LONG: Duration = Duration::from_secs(60);

/// A path for a Unix socket, which nothing is at.
pub fn socket() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("exos-application-{}-{number}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// A server that has some links' answers.
pub struct Server {
    pub link: Link,
}

/// An answer that is whole, or as far as it came.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Got {
    pub head: String,
    /// The length that is said beside that.
    pub length: Option<usize>,
    pub content: Vec<u8>,
    pub said: String,
    pub is_whole: bool,
}

impl Server {
    /// Connects, when the application is there.
    pub fn new(path: &std::path::Path) -> Server {
        let until = Instant::now() + LONG;
        loop {
            match Link::connect(path) {
                Ok(link) => return Server { link },
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A number for a request.
    pub fn reserve(&mut self) -> u32 {
        self.link.reserve(0).expect("there are few")
    }

    /// Asks for a path.
    pub fn ask(&mut self, path: &str) -> u32 {
        let request = self.reserve();
        self.link.ask(request, &variables(path), false);
        request
    }

    /// One turn of a loop, which sleeps until there is something to hear.
    pub fn turn(&mut self) {
        while self.link.poll().is_some() {}
        if !self.link.flush() {
            let mut fds = [PollFd::new(&self.link, PollFlags::IN)];
            let short = Timespec::try_from(Duration::from_millis(100)).expect("short");
            poll(&mut fds, Some(&short)).expect("it can be polled");
        }
        self.link.look(true);
    }

    /// Takes what comes of an answer until it is whole, or the link has failed.
    pub fn take(&mut self, request: u32) -> Got {
        let (mut got, until) = (Got::default(), Instant::now() + LONG);
        loop {
            while let Some(part) = self.link.take(request) {
                got.said += &String::from_utf8_lossy(&part.said);
                if let Some(head) = &part.head {
                    got.head = String::from_utf8(head.bytes.to_vec()).expect("text");
                    got.length = head.length.map(|length| length as usize);
                }
                got.is_whole |= part.is_last;
                got.content.extend(content(part));
            }
            if got.is_whole || self.link.is_broken(request) || self.link.failure().is_some() {
                self.link.leave(request);
                return got;
            }
            let len = got.content.len();
            assert!(
                Instant::now() < until,
                "no more comes than {len} bytes: {}",
                got.head
            );
            self.turn();
        }
    }

    /// Until something holds.
    pub fn await_true(&mut self, mut holds: impl FnMut(&mut Link) -> bool) {
        let until = Instant::now() + LONG;
        while !holds(&mut self.link) {
            assert!(Instant::now() < until, "it does not come to that");
            self.turn();
        }
    }
}

/// The bytes of a part's content.
pub fn content(part: Part) -> Vec<u8> {
    match part.content {
        Some(Content::Bytes(bytes)) => bytes,
        Some(Content::Slice(slice)) => slice.as_bytes().to_vec(),
        None => Vec::new(),
    }
}

/// Variables in FastCGI's form: the one that these applications look at.
pub fn variables(path: &str) -> Vec<u8> {
    let mut out = vec![9, path.len() as u8];
    out.extend_from_slice(b"PATH_INFO");
    out.extend_from_slice(path.as_bytes());
    out
}

/// Bytes that differ from place to place.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251) as u8).collect()
}
