//! What a program of either stack does in an exchange.

/// The port of every server here.
pub(super) const PORT: u16 = 80;

/// Bytes of a request and of a response.
pub(super) const MESSAGE_BYTES: usize = 100;

/// What a program does with its connections.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Role {
    /// Listens, and takes whatever comes.
    Sink,
    /// Listens, takes whatever comes, and acknowledges each segment.
    EagerSink,
    /// Listens, and sends a document for ever.
    Source,
    /// Listens, and answers each request.
    Server,
    /// Listens, answers the request and finishes.
    ClosingServer,
    /// Connects, and sends a document for ever.
    ConnectingSource,
    /// Connects, and takes whatever comes.
    ConnectingSink,
    /// Connects once, and sends a request after each response.
    Client,
    /// Connects, sends a request, takes the response, closes, connects again.
    ReconnectingClient,
}

impl Role {
    pub(super) const fn connects(self) -> bool {
        matches!(
            self,
            Self::ConnectingSource | Self::ConnectingSink | Self::Client | Self::ReconnectingClient
        )
    }
}
