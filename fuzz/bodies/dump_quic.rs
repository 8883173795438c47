//! What is checked of QUIC in `exos-dump`: frames by peers who have the keys become text, whatever they are.

use aws_lc_rs::aead::quic::{AES_128, HeaderProtectionKey};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use exos_dump::limits::TOLD_BYTES_MAX;
use exos_dump::text::{Printer, Style};
use exos_dump::{Origin, Packet};

/// Of RFC 9001 §5.2.
const SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
/// By which client and server are reached.
pub const IDS: [[u8; 8]; 2] = [*b"client's", *b"server's"];
/// To which the client's first packet goes.
pub const FIRST_ID: [u8; 8] = *b"nobody's";
const RANDOM: u8 = 7;
/// Addresses and ports of client and server.
pub const ENDS: [End; 2] = [([10, 0, 0, 1], 999), ([10, 0, 0, 2], 443)];

pub type End = ([u8; 4], u16);
/// Of a short header (RFC 9000 §17.3.1).
pub const SHORT: u8 = 0x40;

/// How a packet is encrypted.
pub struct Keys {
    header: HeaderProtectionKey,
    packet: LessSafeKey,
    iv: [u8; 12],
}

struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label (RFC 8446 §7.1).
fn expand(secret: &Prk, label: &str, len: usize) -> Vec<u8> {
    let label = format!("tls13 {label}");
    let info = [&[0, len as u8, label.len() as u8], label.as_bytes(), &[0]];
    let mut out = vec![0; len];
    let expanded = secret.expand(&info, Len(len)).expect("a length that works");
    expanded.fill(&mut out).expect("its length");
    out
}

impl Keys {
    pub fn new(secret: &[u8]) -> Keys {
        let secret = Prk::new_less_safe(HKDF_SHA256, secret);
        let key = UnboundKey::new(&AES_128_GCM, &expand(&secret, "quic key", 16));
        let header = HeaderProtectionKey::new(&AES_128, &expand(&secret, "quic hp", 16));
        let iv = expand(&secret, "quic iv", 12);
        Keys {
            header: header.expect("its length"),
            packet: LessSafeKey::new(key.expect("its length")),
            iv: iv.try_into().expect("its length"),
        }
    }

    /// By the identifier to which the client's first packet goes.
    pub fn initial(first_id: &[u8], is_server: bool) -> Keys {
        let secret = Salt::new(HKDF_SHA256, &SALT).extract(first_id);
        let label = ["client in", "server in"][usize::from(is_server)];
        Keys::new(&expand(&secret, label, 32))
    }

