//! A key log that other programs append to while it is read.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Bytes read at once, and the longest line that is taken: more than any secret's.
const CHUNK_LEN: usize = 1 << 16;

/// A key log, from its begin on to what has not been written yet.
#[derive(Debug)]
pub(crate) struct KeyFile {
    path: PathBuf,
    /// With how much of it was read; `None` while there is none of this name.
    file: Option<(File, u64)>,
    /// Nobody appends to it: its last line may have no end.
    is_complete: bool,
    /// What has been read: `given` bytes of it were handed on, the rest is the begin of a line.
    bytes: Vec<u8>,
    given: usize,
}

impl KeyFile {
    /// Opens it, if it is there: programs make it when they have something to write. Nothing will be appended to one that
    /// `is_complete`.
    ///
    /// # Errors
    /// It cannot be read, or is no file.
    pub(crate) fn open(path: &Path, is_complete: bool) -> io::Result<Self> {
        let mut keys = Self {
            path: path.to_owned(),
            file: None,
            is_complete,
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

    /// Opens it, where it is there and another than before, or was cut: it is read from its begin on then.
    fn look(&mut self) -> io::Result<()> {
        let named = match self.path.metadata() {
            Ok(named) => named,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        if !named.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is no file"));
        }
        if let Some((file, read)) = &self.file {
            let known = file.metadata()?;
            let is_same = (known.dev(), known.ino()) == (named.dev(), named.ino());
            if is_same && named.len() >= *read {
                return Ok(());
            }
        }
        self.file = Some((File::open(&self.path)?, 0));
        (self.bytes, self.given) = (Vec::new(), 0);
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
        loop {
            let Some((file, read)) = &mut self.file else {
                return Ok(&[]);
            };
            let room = (CHUNK_LEN - self.bytes.len()) as u64;
            let count = file.take(room).read_to_end(&mut self.bytes)?;
            *read += count as u64;
            let end = self.bytes.iter().rposition(|byte| *byte == b'\n');
            match end {
                Some(end) if count > 0 => self.given = end + 1,
                _ if count == 0 && self.is_complete => self.given = self.bytes.len(),
                _ if count == 0 => {}
                _ if self.bytes.len() == CHUNK_LEN => {
                    self.bytes.clear(); // No line of a key log.
                    continue;
                }
                _ => continue,
            }
            return Ok(&self.bytes[..self.given]);
        }
    }
}
