//! What was asked of applications, in numbers.

/// How many connections were opened and used again, and how many requests waited or were refused.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) opened: u64,
    pub(super) kept: u64,
    pub(super) waited: u64,
    pub(super) refused: u64,
}

impl Counters {
    /// All of them, by name.
    pub(super) fn list(&self) -> [(&'static str, u64); 4] {
        [
            ("fastcgi_connections", self.opened),
            ("fastcgi_connections_reused", self.kept),
            ("fastcgi_waits", self.waited),
            ("fastcgi_refused_busy", self.refused),
        ]
    }
}
