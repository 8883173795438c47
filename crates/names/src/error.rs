//! Why a name has no addresses, in a sentence that says what to do.

use std::fmt;
use std::net::SocketAddr;

/// What kind of failure it is, for programs.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum ErrorKind {
    /// The text is no host name.
    BadName,
    /// No name server is configured.
    NoServer,
    /// The servers say that there is no such name.
    NoSuchName,
    /// The name exists and has no address of the families asked for.
    NoAddress,
    /// No server answered.
    NoAnswer,
    /// Servers answered that they cannot or will not look the name up.
    ServerFailure,
    /// Too many lookups are under way.
    Busy,
}

/// Why a name has no addresses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error {
    kind: ErrorKind,
    name: String,
    asked: Vec<SocketAddr>,
    detail: &'static str,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, name: &str) -> Self {
        let (name, asked) = (name.to_owned(), Vec::new());
        let detail = "";
        Self {
            kind,
            name,
            asked,
            detail,
        }
    }

    pub(crate) fn bad_name(name: &str, detail: &'static str) -> Self {
        let shown: String = name.chars().take(80).collect();
        Self {
            detail,
            ..Self::new(ErrorKind::BadName, &shown)
        }
    }

    pub(crate) fn with_servers(self, asked: Vec<SocketAddr>) -> Self {
        Self { asked, ..self }
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The name as it was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The servers that were asked, where that matters: kinds [`ErrorKind::NoAnswer`] and [`ErrorKind::ServerFailure`].
    pub fn asked(&self) -> &[SocketAddr] {
        &self.asked
    }
}

/// `192.0.2.1, 192.0.2.2`; a port only where it is not 53.
fn servers(asked: &[SocketAddr]) -> String {
    let shown = asked.iter().map(|server| match server.port() {
        53 => server.ip().to_string(),
        _ => server.to_string(),
    });
    shown.collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, asked) = (&self.name, servers(&self.asked));
        match self.kind {
            ErrorKind::BadName => write!(
                f,
                "\"{}\" is no host name: {}",
                name.escape_debug(),
                self.detail
            ),
            ErrorKind::NoServer => write!(
                f,
                "{name} cannot be looked up: no name server is configured; add a line \"nameserver ADDRESS\" to /etc/resolv.conf"
            ),
            ErrorKind::NoSuchName => write!(f, "there is no host {name}; check how it is written"),
            ErrorKind::NoAddress => write!(
                f,
                "{name} exists, but has no address of the kind needed; ask for both IPv4 and IPv6, or take another name"
            ),
            ErrorKind::NoAnswer => write!(
                f,
                "no name server answered for {name} (asked {asked}); check that they can be reached, or name others in /etc/resolv.conf"
            ),
            ErrorKind::ServerFailure => write!(
                f,
                "the name servers could not look up {name} (asked {asked}); try again later, or name others in /etc/resolv.conf"
            ),
            ErrorKind::Busy => write!(
                f,
                "{name} is not looked up, for {} lookups are under way; wait until some have ended",
                crate::limits::LOOKUPS_MAX
            ),
        }
    }
}

impl std::error::Error for Error {}
