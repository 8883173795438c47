//! Field sections of responses, made of the header blocks that the server has for HTTP/2.
//!
//! The block of a document is the same in every response of a second, so what was made of it is kept: in one of some places, which the
//! address of its last part says, as a document's fields stay where they are. Another block there replaces it.

use exos_buf::Slice;
use exos_http2::hpack;
use exos_http3::qpack::encoder;

use crate::limits::{QUIC_SECTION_LEN_MAX, QUIC_SECTIONS_MAX};

/// A block, and the section that was made of it.
#[derive(Clone, Default)]
struct Kept {
    block: Vec<u8>,
    section: Vec<u8>,
}

/// Sections that were made last.
pub(super) struct Sections(Vec<Kept>);

impl Default for Sections {
    fn default() -> Sections {
        Sections(vec![Kept::default(); QUIC_SECTIONS_MAX])
    }
}

impl Sections {
    /// The section of a block, and the length of the block.
    pub(super) fn of(&mut self, block: &[Slice]) -> (&[u8], usize) {
        let parts = || block.iter().map(|part| part.as_bytes());
        let len = parts().map(<[u8]>::len).sum();
        let address = block
            .last()
            .map_or(0, |part| part.as_bytes().as_ptr().addr());
        // Fibonacci hashing: addresses have the lower bits in common.
        let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = hash as usize % self.0.len();
        let kept = &mut self.0[place];
        if kept.section.is_empty() || !is_made_of(&kept.block, parts()) {
            kept.block.clear();
            parts().for_each(|part| kept.block.extend_from_slice(part));
            kept.section.clear();
            encode(&kept.block, &mut kept.section);
            if len > QUIC_SECTION_LEN_MAX {
                // It is not found again, and is there until the next one.
                kept.block = Vec::new();
            }
        }
        (&kept.section, len)
    }
}

fn is_made_of<'a>(mut whole: &[u8], parts: impl Iterator<Item = &'a [u8]>) -> bool {
    for part in parts {
        match whole.strip_prefix(part) {
            Some(rest) => whole = rest,
            None => return false,
        }
    }
    whole.is_empty()
}

fn encode(block: &[u8], section: &mut Vec<u8>) {
    encoder::begin(section);
    let push = |name: &[u8], value: &[u8]| encoder::push(section, name, value);
    let decoded = hpack::Decoder::new(0).decode(block, push);
    debug_assert!(
        decoded.is_ok(),
        "blocks of our own name fixed entries alone"
    );
}

#[cfg(test)]
mod tests {
    use exos_buf::Buffer;
    use exos_http3::qpack::decoder;

    use super::*;

    fn block(fields: &[(&str, &str)]) -> Vec<Slice> {
        let each = fields.iter().map(|(name, value)| {
            let mut out = Vec::new();
            hpack::encoder::push(&mut out, name.as_bytes(), value.as_bytes());
            Buffer::from(out).whole()
        });
        each.collect()
    }

    fn read(section: &[u8]) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut fields = Vec::new();
        decoder::decode(section, |name, value| {
            fields.push((text(name), text(value)))
        })
        .unwrap();
        fields
    }

    /// Whatever was kept before, a section says what its block says; also one that is too long to be kept.
    #[test]
    fn a_section_says_what_its_block_says() {
        let mut sections = Sections::default();
        let long = "x".repeat(2 * QUIC_SECTION_LEN_MAX);
        for round in 0..3 {
            for number in 0..2 * QUIC_SECTIONS_MAX {
                let number = number.to_string();
                let more = if number == "7" { &long[..] } else { "exos" };
                let fields = [(":status", "200"), ("etag", &number[..]), ("server", more)];
                let block = block(&fields);
                let (section, len) = sections.of(&block);
                let wanted = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
                assert_eq!(read(section), wanted, "{round}");
                let sum: usize = block.iter().map(Slice::len).sum();
                assert_eq!(len, sum);
            }
        }
    }
}
