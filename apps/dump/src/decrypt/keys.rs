//! The secrets that there are: of a key log, of what is appended to it, and of those that a capture brings along.

use exos_tls::keylog::KeyLog;

use super::key_file::KeyFile;

/// Secrets.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) log: KeyLog,
    file: Option<KeyFile>,
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
        self.log.add_lines(lines);
    }

    /// Somebody has given secrets, or a file in which there may be some: what has none waits for them.
    pub(super) fn are_given(&self) -> bool {
        self.are_given
    }

    /// Reads what was appended; true when there was a secret. A file that cannot be read any more has none.
    pub(super) fn read_file(&mut self) -> bool {
        let mut secrets = 0;
        if let Some(file) = &mut self.file {
            while let Ok(lines) = file.next_lines()
                && !lines.is_empty()
            {
                secrets += self.log.add_lines(lines);
            }
        }
        secrets > 0
    }
}
