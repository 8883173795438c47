//! Header blocks of responses, as a client reads them that counts.
//!
//! Servers answer requests of a load with blocks that are often the same to the byte. As long as such a block changes nothing of
//! the table and nothing else has changed it since, it says what it said the last time.

use exos_http2::Fault;
use exos_http2::hpack::Decoder;
use exos_http2::limits::HEADER_TABLE_LEN;
use exos_http2::response::Answer;

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
