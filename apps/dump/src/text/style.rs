//! How packets are shown.

/// How packets are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// How often `-v` was given: with one the IP header and checksums, with two everything.
    pub verbosity: u8,
    /// `-e`: the Ethernet header.
    pub link_header: bool,
    /// `-S`: sequence numbers as they are.
    pub absolute_seq: bool,
    /// `-x` or `-X`: the bytes below the line.
    pub rows: Option<Rows>,
}

/// Which bytes are shown below a packet's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// From the Ethernet header on, not only what follows it.
    pub link_header: bool,
    /// As characters too.
    pub characters: bool,
}

impl Style {
    pub(super) fn has_rows(&self) -> bool {
        self.rows.is_some()
    }
}
