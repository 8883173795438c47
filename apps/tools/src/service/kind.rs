//! Which service, and when it ends its connections.

use std::time::Duration;

use exos_inet::tcp::Options;

/// Which service.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Send back whatever arrives (RFC 862).
    Echo,
    /// Throw away whatever arrives (RFC 863).
    Discard,
    /// Send a pattern for as long as it is taken, and throw away whatever arrives (RFC 864).
    Chargen,
}

impl Kind {
    /// How a connection to this service is opened: what echo has not sent back stays in the receive buffer, so
    /// that does not grow.
    pub fn options(self, options: Options) -> Options {
        match self {
            Self::Echo => Options {
                receive_buffer_max_bytes: options.receive_buffer_bytes,
                ..options
            },
            Self::Discard | Self::Chargen => options,
        }
    }

    /// The name of the service and of its program.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Discard => "discard",
            Self::Chargen => "chargen",
        }
    }
}

/// When a connection is ended by us.
#[derive(Copy, Clone, Debug, Default)]
pub struct Limits {
    /// After this many bytes, received or sent according to the service.
    pub bytes: Option<u64>,
    /// After so long.
    pub time: Option<Duration>,
}
