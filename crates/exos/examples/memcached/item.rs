//! A value under a key, and how it is told of.

use exos::{Error, ErrorKind};

/// Bytes of a key.
pub const KEY_MAX: usize = 250;
/// Bytes of a value.
pub const VALUE_MAX: usize = 1 << 20;

/// A value, and what its client wants to know with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// A number of the client's.
    pub flags: u32,
    /// When it is no more, in seconds since 1970.
    pub expires: Option<u64>,
    /// The bytes.
    pub value: Vec<u8>,
}

/// What a `get` is answered with for one key.
pub(super) fn write_value(to: &mut Vec<u8>, key: &[u8], item: &Item, unique: Option<u64>) {
    to.extend(b"VALUE ");
    to.extend(key);
    to.extend(format!(" {} {}", item.flags, item.value.len()).bytes());
    to.extend(
        unique
            .iter()
            .flat_map(|unique| format!(" {unique}").into_bytes()),
    );
    to.extend(b"\r\n");
    to.extend(&item.value);
    to.extend(b"\r\n");
}

/// What the kernel answers to a `get` of a key, if that is not longer than the bytes given. The longest is for the program.
pub(super) fn answer(key: &[u8], item: &Item, bytes_max: usize) -> Option<Vec<u8>> {
    if key.len() > KEY_MAX || item.value.len() > bytes_max {
        return None;
    }
    let mut answer = Vec::new();
    write_value(&mut answer, key, item, None);
    answer.extend(b"END\r\n");
    (answer.len() <= bytes_max).then_some(answer)
}

pub(super) fn invalid(what: &'static str) -> Error {
    Error::new(what).of_kind(ErrorKind::Invalid)
}
