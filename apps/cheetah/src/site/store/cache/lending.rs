//! Documents whose content is in a file cache that processes share ([`exos_file_cache`]): by reference where it takes a file, and where it does
//! not the store reads that by itself, as all files without it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use exos_buf::SharedBytes;
use exos_file_cache::{Lender, NotLent};

use crate::limits::LENT_LEN_MIN;

/// The file cache of one program, for all threads that read. A clone is the same one.
#[derive(Clone, Debug)]
pub struct FromCache(Arc<Said>);

/// What comes from there, and what was said of it.
#[derive(Debug)]
struct Said {
    lender: Lender,
    /// Whether there was a service when last asked, as it was said.
    is_there: AtomicBool,
    is_missing: AtomicBool,
    /// Why files are not taken.
    reasons: Mutex<BTreeSet<&'static str>>,
}

impl FromCache {
    /// From the service at this socket, or the one that is found; its thread may run on these cores. Nothing is begun before a file is asked for.
    pub fn new(socket: Option<PathBuf>, cores: Vec<usize>) -> FromCache {
        FromCache(Arc::new(Said {
            lender: Lender::new(socket, cores),
            is_there: AtomicBool::new(false),
            is_missing: AtomicBool::new(false),
            reasons: Mutex::default(),
        }))
    }

    /// Bytes that documents may keep there, where that is known.
    pub fn limit(&self) -> Option<u64> {
        self.0.lender.limit()
    }

    /// How many memberships are over, the documents of which are to go.
    pub fn ended(&self) -> u64 {
        self.0.lender.ended()
    }

    /// Whether files of this length are asked for.
    pub fn is_for(len: u64) -> bool {
        len >= LENT_LEN_MIN
    }

    /// Bytes that a file of this length keeps there.
    pub fn taken(len: u64) -> u64 {
        Lender::taken(len)
    }

    /// All of a file of this length; nothing where it is to be read, of which is said why, once.
    pub fn lend(&self, file: &File, len: u64) -> Option<SharedBytes> {
        let file = file.try_clone().ok()?;
        match self.0.lender.lend(file.into(), len) {
            Ok(lent) => {
                self.0.is_missing.store(false, Ordering::Relaxed);
                if !self.0.is_there.swap(true, Ordering::Relaxed) {
                    exos_program::info!("exos serve: documents come from the file cache");
                }
                Some(SharedBytes::foreign(Box::new(lent)))
            }
            Err(why) => {
                self.0.say(&why);
                None
            }
        }
    }
}

impl Said {
    fn say(&self, why: &NotLent) {
        match why {
            NotLent::NoService(error) => {
                self.is_there.store(false, Ordering::Relaxed);
                if !self.is_missing.swap(true, Ordering::Relaxed) {
                    exos_program::warn!(
                        "exos serve: {error}; until there is one documents are copied"
                    );
                }
            }
            NotLent::Refused(status) => {
                let reasons = self.reasons.lock();
                let mut reasons = reasons.unwrap_or_else(PoisonError::into_inner);
                if reasons.insert(status.reason()) {
                    exos_program::info!(
                        "exos serve: the file cache does not take a file: {}; such are copied",
                        status.reason()
                    );
                }
            }
            // For a while: counters tell how often.
            _ => {}
        }
    }
}
