//! Words that the parts of the protocol have in common.

/// Bytes of a datagram's frame header: identifier, number of the datagram, how many there are, 0; two each.
pub(super) const FRAME: usize = 8;
/// A time of expiry up to this many seconds counts from now on, a larger one from 1970.
pub(super) const RELATIVE_MAX: i32 = 60 * 60 * 24 * 30;
/// What a command is answered with that is none.
pub(super) const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";

/// What bytes come to that begin with a command.
pub(super) enum Step {
    /// The command is not whole.
    More,
    /// As many bytes were the command, which may not all have come; and its answer.
    Answer(usize, Vec<u8>),
    /// The client is not to be understood.
    Close,
}

/// A word as a number.
pub(super) fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
