//! Bytes as hexadecimal numbers and as characters, and text that came from outside.

use super::line::Line;

/// Bytes in one row.
const ROW: usize = 16;

impl Line<'_> {
    /// Rows of hexadecimal numbers, with characters beside them on request.
    pub(super) fn rows(&mut self, indent: &str, bytes: &[u8], characters: bool) {
        for (i, row) in bytes.chunks(ROW).enumerate() {
            write!(self, "{indent}{:#06x}:  ", i * ROW);
            let mut width = 0;
            for (j, pair) in row.chunks(2).enumerate() {
                if j > 0 {
                    write!(self, " ");
                    width += 1;
                }
                self.hexadecimal("", pair);
                width += 2 * pair.len();
            }
            if characters {
                write!(self, "{:1$}", "", ROW / 2 * 5 - 1 - width + 2);
                for &byte in row {
                    let shown = if byte.is_ascii_graphic() { byte } else { b'.' };
                    write!(self, "{}", char::from(shown));
                }
            }
        }
    }

    /// Bytes that nobody reads further.
    pub(super) fn unread(&mut self, bytes: &[u8]) {
        if self.style.rows.is_none() {
            self.rows("\n\t", bytes, true);
        }
    }

    pub(super) fn hexadecimal(&mut self, before: &str, bytes: &[u8]) {
        if !bytes.is_empty() {
            write!(self, "{before}");
        }
        for byte in bytes {
            write!(self, "{byte:02x}");
        }
    }

    /// Text that somebody else wrote, see [`escape_into`].
    pub(super) fn escaped(&mut self, text: &[u8]) {
        escape_into(text, self.out);
    }
}

/// Text that somebody else wrote, see [`escape_into`].
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    escape_into(text.as_bytes(), &mut out);
    out
}

/// Appends text that somebody else wrote. A terminal takes commands in control characters, so that
/// those never get through: `^[` stands for escape, `M-a` for a byte with its highest bit set.
fn escape_into(text: &[u8], out: &mut String) {
    for &byte in text {
        let low = byte & 0x7f;
        if byte != low {
            out.push_str("M-");
        }
        match low {
            0x20..0x7f => out.push(char::from(low)),
            // DEL becomes ^?, the others their letter.
            _ => out.extend(['^', char::from(low ^ 0x40)]),
        }
    }
}
