//! Huffman-coded strings (RFC 7541 §5.2, Appendix B).
//!
//! The code is canonical: of each length, codes follow one another in the order of their symbols, and those of the next length
//! follow them. So the lengths say all, and the tables are made of these when this is compiled. Codes of up to
//! [`SHORT`] bits, which are all that text has, are looked up at once; longer ones by the first code of each length.

/// Bits of a symbol's code; the last is that of EOS, which no string has.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The longest code.
const LONGEST: usize = 30;
/// Codes of up to this many bits are looked up at once.
const SHORT: usize = 8;
const EOS: u16 = 256;

struct Tables {
    codes: [u32; 257],
    /// For each of the next bits a symbol and the length of its code; 0 where that is longer.
    short: [(u8, u8); 1 << SHORT],
    /// By length: the first code of that, the count of them, and where their symbols begin.
    first: [u32; LONGEST + 1],
    count: [u32; LONGEST + 1],
    begin: [u16; LONGEST + 1],
    /// Symbols in the order of their codes.
    symbols: [u16; 257],
}

static TABLES: Tables = make();

const fn make() -> Tables {
    let mut tables = Tables {
        codes: [0; 257],
        short: [(0, 0); 1 << SHORT],
        first: [0; LONGEST + 1],
        count: [0; LONGEST + 1],
        begin: [0; LONGEST + 1],
        symbols: [0; 257],
    };
    let (mut code, mut place, mut len) = (0u32, 0usize, 1usize);
    while len <= LONGEST {
        tables.first[len] = code;
        tables.begin[len] = place as u16;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == len {
                tables.codes[symbol] = code;
                tables.symbols[place] = symbol as u16;
                tables.count[len] += 1;
                if len <= SHORT {
                    let from = (code as usize) << (SHORT - len);
                    let mut at = 0;
                    while at < 1 << (SHORT - len) {
                        tables.short[from + at] = (symbol as u8, len as u8);
                        at += 1;
                    }
                }
                code += 1;
                place += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        len += 1;
    }
    tables
}

/// Appends what is coded. False, with some of it appended, where it is no string: it holds EOS, or ends with anything but up to seven
/// bits of EOS (§5.2).
#[must_use]
pub fn decode(coded: &[u8], out: &mut Vec<u8>) -> bool {
    // The shortest codes have five bits.
    out.reserve(coded.len() * 8 / 5);
    // `held` has this many bits that are not decoded, in its upper end.
    let (mut held, mut bits) = (0u64, 0usize);
    let mut rest = coded;
    loop {
        // Behind those there may be some of the next byte, which are put there again with it.
        if let Some(next) = rest.first_chunk() {
            held |= u64::from_be_bytes(*next) >> bits;
            let taken = (63 - bits) / 8;
            (rest, bits) = (&rest[taken..], bits + 8 * taken);
            // No short code is cut by the end of them.
            let mut symbols = [0; 56 / SHORT];
            let mut count = 0;
            for place in &mut symbols {
                let (symbol, len) = TABLES.short[(held >> (64 - SHORT)) as usize];
                if len == 0 {
                    break;
                }
                *place = symbol;
                count += 1;
                held <<= len;
                bits -= usize::from(len);
            }
            out.extend_from_slice(&symbols[..count]);
            if count == symbols.len() {
                continue;
            }
        }
        while bits <= 56
            && let Some((&byte, behind)) = rest.split_first()
        {
            held |= u64::from(byte) << (56 - bits);
            (rest, bits) = (behind, bits + 8);
        }
        if bits == 0 {
            return true;
        }
        let (symbol, len) = TABLES.short[(held >> (64 - SHORT)) as usize];
        let (symbol, len) = match usize::from(len) {
            0 => match long(held) {
                (EOS, len) if len <= bits => return false,
                found => found,
            },
            len => (u16::from(symbol), len),
        };
        if len > bits {
            return bits < 8 && held >> (64 - bits) == (1 << bits) - 1;
        }
        out.push(symbol as u8);
        held <<= len;
        bits -= len;
    }
}

/// The symbol whose longer code these bits begin with, and its length.
fn long(held: u64) -> (u16, usize) {
    for len in SHORT + 1..=LONGEST {
        let code = (held >> (64 - len)) as u32;
        if code.wrapping_sub(TABLES.first[len]) < TABLES.count[len] {
            let at = u32::from(TABLES.begin[len]) + code - TABLES.first[len];
            return (TABLES.symbols[at as usize], len);
        }
    }
    (EOS, LONGEST)
}

/// Bytes that a string comes to when it is coded.
pub fn coded_len(text: &[u8]) -> usize {
    let bits: usize = text
        .iter()
        .map(|b| usize::from(LENGTHS[usize::from(*b)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends a string, coded.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut held, mut bits) = (0u64, 0usize);
    for &byte in text {
        let len = usize::from(LENGTHS[usize::from(byte)]);
        held = held << len | u64::from(TABLES.codes[usize::from(byte)]);
        bits += len;
        while bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
        }
    }
    if bits > 0 {
        // The rest of the byte is of EOS, which is ones.
        out.push((held << (8 - bits)) as u8 | 0xff >> bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(coded, &mut out).then_some(out)
    }

    /// Some rows of Appendix B, of each kind.
    #[test]
    fn codes_are_those_of_the_rfc() {
        for (symbol, code, len) in [
            (0, 0x1ff8, 13),
            (9, 0xff_ffea, 24),
            (10, 0x3fff_fffc, 30),
            (48, 0, 5),
            (97, 3, 5),
            (122, 0x7b, 7),
            (127, 0xfff_fffc, 28),
            (128, 0xf_ffe6, 20),
            (249, 0xfff_fffe, 28),
            (255, 0x3ff_ffee, 26),
            (256, 0x3fff_ffff, 30),
        ] {
            assert_eq!(TABLES.codes[symbol], code, "{symbol}");
            assert_eq!(LENGTHS[symbol], len, "{symbol}");
        }
    }

    #[test]
    fn every_byte_comes_back() {
        for a in 0..=u8::MAX {
            for b in [a, b'0', 0, 255] {
                let text = [a, b, a];
                let mut coded = Vec::new();
                encode(&text, &mut coded);
                assert_eq!(coded.len(), coded_len(&text));
                assert_eq!(decoded(&coded).as_deref(), Some(&text[..]));
            }
        }
        assert_eq!(decoded(b""), Some(Vec::new()));
    }

    /// RFC 7541 §C.4.1, §C.6.1.
    #[test]
    fn examples_of_the_rfc() {
        let host = [
            0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
        ];
        assert_eq!(decoded(&host).as_deref(), Some(&b"www.example.com"[..]));
        assert_eq!(decoded(&[0x64, 0x02]).as_deref(), Some(&b"302"[..]));
        let mut coded = Vec::new();
        encode(b"www.example.com", &mut coded);
        assert_eq!(coded, host);
    }

    #[test]
    fn wrong_ends_are_refused() {
        // '0' is 00000: the padding has to be ones.
        assert_eq!(decoded(&[0b0000_0111]).as_deref(), Some(&b"0"[..]));
        assert_eq!(decoded(&[0b0000_0110]), None);
        assert_eq!(decoded(&[0b0000_0000]), None);
        // Eight bits of padding are too many.
        assert_eq!(decoded(&[0b0000_0111, 0xff]), None);
        assert_eq!(decoded(&[0xff]), None);
        // EOS itself.
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc]), None);
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfe, 0x07]), None);
    }
}
