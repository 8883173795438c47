//! How servers are checked.

use std::ops::RangeInclusive;
use std::time::Duration;

/// How servers are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What is done.
    pub kind: Kind,
    /// At which port; the server's own where it says none.
    pub port: Option<u16>,
    /// From the beginning of a check to that of the next.
    pub interval: Duration,
    /// How long a check may take; no longer than the interval.
    pub timeout: Duration,
    /// This many in a row have to be passed by a server that is not well.
    pub rise: u32,
    /// And this many failed by one that is.
    pub fall: u32,
}

/// What is done to check a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A connection has to come to stand.
    Tcp,
    /// A question of HTTP has to be answered.
    Http(Question),
}

/// A question of HTTP, and which answers are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The target: a path.
    pub path: String,
    /// The host that is asked for; the server's end where it says none.
    pub host: Option<String>,
    /// Status codes that are good.
    pub status: RangeInclusive<u16>,
    /// What the body has to have in it.
    pub body: Option<String>,
}
