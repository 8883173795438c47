//! A program with a policy of its own for its share of the file cache: of the documents that it is asked for again and again it keeps the short
//! ones, so that as many questions as can be are answered without a question to the service.
//!
//! ```text
//! exos file-cache &
//! printf '%s\n' a b a | cargo run -p exos-file-cache --example own_policy
//! ```
//!
//! It reads names of files, a line each, and says of each how many bytes and lines it has.

use exos_file_cache::limits::BUFFER_LEN;
use exos_file_cache::{Client, Kept, KeptCounts};
use exos_replacement::{Key, Newcomer, Policy};
use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;

/// The longest go first.
#[derive(Debug, Default)]
pub struct ShortStay {
    by_length: BTreeSet<(u64, Key)>,
}

impl Policy for ShortStay {
    fn admitted(&mut self, newcomer: Newcomer) {
        self.by_length.insert((newcomer.bytes, newcomer.key));
    }

    fn victim(&mut self, _: &mut dyn FnMut(Key) -> u8) -> Option<Key> {
        self.by_length.pop_last().map(|(_, key)| key)
    }

    fn removed(&mut self, key: Key) {
        self.by_length.retain(|(_, there)| *there != key);
    }
}

/// The bytes and lines of a file.
pub fn count(kept: &mut Kept, name: &str) -> Result<(u64, usize), Box<dyn Error>> {
    let file = kept.open(File::open(name)?)?;
    let file = file.map_err(|status| format!("{name}: {}", status.reason()))?;
    let (mut at, mut lines) = (0, 0);
    loop {
        let bytes = kept.read_at(&file, at, usize::MAX)?;
        if bytes.is_empty() {
            kept.close(file)?;
            return Ok((at, lines));
        }
        at += bytes.len() as u64;
        bytes.for_each_block(|block| lines += block.iter().filter(|byte| **byte == b'\n').count());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // Room for three files of one buffer, so that there is something to decide.
    let limit = 3 * BUFFER_LEN as u64;
    let mut kept = Kept::new(Client::find()?, Box::new(ShortStay::default()))?.with_limit(limit);
    for name in std::io::stdin().lines() {
        let name = name?;
        let (bytes, lines) = count(&mut kept, &name)?;
        println!("{name}: {bytes} bytes, {lines} lines");
    }
    let KeptCounts {
        hits,
        misses,
        given_up,
    } = kept.counts();
    println!("{hits} read from what was kept, {misses} asked for, {given_up} given up");
    Ok(())
}
