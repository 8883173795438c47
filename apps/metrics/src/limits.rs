//! Every bound of this crate, with its reason.

use std::time::Duration;

/// Scrapers at once: there is one as a rule, and each is answered in a turn or two. One more takes the place of one that has
/// asked nothing.
pub const CLIENTS_MAX: usize = 32;

/// Newcomers in a turn, so that those who are there are heard between them.
pub const ACCEPTS_MAX: usize = CLIENTS_MAX;

/// Bytes of a scraper's request: Prometheus sends some 300.
pub const REQUEST_BYTES_MAX: usize = 4096;

/// How long a scraper may take from connecting to having asked: Prometheus asks at once.
pub const REQUEST_TIME: Duration = Duration::from_secs(2);

/// How long a scraper may take, from connecting to having read everything: on this machine it takes milliseconds.
pub const CLIENT_TIME: Duration = Duration::from_secs(5);

/// How often the text is made at most: each costs the daemon a report, and nobody scrapes that often.
pub const TEXT_EVERY: Duration = Duration::from_millis(250);
