//! A key log that other programs append to while it is read.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Bytes read at once, and the longest line that is taken: more than any secret's.
const CHUNK_LEN: usize = 1 << 16;

/// A key log, from its begin on to what has not been written yet.
#[derive(Debug)]
pub(crate) struct KeyFile {
    path: PathBuf,
    /// `None` while there is none of this name.
    file: Option<File>,
    /// What has been read: `given` bytes of it were handed on, the rest is the begin of a line.
    bytes: Vec<u8>,
    given: usize,
}

impl KeyFile {
    /// Opens it, if it is there: programs make it when they have something to write.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut keys = Self {
            path: path.to_owned(),
            file: None,
            bytes: Vec::new(),
            given: 0,
        };
        keys.look()?;
        Ok(keys)
    }

    /// It is there.
    pub(crate) fn exists(&self) -> bool {
        self.file.is_some()
    }

    fn look(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Whole lines that were not given yet, some 64 KB at most; empty when there is nothing new.
    ///
    /// # Errors
    /// The file cannot be read further.
    pub(crate) fn next_lines(&mut self) -> io::Result<&[u8]> {
        self.bytes.drain(..self.given);
        self.given = 0;
        self.look()?;
        let Some(file) = &mut self.file else {
            return Ok(&[]);
        };
        loop {
            let room = (CHUNK_LEN - self.bytes.len()) as u64;
            if file.take(room).read_to_end(&mut self.bytes)? == 0 {
                return Ok(&[]);
            }
            if let Some(end) = self.bytes.iter().rposition(|byte| *byte == b'\n') {
                self.given = end + 1;
                return Ok(&self.bytes[..self.given]);
            }
            if self.bytes.len() == CHUNK_LEN {
                self.bytes.clear(); // No line of a key log.
            }
        }
    }
}
