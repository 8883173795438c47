//! Header blocks made shorter for one peer: fields that it has in its table are named by their numbers (RFC 7541 §2.3.2, §6.1).
//!
//! What goes in are blocks of [`encoder`](super::encoder), which mean the same on every connection and are made once for all of them.
//! Their fields are told apart and not decoded: a field is known by its bytes. What comes out means what went in, on this connection and
//! behind what came out before, so all of it has to be sent, in this order.
//!
//! Which fields the peer is to keep:
//!
//! - what responses of a site have in common ([`IS_COMMON`]), when it is first sent;
//! - any other when it is sent for the second time within some responses: most tags and lengths are sent once, and would only
//!   displace what is common;
//! - the fixed names of secrets never: a client that can have guesses sent beside them would learn from the length when one is right
//!   (§7.1). Other fields are only kept for the client that they were sent to before.
//!
//! A block of which nothing may still be kept comes out the same while the table stays as it is: a few are remembered.

use super::decoder::{number, string};
use super::encoder::{push_indexed, push_number};
use super::sent_table::{SentTable, hash};
use super::table::{ENTRY_OVERHEAD, STATIC};
use crate::limits::{SEEN_FIELDS, SENT_TABLE_LEN, SHORT_BLOCK_LEN, SHORT_BLOCKS};

/// Fixed entries by number whose fields are the same in most responses of a site, where they have the same value at all.
const IS_COMMON: [bool; STATIC.len() + 1] = numbers(&[
    "accept-ranges",
    "cache-control",
    "content-encoding",
    "content-language",
    "content-type",
    "date",
    "server",
    "strict-transport-security",
    "vary",
    "via",
]);

/// Fixed entries by number whose values nobody is to guess.
const IS_SECRET: [bool; STATIC.len() + 1] = numbers(&[
    "authorization",
    "cookie",
    "proxy-authenticate",
    "proxy-authorization",
    "set-cookie",
    "www-authenticate",
]);

