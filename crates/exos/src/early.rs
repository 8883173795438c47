//! Frames that came before the link was there.

/// What came for our addresses while the link was made, and the host saw.
#[derive(Debug, Default)]
pub(crate) struct Early {
    pub frames: Vec<Vec<u8>>,
    /// What there was no room for.
    pub lost: u64,
}
