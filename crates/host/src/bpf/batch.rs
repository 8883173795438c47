//! Reading the entries of a hash table by the hundred: one call of the kernel for many.
//!
//! A walk over the table keeps its place in a [`Cursor`], so it may be done in steps, with anything else between them.
//! Entries that are there from its beginning to its end are met once; what comes or goes meanwhile may be met or not.

use std::io;
use std::os::fd::AsRawFd as _;

use super::{Attr, Command, Map, bpf, failed};
use crate::error::Error;

/// Entries that a step makes room for at least: the kernel gives no part of a bucket, of which few have more than a handful.
const STEP_MIN: u32 = 64;

/// How far a walk has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(Option<u32>);

#[repr(C)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    element_flags: u64,
    flags: u64,
}
// SAFETY: the prefix for BPF_MAP_*_BATCH, no implicit padding; `Map::read_batch` takes the addresses from live buffers of
// `count` keys and values, and of the four bytes that a hash table keeps its place in.
unsafe impl Attr for BatchAttr {}

impl Map {
    /// Reads up to so many entries from where the cursor stands, and gives each, key and value, to `take`. True when there
    /// are more: call again with the same cursor. Else the cursor is at the beginning again.
    ///
    /// # Errors
    ///
    /// It is no hash table, or the kernel refuses.
    pub fn read_batch(
        &self,
        cursor: &mut Cursor,
        entries: u32,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<bool, Error> {
        let mut room = entries.max(STEP_MIN);
        loop {
            let mut keys = vec![0; room as usize * self.key_size];
            let mut values = vec![0; room as usize * self.user_value_size()];
            let (count, end) = self.batch(cursor, room, &mut keys, &mut values);
            let more = match end {
                Ok(()) => true,
                // That was the last bucket.
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => false,
                // The next bucket alone has more than there is room for.
                Err(e) if e.raw_os_error() == Some(libc::ENOSPC) => {
                    room *= 2;
                    continue;
                }
                Err(e) => {
                    return Err(failed(
                        format!("cannot read the BPF map `{}`", self.name),
                        e,
                    ));
                }
            };
            let keys = keys.chunks_exact(self.key_size);
            let values = values.chunks_exact(self.user_value_size());
            let entries = keys.zip(values).take(count as usize);
            entries.for_each(|(key, value)| take(key, value));
            if !more {
                *cursor = Cursor::default();
            }
            return Ok(more);
        }
    }

    /// One call: how many entries it gave, and how it ended.
    fn batch(
        &self,
        cursor: &mut Cursor,
        room: u32,
        keys: &mut [u8],
        values: &mut [u8],
    ) -> (u32, io::Result<()>) {
        let (from, mut to) = (cursor.0, 0u32);
        let mut attr = BatchAttr {
            in_batch: from
                .as_ref()
                .map_or(0, |from| std::ptr::from_ref(from) as u64),
            out_batch: &raw mut to as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: room,
            map_fd: self.fd.as_raw_fd() as u32,
            element_flags: 0,
            flags: 0,
        };
        let end = bpf(Command::MapLookupBatch, &mut attr).map(drop);
        if end.is_ok() {
            cursor.0 = Some(to);
        }
        (attr.count, end)
    }
}
