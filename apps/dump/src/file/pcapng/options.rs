//! Options of blocks, read and written.

use super::format::padding;
use crate::file::order::Order;

/// The options at the end of a block, one by one; an error where one is longer than what is left.
pub(super) struct Options<'a> {
    rest: &'a [u8],
    order: Order,
}

/// The option of this code is longer than its block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong(pub(super) u16);

impl<'a> Options<'a> {
    pub(super) fn new(rest: &'a [u8], order: Order) -> Self {
        Self { rest, order }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<(u16, &'a [u8]), TooLong>;

    fn next(&mut self) -> Option<Self::Item> {
        let ([a, b, c, d], rest) = std::mem::take(&mut self.rest).split_first_chunk()?;
        let code = self.order.u16([*a, *b]);
        let len = usize::from(self.order.u16([*c, *d]));
        if code == 0 {
            return None;
        }
        let Some((value, rest)) = rest.split_at_checked(len) else {
            return Some(Err(TooLong(code)));
        };
        // The last one's padding may be missing.
        self.rest = rest.get(padding(len)..).unwrap_or_default();
        Some(Ok((code, value)))
    }
}

/// Appends an option. A value that is longer than the length field can say is cut.
pub(super) fn put(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let len = value.len().min(usize::from(u16::MAX));
    out.extend(code.to_le_bytes());
    out.extend((len as u16).to_le_bytes());
    out.extend(&value[..len]);
    out.extend(&[0; 3][..padding(len)]);
}

/// Appends the end of the list.
pub(super) fn end(out: &mut Vec<u8>) {
    out.extend([0; 4]);
}
