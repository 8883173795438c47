//! An ordered list of slices, read as one run of bytes (IO-Lite, section 2.1): itself mutable, its bytes not.
//!
//! The operations are the paper's: [`truncate`](Aggregate::truncate), [`prepend`](Aggregate::prepend),
//! [`append`](Aggregate::append), [`concatenate`](Aggregate::concatenate), [`split`](Aggregate::split), and
//! [`replace`](Aggregate::replace), which changes bytes by chaining new ones between what stays. None copies a byte.
//!
//! [`exos_buf::Aggregate`] is its like for bytes that are all of this process, with positions that a connection needs;
//! [`to_local`](Aggregate::to_local) makes one.

use crate::lent::Lent;
use crate::slice::Slice;
use exos_wire::checksum::Sum;
use std::collections::VecDeque;
use std::ops::Range;

/// A list of slices of buffers, no one empty.
#[derive(Clone, Debug, Default)]
pub struct Aggregate {
    /// The first stands here, since most have one, which needs no memory then.
    first: Option<Slice>,
    /// The others, where there ever were any: an empty chain would be made and dropped for each list of one. Nothing without a first.
    rest: Option<VecDeque<Slice>>,
    len: usize,
}

impl Aggregate {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many slices there are.
    fn count(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.as_ref().map_or(0, VecDeque::len)
    }

    /// The slices, in order.
    pub fn slices(&self) -> impl ExactSizeIterator<Item = &Slice> {
        let mut rest = self.rest.iter().flatten();
        let mut first = self.first.as_ref();
        // A chain does not know its length.
        (0..self.count()).map(move |_| match first.take() {
            Some(first) => first,
            None => rest.next().expect("there are as many"),
        })
    }

    /// The first slice.
    #[inline]
    pub fn first(&self) -> Option<&Slice> {
        self.first.as_ref()
    }

    /// Adds a slice at the end.
    #[inline]
    pub fn append(&mut self, slice: Slice) {
        if !slice.is_empty() {
            self.len += slice.len();
            match self.first {
                None => self.first = Some(slice),
                Some(_) => self.rest.get_or_insert_default().push_back(slice),
            }
        }
    }

    /// Adds a slice at the beginning.
    pub fn prepend(&mut self, slice: Slice) {
        if !slice.is_empty() {
            self.len += slice.len();
            if let Some(second) = self.first.replace(slice) {
                self.rest.get_or_insert_default().push_front(second);
            }
        }
    }

    /// Adds all of another at the end.
    pub fn concatenate(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        if other.is_empty() {
            return;
        }
        self.len += other.len;
        let rest = self.rest.get_or_insert_default();
        rest.extend(other.first);
        rest.extend(other.rest.into_iter().flatten());
    }

    /// Takes the first slice out.
    #[inline]
    pub fn pop_first(&mut self) -> Option<Slice> {
        let first = self.first.take()?;
        self.first = self.rest.as_mut().and_then(VecDeque::pop_front);
        self.len -= first.len();
        Some(first)
    }

    /// Keeps the first bytes. One that is shorter stays as it is.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.split(len);
        }
    }

    /// Cuts it in two: this one keeps the bytes before the position, and those behind it are returned.
    ///
    /// # Panics
    ///
    /// When there are fewer bytes.
    pub fn split(&mut self, at: usize) -> Self {
        assert!(at <= self.len, "split at {at} of {} bytes", self.len);
        // Whole slices move; one may be cut.
        let mut all = std::mem::take(self);
        while let Some(slice) = all.pop_first() {
            let left = at - self.len;
            if slice.len() <= left {
                self.append(slice);
                continue;
            }
            self.append(slice.sub(0..left));
            all.prepend(slice.sub(left..slice.len()));
            break;
        }
        all
    }

    /// Puts other bytes in the place of a range: a new slice is chained between what stays.
    ///
    /// # Panics
    ///
    /// When the range does not lie within.
    pub fn replace(&mut self, range: Range<usize>, with: Self) {
        assert!(range.start <= range.end, "{range:?}");
        let behind = self.split(range.end);
        self.truncate(range.start);
        self.concatenate(with);
        self.concatenate(behind);
    }

    /// Copies a range into `out`, which has its length.
    ///
    /// # Panics
    ///
    /// When the range does not lie within, or `out` has another length.
    pub fn copy_to(&self, range: Range<usize>, out: &mut [u8]) {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} of {}",
            self.len
        );
        assert_eq!(
            range.len(),
            out.len(),
            "the output has the length of the range"
        );
        let (mut before, mut done) = (0, 0);
        for slice in self.slices() {
            let start = (range.start + done).saturating_sub(before);
            if start < slice.len() && done < out.len() {
                let now = (slice.len() - start).min(out.len() - done);
                slice.copy_to(start, &mut out[done..done + now]);
                done += now;
            }
            before += slice.len();
        }
    }

    /// All bytes, in one piece: a copy, for what has to have them so.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.len];
        self.copy_to(0..self.len, &mut out);
        out
    }

    /// As an aggregate for our own connections: by reference where the bytes are of this process's own memory, else copied.
    pub fn to_local(&self) -> exos_buf::Aggregate {
        self.slices().map(Slice::to_local).collect()
    }

    /// All bytes for any thread of this process: by reference where they are in another process's pool, else copied.
    pub fn lend(&self) -> Lent {
        Lent::of(self.slices())
    }

    /// Shows all bytes, block after block, as [`Slice::for_each_block`] does.
    pub fn for_each_block(&self, mut look: impl FnMut(&[u8])) {
        self.slices()
            .for_each(|slice| slice.for_each_block(&mut look));
    }

    /// The ones' complement sum, as if it began at an even offset of a packet.
    pub fn sum(&self) -> Sum {
        self.sum_by(Slice::sum)
    }

    pub(crate) fn sum_by(&self, mut of: impl FnMut(&Slice) -> Sum) -> Sum {
        let (mut sum, mut len) = (Sum::ZERO, 0);
        for slice in self.slices() {
            sum = sum.followed_by(len, of(slice));
            len += slice.len();
        }
        sum
    }
}

impl From<Slice> for Aggregate {
    fn from(slice: Slice) -> Self {
        let mut aggregate = Self::new();
        aggregate.append(slice);
        aggregate
    }
}

impl FromIterator<Slice> for Aggregate {
    fn from_iter<T: IntoIterator<Item = Slice>>(slices: T) -> Self {
        let mut aggregate = Self::new();
        slices.into_iter().for_each(|slice| aggregate.append(slice));
        aggregate
    }
}