    /// A packet with the last two bytes of its number.
    pub fn seal(&self, head: &[u8], number: u32, frames: &[u8]) -> Vec<u8> {
        let at = head.len();
        let mut packet = [head, &number.to_be_bytes()[2..]].concat();
        let mut nonce = self.iv;
        for (byte, of_number) in nonce[8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= of_number;
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let mut payload = frames.to_vec();
        let sealed = self
            .packet
            .seal_in_place_append_tag(nonce, Aad::from(&packet), &mut payload);
        sealed.expect("a length that works");
        packet.extend(payload);
        let sample = &packet[at + 4..][..16];
        let mask = self.header.new_mask(sample).expect("its length");
        let of_first = if packet[0] & 0x80 != 0 { 0x0f } else { 0x1f };
        packet[0] ^= mask[0] & of_first;
        packet[at] ^= mask[1];
        packet[at + 1] ^= mask[2];
        packet
    }
}

/// The header of a packet in front of its number: with this first byte, and for frames of this length.
fn head(first: u8, is_server: bool, is_first: bool, len: usize) -> Vec<u8> {
    let (to, from) = match (is_server, is_first) {
        (true, _) => (IDS[0], IDS[1]),
        (false, true) => (FIRST_ID, IDS[0]),
        (false, false) => (IDS[1], IDS[0]),
    };
    if first & 0x80 == 0 {
        return [&[first | 1], &to[..]].concat();
    }
    long_head(first, &to, &from, len)
}

/// That of a long one, between these identifiers.
pub fn long_head(first: u8, to: &[u8], from: &[u8], len: usize) -> Vec<u8> {
    let mut head = vec![first | 1, 0, 0, 0, 1, to.len() as u8];
    head.extend(to);
    head.push(from.len() as u8);
    head.extend(from);
    if first & 0x30 == 0 {
        head.push(0); // No token.
    }
    let len = (2 + len + 16) as u32;
    head.extend((0x8000_0000 | len).to_be_bytes());
    head
}

/// A datagram in a packet, as it is captured.
fn datagram((from, to): (End, End), payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((20 + len).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([from.0, to.0].as_flattened());
    for port in [from.1, to.1, len, 0] {
        frame.extend(port.to_be_bytes());
    }
    frame.extend_from_slice(payload);
    frame
}

/// From where to where a side sends.
fn path(is_server: bool) -> (End, End) {
    match is_server {
        true => (ENDS[1], ENDS[0]),
        false => (ENDS[0], ENDS[1]),
    }
}

/// A hello in a CRYPTO frame: of a client that speaks HTTP/3, or of a server.
pub fn hello(is_server: bool) -> Vec<u8> {
    let versions: &[u8] = match is_server {
        true => &[0, 43, 0, 2, 3, 4],
        false => &[
            0, 43, 0, 3, 2, 3, 4, 0, 16, 0, 5, 0, 3, 2, b'h', b'3', 0, 42, 0, 0,
        ],
    };
    let mut body = vec![3, 3];
    body.extend([RANDOM; 32]);
    body.push(0);
    match is_server {
        true => body.extend([0x13, 1, 0]),
        false => body.extend([0, 2, 0x13, 1, 1, 0]),
    }
    body.extend((versions.len() as u16).to_be_bytes());
    body.extend_from_slice(versions);
    let message = [
        &[1 + u8::from(is_server), 0, 0, body.len() as u8],
        &body[..],
    ]
    .concat();
    let mut frame = vec![6, 0, 0x40, message.len() as u8];
    frame.extend(message);
    frame
}

/// Secrets of all levels.
pub fn log() -> String {
    let hex = |byte: u8| format!("{byte:02x}").repeat(32);
    let labels = [
        "CLIENT_EARLY_TRAFFIC_SECRET",
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
    ];
    let lines = labels.iter().zip(0..);
    lines
        .map(|(label, secret)| format!("{label} {} {}\n", hex(RANDOM), hex(secret)))
        .collect()
}

/// Packets behind the hellos, each as three bytes and its content: whether its key comes late and how it is encrypted, its number, the
/// length of the content, in fours, and that. What is shown is bounded, and has no control characters.
pub fn quic(data: &[u8]) {
    let Some((&first, mut rest)) = data.split_first() else {
        return;
    };
    let style = Style {
        verbosity: first & 1,
        ..Style::default()
    };
    let mut printer = Printer::new(style);
    let is_late = first & 2 != 0;
    if !is_late {
        printer.add_keys(log().as_bytes());
    }
    let mut hellos = [hello(false), hello(true)];
    hellos[0].resize(1200, 0);
    for (is_server, frames) in [false, true].into_iter().zip(&hellos) {
        let head = head(0xc0, is_server, true, frames.len());
        let packet = Keys::initial(&FIRST_ID, is_server).seal(&head, 0, frames);
        let said = show(&mut printer, path(is_server), &packet);
        assert!(said.contains("#0 {CRYPTO 0:"), "{said}");
        assert!(said.contains("Hello"), "{said}");
    }
    let mut numbers = [1u16; 2];
    while let Some((&[how, number, len], behind)) = rest.split_first_chunk() {
        let (content, behind) = behind.split_at(behind.len().min(4 * usize::from(len)));
        rest = behind;
        let is_server = how & 1 != 0;
        let of_side = &mut numbers[usize::from(is_server)];
        *of_side = of_side.wrapping_add(1 + u16::from(number));
        // Of a connection that is known any flags are taken.
        let fixed = if number & 1 != 0 { 0x40 } else { 0 };
        let (first, keys) = match how >> 1 & 7 {
            0 => {
                show(&mut printer, path(is_server), content);
                continue;
            }
            1 => (0x80 | fixed, Keys::initial(&FIRST_ID, is_server)),
            2 => (0x90 | fixed, Keys::new(&[0; 32])),
            3 | 4 => (0xa0 | fixed, Keys::new(&[1 + u8::from(is_server); 32])),
            _ => (fixed, Keys::new(&[3 + u8::from(is_server); 32])),
        };
        let frames = match content {
            [] => &[0; 4],
            content => content,
        };
        let frames = [frames, &[0; 4][..4usize.saturating_sub(frames.len())]].concat();
        let head = head(first, is_server, false, frames.len());
        let said = show(
            &mut printer,
            path(is_server),
            &keys.seal(&head, u32::from(*of_side), &frames),
        );
        assert!(said.contains(": QUIC "), "{said}");
    }
    if is_late {
        printer.add_keys(log().as_bytes());
        let head = head(SHORT, false, false, 4);
        let ping =
            Keys::new(&[3; 32]).seal(&head, u32::from(numbers[0].wrapping_add(1)), &[1, 0, 0, 0]);
        show(&mut printer, path(false), &ping);
    }
}

pub fn show(printer: &mut Printer, path: (End, End), payload: &[u8]) -> String {
    show_cut(printer, path, payload, payload.len())
}

/// Shows a datagram of which this many bytes were captured.
pub fn show_cut(
    printer: &mut Printer,
    path: (End, End),
    payload: &[u8],
    captured: usize,
) -> String {
    let bytes = datagram(path, payload);
    let len = bytes.len();
    let mut text = String::new();
    let packet = Packet {
        time_ns: 0,
        bytes: &bytes[..len - payload.len() + captured],
        len,
        origin: Origin::default(),
    };
    printer.print(&packet, &mut text);
    let plain = |c: char| c == '\n' || c == '\t' || (' '..='~').contains(&c);
    assert!(text.chars().all(plain), "{text:?}");
    // A byte may be shown as four.
    assert!(
        text.len() <= 4 * TOLD_BYTES_MAX + 100 * bytes.len(),
        "{}",
        text.len()
    );
    text
}
