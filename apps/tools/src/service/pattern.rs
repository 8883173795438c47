//! What chargen sends: RFC 864's popular pattern.
//!
//! Lines of 72 of the 95 printing characters, each line beginning one character later than the last,
//! ended by CR LF. After 95 lines it repeats. One buffer of several such rounds is shared by all
//! connections; at any position of a stream, its byte is the buffer's at that position modulo its length.

use exos_buf::Buffer;

const LINE_CHARACTERS: usize = 72;
const LINE_LEN: usize = LINE_CHARACTERS + 2;
const PRINTING: usize = 95;

/// Rounds in the buffer: 450 kB, which stays in a core's cache and makes few slices of a window.
const ROUNDS: usize = 64;

/// The buffer, its checksums prepared.
pub fn pattern() -> Buffer {
    let mut bytes = Vec::with_capacity(ROUNDS * PRINTING * LINE_LEN);
    for line in 0..ROUNDS * PRINTING {
        let characters = (line..line + LINE_CHARACTERS).map(|n| b' ' + (n % PRINTING) as u8);
        bytes.extend(characters);
        bytes.extend(b"\r\n");
    }
    let buffer = Buffer::from(bytes);
    buffer.prepare_sums();
    buffer
}
