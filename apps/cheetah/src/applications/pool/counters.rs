//! What was asked of applications, in numbers.

use crate::applications::application::Address;

/// How many connections were opened and used again, and how many requests waited or were refused, in one language.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) opened: u64,
    pub(super) kept: u64,
    pub(super) waited: u64,
    pub(super) refused: u64,
}

/// In all languages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    /// Over FastCGI, and over shared buffers.
    applications: Counted,
    /// Over HTTP.
    upstreams: Counted,
    /// Upstreams that were left alone for a while.
    pub(super) rests: u64,
}

impl Counters {
    /// Those of the language that is spoken there.
    pub(super) fn of(&mut self, address: &Address) -> &mut Counted {
        match address {
            Address::Fastcgi(_) | Address::Shared(_) => &mut self.applications,
            Address::Http(_) | Address::Https(..) => &mut self.upstreams,
        }
    }

    /// All of them, by name.
    pub(super) fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let (applications, upstreams) = (self.applications, self.upstreams);
        let all = [
            ("fastcgi_connections", applications.opened),
            ("fastcgi_connections_reused", applications.kept),
            ("fastcgi_waits", applications.waited),
            ("fastcgi_refused_busy", applications.refused),
            ("proxy_connections", upstreams.opened),
            ("proxy_connections_reused", upstreams.kept),
            ("proxy_waits", upstreams.waited),
            ("proxy_refused_busy", upstreams.refused),
            ("proxy_upstream_rests", self.rests),
        ];
        all.into_iter()
    }
}
