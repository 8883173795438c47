//! Values of the gate's maps as bytes, and back: a list of fields for each, by which it is written and read.
//!
//! Ports are in network order, all other numbers in the machine's. Padding is zero: the kernel hashes whole keys.

/// A value as a part of a record.
pub(super) trait Field {
    fn put(&self, bytes: &mut Vec<u8>);
    /// Panics when the bytes end before it does: records are of one size.
    fn take(bytes: &mut &[u8]) -> Self;
}

/// The fields of a record in the order of their bytes, each with the bytes of padding behind it: what it is in a map
/// and what is read there.
macro_rules! record {
    ($type:ident, $len:literal { $($field:ident $(+ $padding:literal)?),* $(,)? }) => {
        impl $type {
            /// Bytes of it in a map.
            pub const LEN: usize = $len;

            /// As the map holds it.
            pub fn to_bytes(&self) -> [u8; Self::LEN] {
                let mut bytes = Vec::with_capacity(Self::LEN);
                self.put(&mut bytes);
                bytes.try_into().expect("the fields are as long as their sum")
            }

            /// From the map; `None` when it is not of its length.
            pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
                (bytes.len() == Self::LEN).then(|| Self::take(&mut bytes))
            }
        }

        impl $crate::gate::record::Field for $type {
            fn put(&self, bytes: &mut Vec<u8>) {
                $(
                    self.$field.put(bytes);
                    $([0; $padding].put(bytes);)?
                )*
            }

            fn take(bytes: &mut &[u8]) -> Self {
                $(
                    let $field = Field::take(bytes);
                    $(<[u8; $padding]>::take(bytes);)?
                )*
                Self { $($field),* }
            }
        }
    };
}

pub(super) use record;

impl<const N: usize> Field for [u8; N] {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }

    fn take(bytes: &mut &[u8]) -> Self {
        let (field, rest) = bytes.split_first_chunk().expect("records are of one size");
        *bytes = rest;
        *field
    }
}

impl Field for u8 {
    fn put(&self, bytes: &mut Vec<u8>) {
        [*self].put(bytes);
    }

    fn take(bytes: &mut &[u8]) -> Self {
        let [byte] = Field::take(bytes);
        byte
    }
}

impl Field for bool {
    fn put(&self, bytes: &mut Vec<u8>) {
        u8::from(*self).put(bytes);
    }

    fn take(bytes: &mut &[u8]) -> Self {
        u8::take(bytes) != 0
    }
}

/// A port, in network order.
impl Field for u16 {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.to_be_bytes().put(bytes);
    }

    fn take(bytes: &mut &[u8]) -> Self {
        Self::from_be_bytes(Field::take(bytes))
    }
}

macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl Field for $type {
            fn put(&self, bytes: &mut Vec<u8>) {
                self.to_ne_bytes().put(bytes);
            }

            fn take(bytes: &mut &[u8]) -> Self {
                Self::from_ne_bytes(Field::take(bytes))
            }
        }
    )*};
}

numbers!(u32 u64 i64);
