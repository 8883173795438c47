//! The running kernel's own types: where a member of a structure lies, and the number of a function.
//!
//! From `/sys/kernel/btf/vmlinux` (BTF, Documentation/bpf/btf.rst). Programs that look into kernel structures are
//! generated for the kernel that they run on; nothing is assumed about layouts.
//!
//! ```text
//! header: magic 2 | version 1 | flags 1 | header length 4 | types at 4, length 4 | strings at 4, length 4
//! type:   name 4 | members 16 bits, kind 5 bits at 24, bit-field flag at 31 | size or type 4 | by kind …
//! member: name 4 | type 4 | offset in bits 4 (with the flag: 24 bits, and 8 of bit-field size)
//! ```
//!
//! The kernel's file is trusted to be right but not to be of the version known here: what cannot be read is an
//! error that says so.

use crate::error::{Context as _, Error, Result};

const MAGIC: u32 = 0xeb9f;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_FUNC: u32 = 12;
/// Structures inside structures without a name: deeper than any in the kernel.
const NESTING_MAX: usize = 16;

/// The kernel's types.
#[derive(Debug)]
pub struct KernelTypes {
    bytes: Vec<u8>,
    strings: usize,
    /// Where each type begins; the number of a type is its index.
    types: Vec<usize>,
    /// The numbers of those that are looked for by name: one type in ten is a structure, and each start of a program looks for several.
    structures: Vec<usize>,
    functions: Vec<usize>,
}

/// A member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// From the structure's begin, in bits.
    pub offset_bits: u32,
    /// Its width if it is a bit-field, else 0.
    pub width_bits: u32,
}

/// Bytes that follow a type's 12.
fn extra(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        1 | 14 | 17 => 4,
        3 => 12,
        4 | 5 | 15 | 19 => members * 12,
        6 | 13 => members * 8,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

impl KernelTypes {
    /// Of the running kernel.
    pub fn load() -> Result<Self> {
        let bytes = std::fs::read("/sys/kernel/btf/vmlinux")
            .context(|| "cannot read the kernel's type information /sys/kernel/btf/vmlinux")
            .map_err(|e| e.mend("use a kernel with CONFIG_DEBUG_INFO_BTF"))?;
        Self::parse(bytes).ok_or_else(|| {
            Error::new("the kernel's type information is of a version that is not known here")
        })
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        if word(0)? & 0xffff != MAGIC {
            return None;
        }
        let head = word(4)? as usize;
        let (start, len) = (head + word(8)? as usize, word(12)? as usize);
        let strings = head + word(16)? as usize;
        let mut types = vec![0];
        let (mut structures, mut functions) = (Vec::new(), Vec::new());
        let mut at = start;
        while at < start + len {
            let info = word(at + 4)?;
            let kind = info >> 24 & 0x1f;
            match kind {
                KIND_STRUCT => structures.push(types.len()),
                KIND_FUNC => functions.push(types.len()),
                _ => {}
            }
            types.push(at);
            at += 12 + extra(kind, info as usize & 0xffff)?;
        }
        Some(Self {
            strings,
            types,
            structures,
            functions,
            bytes,
        })
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |word| u32::from_ne_bytes(*word))
    }

    fn name_is(&self, at: usize, name: &str) -> bool {
        let text = self.bytes.get(self.strings + self.word(at) as usize..);
        text.and_then(|text| text.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    fn kind(&self, at: usize) -> u32 {
        self.word(at + 4) >> 24 & 0x1f
    }

    /// Those of these numbers whose type has this name.
    fn named<'a>(&'a self, numbers: &'a [usize], name: &'a str) -> impl Iterator<Item = usize> {
        let is_it = move |&number: &usize| self.name_is(self.types[number], name);
        numbers.iter().copied().filter(is_it)
    }

    /// The number of a function.
    pub fn function(&self, name: &str) -> Option<i32> {
        let found = self.named(&self.functions, name).next()?;
        i32::try_from(found).ok()
    }

    /// The number of a structure.
    pub fn structure(&self, name: &str) -> Option<i32> {
        let found = self.named(&self.structures, name).next()?;
        i32::try_from(found).ok()
    }

    /// A member of a structure, also one of a nameless structure inside it.
    pub fn member(&self, structure: &str, member: &str) -> Option<Member> {
        self.named(&self.structures, structure)
            .find_map(|number| self.member_of(self.types[number], member, NESTING_MAX))
    }

    fn member_of(&self, at: usize, name: &str, nesting: usize) -> Option<Member> {
        let info = self.word(at + 4);
        for index in 0..info as usize & 0xffff {
            let member = at + 12 + index * 12;
            let place = self.word(member + 8);
            let (offset_bits, width_bits) = match info >> 31 {
                0 => (place, 0),
                _ => (place & 0x00ff_ffff, place >> 24),
            };
            if self.name_is(member, name) {
                return Some(Member {
                    offset_bits,
                    width_bits,
                });
            }
            let inner = *self.types.get(self.word(member + 4) as usize)?;
            let nameless = self.word(member) == 0
                && matches!(self.kind(inner), KIND_STRUCT | KIND_UNION)
                && nesting > 0;
            if let Some(found) = nameless
                .then(|| self.member_of(inner, name, nesting - 1))
                .flatten()
            {
                return Some(Member {
                    offset_bits: offset_bits + found.offset_bits,
                    ..found
                });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Version;

    #[test]
    fn the_running_kernel_knows_its_socket_buffers() {
        let types = match KernelTypes::load() {
            Ok(types) => types,
            Err(error) => return super::super::tests::skipped(&error.to_string()),
        };
        let at = |name| types.member("sk_buff", name).expect(name).offset_bits;
        assert_eq!(at("csum_offset"), at("csum_start") + 16);
        assert_eq!(types.member("sk_buff", "ip_summed").unwrap().width_bits, 2);
        assert_eq!(types.member("sk_buff", "no_such_member"), None);
        let has_casts = crate::kernel::version().unwrap() >= Version { major: 6, minor: 2 };
        let cast = types.function("bpf_cast_to_kern_ctx");
        assert_eq!(cast.is_some(), has_casts);
        assert_eq!(types.function("no_such_function"), None);
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [vec![], vec![0; 24], vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0]] {
            assert!(KernelTypes::parse(bytes).is_none());
        }
    }
}
