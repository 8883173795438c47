//! What of a response's fields matters to a client that counts: the status and the length of the content.
//!
//! Servers answer requests of a load with blocks that are often the same to the byte. As long as such a block changes nothing of
//! the table and nothing else has changed it since, it says what it said the last time.

use exos_http2::Fault;
use exos_http2::hpack::Decoder;
use exos_http2::limits::HEADER_TABLE_LEN;

/// What the fields of a response say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: Option<u16>,
    /// The length of the content.
    pub(super) length: Option<u64>,
    /// It is none of a response.
    pub(super) is_wrong: bool,
}

/// Reads the blocks of a connection.
#[derive(Debug)]
pub(super) struct Answers {
    decoder: Decoder,
    /// The block that was read last,
    block: Vec<u8>,
    /// what it said,
    answer: Answer,
    /// and how often the table had changed then.
    changes: u64,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            decoder: Decoder::new(HEADER_TABLE_LEN),
            block: Vec::new(),
            answer: Answer::default(),
            changes: u64::MAX,
        }
    }
}

impl Answers {
    /// What a block says.
    ///
    /// # Errors
    ///
    /// It cannot be decoded.
    pub(super) fn read(&mut self, block: &[u8]) -> Result<Answer, Fault> {
        let before = self.decoder.changes();
        if self.changes == before && self.block == block {
            return Ok(self.answer);
        }
        let mut answer = Answer::default();
        let decoded = self
            .decoder
            .decode(block, |name, value| answer.field(name, value));
        decoded.map_err(|_| Fault::Compression)?;
        self.block.clear();
        if self.decoder.changes() == before && block.len() <= KEPT_LEN_MAX {
            self.block.extend_from_slice(block);
            (self.answer, self.changes) = (answer, before);
        } else {
            self.changes = u64::MAX;
        }
        Ok(answer)
    }
}

/// The longest block that is remembered: longer ones are rare, and take memory in each connection.
const KEPT_LEN_MAX: usize = 1024;

impl Answer {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b":status" => {
                let status = number(value).filter(|it| value.len() == 3 && *it >= 100);
                self.is_wrong |= status.is_none() || self.status.is_some();
                self.status = status.map(|status| status as u16);
            }
            // Only that one is a response's (RFC 9113 §8.3.2).
            [b':', ..] | [] => self.is_wrong = true,
            b"content-length" => {
                let length = number(value);
                let differs = self.length.is_some() && self.length != length;
                self.is_wrong |= length.is_none() || differs;
                self.length = length;
            }
            _ => self.is_wrong |= name.iter().any(u8::is_ascii_uppercase),
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let are_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| are_digits)?;
    text.parse().ok()
}
