//! The one error of this crate: what could not be done, and how a person mends it.
//!
//! Interface: every fallible operation returns [`Error`]. `what` is a sentence without a full stop, in the
//! words of the one that asked ("cannot create the namespace exos-lab-a"), `mend` is an imperative that solves it,
//! `source` is the kernel's answer. `Display` prints all three on one line, ready to be shown as it is, and so does `Debug`,
//! for a `main` that returns it. A program that does something about an error matches on its [`ErrorKind`].

use std::fmt;
use std::io;

/// Which obstacle an [`Error`] is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// None of those below.
    #[default]
    Other,
    /// The kernel refuses it to this process (EPERM, EACCES).
    NoPermission,
    /// The kernel has no descriptor or no memory left. The same may succeed a moment later.
    Exhausted,
    /// An interface, file or other thing of that name is not there.
    NotFound,
    /// Another program has it: a queue, a port, a name.
    InUse,
    /// The kernel, the driver or this kind of link has no such thing.
    Unsupported,
    /// What was asked for does not fit together.
    Invalid,
    /// An address that is to be ours alone is this host's.
    AddressOfHost,
    /// An address or network that is to be ours alone is another's, or has a meaning of its own here.
    AddressInUse,
    /// The interface has no address to share, or none for this peer.
    NoAddress,
    /// The host's own connections leave too few local ports.
    TooFewPorts,
    /// An interface has fewer queues than cores are to run on it.
    TooFewQueues {
        /// How many it has: the most cores that can run on it.
        queues: u32,
    },
    /// Only a whole interface, attached to by AF_XDP, does that.
    NeedsInterface,
    /// No route leads to the peer.
    NoRoute,
    /// The daemon's socket is not there.
    NoDaemon,
    /// The daemon's socket is there, and nobody listens: it has ended.
    DaemonEnded,
    /// What listens at the socket is not the daemon.
    NotTheDaemon,
    /// The daemon refuses: by its policy, a limit, or since there is no such thing. What another program has is [`InUse`](Self::InUse).
    DaemonRefuses,
    /// The daemon does not answer, has closed the connection, or speaks another language.
    DaemonFails,
}

/// What could not be done, how to mend it, and the kernel's answer.
pub struct Error {
    /// What it is about, to match on.
    pub kind: ErrorKind,
    /// A sentence without a full stop: what could not be done.
    pub what: String,
    /// What a person can do about it, as an imperative; `None` when nothing better than `what` is known.
    pub mend: Option<String>,
    /// The error that the kernel gave, where there was one.
    pub source: Option<io::Error>,
}

/// A result whose error tells a person what to do.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of our own finding, without an answer of the kernel.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Other,
            what: what.into(),
            mend: None,
            source: None,
        }
    }

    /// An error that the kernel gave. A refusal for want of privilege gets its usual remedy.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let mend = (source.kind() == io::ErrorKind::PermissionDenied).then(|| {
            "run it as root, or give it CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_SYS_ADMIN"
                .to_owned()
        });
        Self {
            kind: kind_of(&source),
            what: what.into(),
            mend,
            source: Some(source),
        }
    }

    /// This error, as one of this kind.
    #[must_use]
    pub fn of_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// This error with this remedy, in place of any it had.
    #[must_use]
    pub fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// This error with another remedy beside any it had.
    #[must_use]
    pub fn or_mend(mut self, other: impl AsRef<str>) -> Self {
        let other = other.as_ref();
        self.mend = Some(match self.mend {
            Some(mend) => format!("{mend}; or {other}"),
            None => other.to_owned(),
        });
        self
    }

    /// What happened and the kernel's answer, without the remedy.
    pub fn sentence(&self) -> String {
        match &self.source {
            Some(source) => format!("{}: {}", self.what, without_number(source)),
            None => self.what.clone(),
        }
    }

    /// The kernel's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        self.source.as_ref().and_then(io::Error::raw_os_error)
    }

    /// True when the kernel answered with this error number.
    pub fn is(&self, errno: i32) -> bool {
        self.errno() == Some(errno)
    }

    /// True when the kernel had no descriptor or no memory left: it says nothing about what was asked for, and the same
    /// may be done a moment later.
    pub fn has_run_out(&self) -> bool {
        self.kind == ErrorKind::Exhausted
    }
}

fn kind_of(source: &io::Error) -> ErrorKind {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => ErrorKind::NoPermission,
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => ErrorKind::Exhausted,
        Some(libc::ENOENT | libc::ENODEV) => ErrorKind::NotFound,
        Some(libc::EBUSY | libc::EADDRINUSE | libc::EEXIST) => ErrorKind::InUse,
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())?;
        if let Some(mend) = &self.mend {
            write!(f, "; {mend}")?;
        }
        Ok(())
    }
}

/// As `Display`, since this is what a program prints whose `main` returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}

/// The kernel's text without Rust's " (os error N)", which tells a person nothing.
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Attaches what was being attempted to an operating system error.
pub trait Context<T> {
    /// Turns the error into an [`Error`] whose `what` is the given sentence.
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|source| Error::io(what(), source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_with_what_source_and_mend() {
        let refused = io::Error::from_raw_os_error(libc::EBUSY);
        let error =
            Error::io("cannot bind queue 0 of eth0", refused).mend("stop the other program");
        assert_eq!(
            error.to_string(),
            "cannot bind queue 0 of eth0: Device or resource busy; stop the other program"
        );
        assert!(error.is(libc::EBUSY) && !error.is(libc::EPERM));
        assert_eq!(error.kind, ErrorKind::InUse);
        assert_eq!(format!("{error:?}"), error.to_string());
        let error = error.or_mend("wait").of_kind(ErrorKind::Other);
        let both =
            "cannot bind queue 0 of eth0: Device or resource busy; stop the other program; or wait";
        assert_eq!(error.to_string(), both);
        assert_eq!(Error::new("no").or_mend("wait").to_string(), "no; wait");
    }

    #[test]
    fn want_of_privilege_is_explained() {
        let error = Error::io("cannot open", io::Error::from_raw_os_error(libc::EPERM));
        assert!(
            error
                .mend
                .as_deref()
                .is_some_and(|m| m.contains("CAP_NET_ADMIN")),
            "{error}"
        );
        let other = Error::io("cannot open", io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(other.mend, None);
    }
}
