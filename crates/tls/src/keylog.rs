//! Key logs: secrets of sessions as lines of text, from which programs that read captures decrypt (`SSLKEYLOGFILE`, RFC 9850).
//!
//! ```text
//! LABEL <client random, 64 hexadecimal digits> <secret, 64 or 96 hexadecimal digits>
//! ```
//!
//! [`KeyLog`] is what was read of such a file; [`KeyLogWriter`] writes one. Other lines, comments among them, are passed over.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use exos_host::Error;

use crate::limits::KEY_LOG_SESSIONS_MAX;

/// Bytes of the random number in a client's hello, by which the lines of a session are found.
pub const RANDOM_LEN: usize = 32;
/// The longest secret: TLS 1.2's master secret, and those of SHA-384.
const SECRET_LEN_MAX: usize = 48;

/// What a secret is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Label {
    /// `CLIENT_RANDOM`: the master secret of TLS 1.2.
    Master,
    /// `CLIENT_EARLY_TRAFFIC_SECRET`: early data of TLS 1.3.
    ClientEarly,
    /// `CLIENT_HANDSHAKE_TRAFFIC_SECRET`.
    ClientHandshake,
    /// `SERVER_HANDSHAKE_TRAFFIC_SECRET`.
    ServerHandshake,
    /// `CLIENT_TRAFFIC_SECRET_0`.
    ClientTraffic,
    /// `SERVER_TRAFFIC_SECRET_0`.
    ServerTraffic,
}

impl Label {
    const NAMES: [(&'static str, Label); 6] = [
        ("CLIENT_RANDOM", Label::Master),
        ("CLIENT_EARLY_TRAFFIC_SECRET", Label::ClientEarly),
        ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", Label::ClientHandshake),
        ("SERVER_HANDSHAKE_TRAFFIC_SECRET", Label::ServerHandshake),
        ("CLIENT_TRAFFIC_SECRET_0", Label::ClientTraffic),
        ("SERVER_TRAFFIC_SECRET_0", Label::ServerTraffic),
    ];

    fn parse(word: &[u8]) -> Option<Label> {
        let found = Label::NAMES
            .iter()
            .find(|(name, _)| name.as_bytes() == word);
        found.map(|(_, label)| *label)
    }
}

/// The secrets of one session, by [`Label`]. They have no `Debug`.
#[derive(Clone, Default)]
struct Secrets([Option<Box<[u8]>>; Label::NAMES.len()]);

/// The secrets of sessions. Of the oldest it forgets them, when there are more than [`KEY_LOG_SESSIONS_MAX`].
#[derive(Default)]
pub struct KeyLog {
    young: HashMap<[u8; RANDOM_LEN], Secrets>,
    old: HashMap<[u8; RANDOM_LEN], Secrets>,
}

impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut log = f.debug_struct("KeyLog");
        log.field("sessions", &self.len()).finish_non_exhaustive()
    }
}

impl KeyLog {
    /// Takes a line, with or without its end; says whether it held a secret.
    pub fn add(&mut self, line: &[u8]) -> bool {
        let mut words = line
            .split(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
            .filter(|word| !word.is_empty());
        let (Some(label), Some(random), Some(secret), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return false;
        };
        let random = unhex(random).and_then(|bytes| <[u8; RANDOM_LEN]>::try_from(bytes).ok());
        let (Some(label), Some(random), Some(secret)) =
            (Label::parse(label), random, unhex(secret))
        else {
            return false;
        };
        if !matches!(secret.len(), RANDOM_LEN | SECRET_LEN_MAX) {
            return false;
        }
        if !self.young.contains_key(&random) {
            let known = self.old.remove(&random).unwrap_or_default();
            if self.young.len() >= KEY_LOG_SESSIONS_MAX / 2 {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(random, known);
        }
        let secrets = self.young.entry(random).or_default();
        secrets.0[label as usize] = Some(secret.into());
        true
    }

    /// Takes lines; says how many held a secret.
    pub fn add_lines(&mut self, text: &[u8]) -> usize {
        let lines = text.split(|byte| *byte == b'\n');
        lines.filter(|line| self.add(line)).count()
    }

    /// A secret of the session whose client's hello had this random number.
    pub fn secret(&self, random: &[u8; RANDOM_LEN], label: Label) -> Option<&[u8]> {
        let secrets = self.young.get(random).or_else(|| self.old.get(random))?;
        secrets.0[label as usize].as_deref()
    }

    /// Sessions that have secrets here.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether a line holds a secret that is known here.
pub fn holds_secret(line: &[u8]) -> bool {
    KeyLog::default().add(line)
}

/// Hexadecimal digits as bytes, as many as the longest secret has at most.
fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    if digits.len() > 2 * SECRET_LEN_MAX || !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8))
        .collect()
}

/// Writes the secrets of sessions to a file that its owner alone may read, each as soon as it is there.
pub struct KeyLogWriter(Mutex<File>);

impl fmt::Debug for KeyLogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLogWriter").finish_non_exhaustive()
    }
}

impl KeyLogWriter {
    /// Appends to this file, which is made if it is not there. One that is there has to be a file of this user's that nobody else can
    /// read or write, and no link.
    ///
    /// # Errors
    ///
    /// It cannot be written, or is for others too.
    pub fn append_to(path: &Path) -> Result<KeyLogWriter, Error> {
        let what = format!("the key log {} cannot be written", path.display());
        let mend =
            "name a file in a folder that nobody else may write to; none has to be there before";
        if path.symlink_metadata().is_ok_and(|it| it.is_symlink()) {
            return Err(Error::new(format!("{what}: it is a link")).mend(mend));
        }
        let mut options = OpenOptions::new();
        let opened = options.append(true).create(true).mode(0o600).open(path);
        let file = opened.map_err(|e| Error::io(what.clone(), e))?;
        let about = file.metadata().map_err(|e| Error::io(what.clone(), e))?;
        let own = Path::new("/proc/self").metadata();
        let is_own = own.is_ok_and(|own| own.uid() == about.uid());
        if !about.is_file() || !is_own || about.mode() & 0o077 != 0 {
            let what = format!("{what}: others can read or write it");
            return Err(Error::new(what).mend(mend));
        }
        Ok(KeyLogWriter(Mutex::new(file)))
    }
}

impl rustls::KeyLog for KeyLogWriter {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = String::with_capacity(256);
        line.push_str(label);
        for bytes in [client_random, secret] {
            line.push(' ');
            for byte in bytes {
                use fmt::Write as _;
                let _ = write!(line, "{byte:02x}"); // Text in memory takes everything.
            }
        }
        line.push('\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whole lines, so that several processes may write to one file. A full disk does not end sessions.
        let _ = file.write_all(line.as_bytes());
    }
}
