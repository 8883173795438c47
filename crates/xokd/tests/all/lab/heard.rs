//! What a daemon says, line by line.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::within;

/// Everything that came out of a pipe, which is said here, too.
pub struct Heard {
    lines: Arc<Mutex<Vec<String>>>,
    listens: JoinHandle<()>,
}

impl Heard {
    pub fn from(pipe: impl Read + Send + 'static) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let listens = std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                eprintln!("{line}");
                heard.lock().expect("nobody panics with it").push(line);
            }
        });
        Self { lines, listens }
    }

    /// Waits for a line with this in it.
    pub fn must_hear(&self, text: &str) -> String {
        let mut found = None;
        let heard = within(|| {
            let lines = self.lines.lock().expect("nobody panics with it");
            found = lines.iter().find(|line| line.contains(text)).cloned();
            found.is_some()
        });
        assert!(heard, "{text:?} is not said");
        found.expect("just so")
    }

    /// Everything that was said, when the daemon has ended.
    pub fn into_lines(self) -> Vec<String> {
        self.listens.join().expect("it listens");
        let lines = self.lines.lock().expect("nobody panics with it");
        lines.clone()
    }
}
