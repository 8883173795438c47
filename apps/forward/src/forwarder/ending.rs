//! Flows that end because their server was taken away.

/// Flows that are to end, whatever their ends think: those of a server that came to a listener.
pub(super) struct Ending {
    pub(super) listener: u16,
    pub(super) server: u16,
    /// The next page of the server's ports, or of all flows where the server sees none of our ports.
    pub(super) page: usize,
}