/// Which fixed entries have one of these names.
const fn numbers(names: &[&str]) -> [bool; STATIC.len() + 1] {
    let mut found = [false; STATIC.len() + 1];
    let mut at = 0;
    while at < names.len() {
        let mut number = 1;
        let mut is_found = false;
        while number <= STATIC.len() {
            if is_same(STATIC[number - 1].0.as_bytes(), names[at].as_bytes()) {
                found[number] = true;
                is_found = true;
            }
            number += 1;
        }
        assert!(is_found, "a name of a fixed entry");
        at += 1;
    }
    found
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Encodes the header blocks of a connection, in their order.
#[derive(Debug, Default)]
pub struct DynamicEncoder {
    table: SentTable,
    /// The least that the peer has allowed the table since the last block, if it has said anything since.
    least: Option<usize>,
    /// Hashes of fields that were sent and not kept, in a ring.
    seen: Vec<u32>,
    next_seen: usize,
    /// Blocks that change nothing, in a ring.
    short: Vec<Short>,
    next_short: usize,
    /// The block that was made last, and whether it comes out so again.
    out: Vec<u8>,
    is_lasting: bool,
}

/// A block that names entries, and what it was made of.
#[derive(Debug)]
struct Short {
    plain: Vec<u8>,
    coded: Vec<u8>,
    /// How many entries there had been.
    added: u64,
}

impl Short {
    fn is_of(&self, block: &[&[u8]], added: u64) -> bool {
        if self.added != added {
            return false;
        }
        let mut rest = &self.plain[..];
        for part in block {
            match rest.split_at_checked(part.len()) {
                Some((begin, behind)) if begin == *part => rest = behind,
                _ => return false,
            }
        }
        rest.is_empty()
    }
}

impl DynamicEncoder {
    /// The peer has said what its table may come to (SETTINGS_HEADER_TABLE_SIZE).
    pub fn set_len_max(&mut self, len_max: usize) {
        let len_max = len_max.min(SENT_TABLE_LEN);
        if len_max != self.table.len_max {
            self.table.len_max = len_max;
            self.least = Some(self.least.map_or(len_max, |least| least.min(len_max)));
        }
    }

    /// Encodes a block, whose parts hold whole fields.
    #[inline]
    pub fn encode(&mut self, block: &[&[u8]]) -> &[u8] {
        let added = self.table.added;
        if self.least.is_none()
            && let Some(at) = self.short.iter().position(|it| it.is_of(block, added))
        {
            return &self.short[at].coded;
        }
        self.encode_fields(block)
    }

    /// Gives back memory that a long block took, when nothing is under way.
    pub fn shrink(&mut self, len: usize) {
        if self.out.capacity() > len {
            self.out = Vec::new();
        }
    }

    fn encode_fields(&mut self, block: &[&[u8]]) -> &[u8] {
        self.out.clear();
        let has_resized = self.least.is_some();
        if let Some(least) = self.least.take() {
            // RFC 7541 §4.2: the smallest, then the last.
            push_number(&mut self.out, 0x20, 5, least as u32);
            self.table.shrink(least);
            (self.short, self.next_short) = (Vec::new(), 0);
            if least != self.table.len_max {
                push_number(&mut self.out, 0x20, 5, self.table.len_max as u32);
            }
        }
        let added = self.table.added;
        self.is_lasting = !has_resized;
        for part in block {
            let mut rest = *part;
            while !rest.is_empty() {
                let len = self.push(rest);
                rest = &rest[len..];
            }
        }
        let plain_len: usize = block.iter().map(|part| part.len()).sum();
        self.is_lasting &= added == self.table.added;
        if self.is_lasting && plain_len <= SHORT_BLOCK_LEN {
            self.remember(block);
        }
        &self.out
    }

    /// Appends the field at the start of `rest`: how many bytes it has there.
    fn push(&mut self, rest: &[u8]) -> usize {
        let Some(field) = Field::parse(rest) else {
            unreachable!("fields of ours are whole");
        };
        let bytes = &rest[..field.len];
        if !field.may_be_kept {
            self.out.extend_from_slice(bytes);
            return field.len;
        }
        let hash = hash(bytes);
        if let Some(number) = self.table.find(hash, bytes) {
            push_indexed(&mut self.out, number);
        } else if let Some(size) = self.size_to_keep(&field, hash, bytes) {
            push_number(&mut self.out, 0x40, 6, field.name);
            self.out.extend_from_slice(&bytes[field.behind_name..]);
            self.table.add(hash, bytes, size);
        } else {
            self.out.extend_from_slice(bytes);
        }
        field.len
    }

    /// What a field comes to in the table, if it is to be kept.
    fn size_to_keep(&mut self, field: &Field, hash: u32, bytes: &[u8]) -> Option<usize> {
        let size_max = self.table.len_max / 2;
        // A code has eight bits for five at most, so what is coded is no shorter than that.
        if ENTRY_OVERHEAD + bytes.len() * 5 / 8 > size_max {
            return None;
        }
        if !IS_COMMON[field.name as usize] && !self.has_seen(hash) {
            // The next time it is kept.
            self.is_lasting = false;
            return None;
        }
        size(bytes).filter(|size| *size <= size_max)
    }

    /// Whether a field was sent lately; it is from now on.
    fn has_seen(&mut self, hash: u32) -> bool {
        if self.seen.contains(&hash) {
            return true;
        }
        put(&mut self.seen, &mut self.next_seen, SEEN_FIELDS, hash);
        false
    }

    fn remember(&mut self, block: &[&[u8]]) {
        let short = Short {
            plain: block.concat(),
            coded: self.out.clone(),
            added: self.table.added,
        };
        put(&mut self.short, &mut self.next_short, SHORT_BLOCKS, short);
    }
}

/// Puts something into a ring of `len_max`, in place of the oldest.
fn put<T>(ring: &mut Vec<T>, next: &mut usize, len_max: usize, it: T) {
    match ring.len() < len_max {
        true => ring.push(it),
        false => ring[*next] = it,
    }
    *next = (*next + 1) % len_max;
}

/// The beginning of a field in a block.
struct Field {
    /// The fixed entry that has its name; 0 where none has.
    name: u32,
    /// Where what follows that number begins.
    behind_name: usize,
    len: usize,
    may_be_kept: bool,
}

impl Field {
    /// The first field of a block; nothing where that is not whole.
    #[inline]
    fn parse(block: &[u8]) -> Option<Field> {
        let first = *block.first()?;
        let mut rest = block;
        if first & 0x80 != 0 {
            number(&mut rest, 7).ok()?;
            return Some(Field {
                name: 0,
                behind_name: 0,
                len: block.len() - rest.len(),
                may_be_kept: false,
            });
        }
        assert!(first & 0x60 == 0, "blocks of ours change no table");
        let name = number(&mut rest, 4).ok()?;
        let behind_name = block.len() - rest.len();
        if name == 0 {
            skip_string(&mut rest)?;
        }
        skip_string(&mut rest)?;
        // A bit says that nobody on the way is to keep it (§6.2.3).
        let is_secret = first & 0x10 != 0 || *IS_SECRET.get(name)?;
        Some(Field {
            name: name as u32,
            behind_name,
            len: block.len() - rest.len(),
            may_be_kept: !is_secret,
        })
    }
}

#[inline]
fn skip_string(rest: &mut &[u8]) -> Option<()> {
    let len = number(rest, 7).ok()?;
    *rest = rest.get(len..)?;
    Some(())
}

/// What a field comes to in a table (§4.1).
fn size(field: &[u8]) -> Option<usize> {
    let (mut rest, mut buffer) = (field, Vec::new());
    let name_len = match number(&mut rest, 4).ok()? {
        0 => string(&mut rest, &mut buffer).ok()?.len(),
        name => STATIC.get(name - 1)?.0.len(),
    };
    buffer.clear();
    let value_len = string(&mut rest, &mut buffer).ok()?.len();
    Some(name_len + value_len + ENTRY_OVERHEAD)
}

#[cfg(test)]
mod tests {
    use super::super::{Decoder, encoder};
    use super::*;

    fn field(name: &str, value: &str) -> Vec<u8> {
        let mut block = Vec::new();
        encoder::push(&mut block, name.as_bytes(), value.as_bytes());
        block
    }

    /// An encoder with its peer, which checks that what comes out means what went in.
    struct Pair {
        encoder: DynamicEncoder,
        decoder: Decoder,
    }

    impl Pair {
        fn new() -> Pair {
            Pair {
                encoder: DynamicEncoder::default(),
                decoder: Decoder::new(SENT_TABLE_LEN),
            }
        }

        /// Sends a block: how many bytes it took.
        fn send(&mut self, block: &[&[u8]]) -> usize {
            let (mut wanted, mut fields) = (Vec::new(), Vec::new());
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let plain = Decoder::new(0).decode(&block.concat(), |name, value| {
                wanted.push((text(name), text(value)));
            });
            let coded = self.encoder.encode(block);
            let decoded = self
                .decoder
                .decode(coded, |name, value| fields.push((text(name), text(value))));
            assert_eq!((plain, decoded), (Ok(()), Ok(())));
            assert_eq!(fields, wanted);
            coded.len()
        }
    }

    #[test]
    fn what_is_common_is_sent_once() {
        let mut pair = Pair::new();
        let opening = [
            field(":status", "200"),
            field("server", "exos"),
            field("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ]
        .concat();
        let document = [
            field("content-type", "text/html"),
            field("content-length", "5"),
        ]
        .concat();
        let len = |pair: &mut Pair| pair.send(&[&opening, &document]);
        let plain = opening.len() + document.len();
        // Names of later fixed entries take a byte less in front of what is kept.
        assert_eq!(len(&mut pair), plain - 3);
        assert_eq!(
            len(&mut pair),
            4 + field("content-length", "5").len() - 1,
            "the length is kept as well"
        );
        assert_eq!((len(&mut pair), len(&mut pair)), (5, 5));
        let later = field("date", "Sun, 06 Nov 1994 08:49:38 GMT");
        pair.send(&[&opening[..1], &later]);
        assert_eq!(len(&mut pair), 5);
    }

    /// On a connection whose table has what is common: the second time the rest of a document's fields is kept, the third it is named.
    #[test]
    fn each_document_becomes_short() {
        let mut pair = Pair::new();
        let common = [field(":status", "200"), field("server", "exos")].concat();
        pair.send(&[&common]);
        for tag in ["\"1\"", "\"2\""] {
            let document = [field("content-type", "text/plain"), field("etag", tag)].concat();
            let lens: Vec<usize> = (0..4).map(|_| pair.send(&[&common, &document])).collect();
            assert!(lens[0] > lens[2] && lens[1] > lens[2], "{lens:?}");
            assert_eq!(lens[2..], [4, 4]);
        }
    }

    /// However much has gone through it, and however long a block was, what is kept is little.
    #[test]
    fn memory_is_bounded() {
        let mut pair = Pair::new();
        pair.send(&[&field("x-long", &"~".repeat(30_000))]);
        for n in 0..10_000 {
            pair.send(&[
                &field("date", &n.to_string()),
                &field("etag", &(n / 2).to_string()),
            ]);
        }
        pair.encoder.shrink(2048);
        let encoder = &pair.encoder;
        let short: usize = encoder
            .short
            .iter()
            .map(|it| it.plain.len() + it.coded.len())
            .sum();
        let others = encoder.out.capacity() + 4 * encoder.seen.capacity() + short;
        assert!(others + encoder.table.memory() < 3 * SENT_TABLE_LEN);
        pair.encoder.set_len_max(0);
        pair.send(&[&field("server", "exos")]);
        assert_eq!(pair.encoder.table.memory(), 0);
    }

    #[test]
    fn secrets_are_not_kept() {
        let mut pair = Pair::new();
        let secret = field("set-cookie", "id=1");
        let mut marked = field("x-token", "1");
        marked[0] |= 0x10;
        for _ in 0..4 {
            assert_eq!(pair.send(&[&secret]), secret.len());
            assert_eq!(pair.send(&[&marked]), marked.len());
        }
    }

    #[test]
    fn what_is_long_displaces_nothing() {
        let mut pair = Pair::new();
        let long = field("server", &"~".repeat(SENT_TABLE_LEN));
        let short = field("server", "exos");
        pair.send(&[&short]);
        for _ in 0..3 {
            assert_eq!(pair.send(&[&long]), long.len());
            assert_eq!(pair.send(&[&short]), 1);
        }
    }

    /// RFC 7541 §4.2: the least that was said between two blocks, then the last.
    #[test]
    fn a_smaller_table_is_told_before_the_next_block() {
        let mut pair = Pair::new();
        let server = field("server", "exos");
        pair.send(&[&server]);
        pair.encoder.set_len_max(65_536);
        assert_eq!(pair.send(&[&server]), 1, "as large as it was");
        for len_max in [0, 100, 4096] {
            pair.encoder.set_len_max(len_max);
        }
        let coded = pair.encoder.encode(&[&server]).to_vec();
        assert_eq!(coded[..4], [0x20, 0x3f, 0xe1, 0x1f]);
        pair.decoder.decode(&coded, |_, _| {}).unwrap();
        assert_eq!(pair.send(&[&server]), 1);
        pair.encoder.set_len_max(0);
        assert_eq!(pair.send(&[&server]), 1 + server.len());
        assert_eq!(pair.send(&[&server]), server.len(), "there is no table");
    }

    /// All orders of some fields and of changes of the table, which holds two of them or three, one or none.
    #[test]
    fn any_order_is_decoded() {
        const STEPS: usize = 9;
        const LEN: u32 = 6;
        let fields = [
            field("server", "1"),
            field("date", "2"),
            field("vary", "3"),
            field("x-a", "4"),
            field("set-cookie", "5"),
        ];
        for order in 0..STEPS.pow(LEN) {
            let mut pair = Pair::new();
            pair.encoder.set_len_max(120);
            for step in 0..LEN {
                match order / STEPS.pow(step) % STEPS {
                    number @ ..5 => {
                        pair.send(&[&fields[number]]);
                    }
                    5 => drop(pair.send(&[&fields[0], &fields[1]])),
                    6 => pair.encoder.set_len_max(0),
                    7 => pair.encoder.set_len_max(80),
                    _ => pair.encoder.set_len_max(120),
                }
            }
        }
    }
}
