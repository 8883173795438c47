//! Why bytes are no response.

/// Why bytes are no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The head is none of HTTP's.
    Head,
    /// The head is longer than any that is believed.
    LongHead,
    /// Fields contradict each other about the body's length, or make no sense.
    Framing,
    /// A chunk's size or end is wrong.
    Chunk,
    /// Bytes came that nobody asked for.
    Unasked,
}
