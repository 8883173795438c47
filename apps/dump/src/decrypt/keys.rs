//! The secrets that there are: of a key log, of what is appended to it, and of those that a capture brings along.

use exos_tls::keylog::KeyLog;

use super::key_file::KeyFile;

/// Secrets.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) log: KeyLog,
    file: Option<KeyFile>,
    /// How many there have been.
    count: u64,
    are_given: bool,
}

impl Keys {
    /// Reads this file, and what is appended to it.
    pub(super) fn follow(&mut self, file: KeyFile) {
        self.file = Some(file);
        self.are_given = true;
        self.read_file();
    }

    /// Takes lines of a key log.
    pub(super) fn add_lines(&mut self, lines: &[u8]) {
        self.are_given = true;
        self.count += self.log.add_lines(lines) as u64;
    }

    /// Somebody has given secrets, or a file in which there may be some: what has none waits for them.
    pub(super) fn are_given(&self) -> bool {
        self.are_given
    }

    /// How many secrets have come: more than before, and what waits is to be looked at.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Reads what was appended; true when there was a secret. A file that cannot be read any more has none.
    pub(super) fn read_file(&mut self) -> bool {
        let before = self.count;
        if let Some(file) = &mut self.file {
            while let Ok(lines) = file.next_lines()
                && !lines.is_empty()
            {
                self.count += self.log.add_lines(lines) as u64;
            }
        }
        self.count > before
    }
}
