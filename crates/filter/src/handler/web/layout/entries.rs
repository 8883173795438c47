//! Where entries lie, and what of them is behind: by how many there are, and how long responses may be.

use super::{
    ENTRIES, LOGGED_LEN, REPORT_COUNT, REPORT_LEN, REQUEST_MAX, REQUEST_MAX_LEAST, RESPONSE_MAX,
    SLOT_COUNT, SLOT_LEN, WAYS, copy, entry,
};

/// How many entries there are, and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// A power of two, [`WAYS`] at least, 65,536 at most.
    pub count: u64,
    /// Bytes of a response at most: a multiple of 8, [`RESPONSE_MAX`] at most.
    pub response_max: usize,
}

impl Entries {
    /// Whether there may be this number of entries, of this size.
    pub fn is_valid(self) -> bool {
        let is_response =
            (1..=RESPONSE_MAX).contains(&self.response_max) && self.response_max.is_multiple_of(8);
        is_response && self.count.is_power_of_two() && (WAYS..=1 << 16).contains(&self.count)
    }

    /// Bytes from the one copy to the other.
    pub const fn copy_len(self) -> u64 {
        copy::BYTES + self.response_max as u64
    }

    /// Bytes of an entry, a power of two.
    pub const fn entry_len(self) -> u64 {
        (self.request() + REQUEST_MAX_LEAST).next_power_of_two()
    }

    /// Where the request is in an entry.
    pub const fn request(self) -> u64 {
        entry::COPIES + 2 * self.copy_len()
    }

    /// Bytes of a request at most: [`REQUEST_MAX`], or what an entry has room for, which is 512 at least.
    pub const fn request_max(self) -> usize {
        let room = (self.entry_len() - self.request()) as usize;
        if room < REQUEST_MAX {
            room
        } else {
            REQUEST_MAX
        }
    }

    /// Bytes of the array without reports, which begin there.
    pub const fn memory_len(self) -> u64 {
        ENTRIES + self.count * self.entry_len()
    }

    /// Bytes of the array with reports, and lines for the log.
    pub const fn memory_len_with_reports(self) -> u64 {
        self.logged_of_report(REPORT_COUNT)
    }

    /// Where the lines for the log are of the slot that is `at` bytes behind the first, whose answer is to be reported.
    pub const fn logged_of_slot(self, at: u64) -> u64 {
        self.memory_len() + REPORT_COUNT * REPORT_LEN + at / SLOT_LEN * LOGGED_LEN
    }

    /// Where they are of a report, by its place.
    pub const fn logged_of_report(self, place: u64) -> u64 {
        self.logged_of_slot(SLOT_COUNT * SLOT_LEN) + place * LOGGED_LEN
    }

    /// Where the first of the entries is that a request with this hash may be in.
    pub const fn first_way(self, hash: u64) -> u64 {
        ((hash >> 8) & (self.count / WAYS - 1)) * WAYS * self.entry_len()
    }
}
