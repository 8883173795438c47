//! Short buffers that are written again when nobody refers to their bytes any more: what a connection sends in each turn then costs a
//! copy, and no allocation.

use std::collections::VecDeque;

use crate::buffer::Buffer;
use crate::limits::{RECYCLED_LEN_MAX, RECYCLED_LEN_MIN, RECYCLED_MAX};
use crate::slice::Slice;

/// Some of them, of one connection: what one turn sends is mostly acknowledged before the next but one.
#[derive(Debug, Default)]
pub struct Recycled {
    /// The one that was written last is the last.
    buffers: VecDeque<Buffer>,
}

impl Recycled {
    /// These bytes, in a buffer that was used before if there is one that is long enough, else in another.
    pub fn slice(&mut self, bytes: &[u8]) -> Slice {
        for _ in 0..self.buffers.len() {
            let Some(mut buffer) = self.buffers.pop_front() else {
                break;
            };
            let is_written = buffer.rewrite(bytes);
            self.buffers.push_back(buffer);
            if is_written {
                return self.last(bytes.len());
            }
        }
        if bytes.len() > RECYCLED_LEN_MAX {
            return Buffer::sent_once(bytes.to_vec()).whole();
        }
        let mut room = vec![0; bytes.len().next_power_of_two().max(RECYCLED_LEN_MIN)];
        room[..bytes.len()].copy_from_slice(bytes);
        if self.buffers.len() == RECYCLED_MAX {
            self.buffers.pop_front();
        }
        self.buffers.push_back(Buffer::sent_once(room));
        self.last(bytes.len())
    }

    fn last(&self, len: usize) -> Slice {
        self.buffers.back().expect("it was put there").slice(0..len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_refers_to_is_not_written() {
        let mut recycled = Recycled::default();
        let mut held: Vec<Slice> = Vec::new();
        for n in 0..10 {
            held.push(recycled.slice(&[n; 20]));
        }
        for (n, slice) in held.iter().enumerate() {
            assert_eq!(slice.as_bytes(), [n as u8; 20]);
        }
        assert_eq!(recycled.buffers.len(), RECYCLED_MAX);
        let last = held.pop().unwrap();
        drop(held);
        let buffer = recycled.slice(b"short").buffer().clone();
        assert!(!buffer.same(last.buffer()));
        drop(buffer);
        assert_eq!(last.as_bytes(), [9; 20]);
    }

    #[test]
    fn memory_is_used_again() {
        let mut recycled = Recycled::default();
        let first = recycled.slice(b"first");
        let at = first.as_bytes().as_ptr();
        drop(first);
        let second = recycled.slice(&[1; RECYCLED_LEN_MIN]);
        assert_eq!(second.as_bytes().as_ptr(), at);
        drop(second);
        let longer = recycled.slice(&[2; RECYCLED_LEN_MIN + 1]);
        assert_ne!(longer.as_bytes().as_ptr(), at);
        let longest = recycled.slice(&[3; RECYCLED_LEN_MAX + 1]);
        assert_eq!(longest.as_bytes(), [3; RECYCLED_LEN_MAX + 1]);
        assert_eq!(recycled.buffers.len(), 2, "that is not kept");
    }
}
