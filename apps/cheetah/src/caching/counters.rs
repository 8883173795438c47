//! What was answered from what is kept, in numbers.

/// What became of requests that may be answered so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Requests that were answered with what is kept, fresh.
    pub hits: u64,
    /// With what is kept and was stale.
    pub stale: u64,
    /// With what is kept, of which an upstream has said that it still holds.
    pub revalidated: u64,
    /// Requests for which nothing was kept that would do.
    pub misses: u64,
    /// Requests to upstreams for which no client waited.
    pub refreshes: u64,
    /// Requests that waited for the answer to another one.
    pub waits: u64,
    /// Answers that were kept.
    pub kept: u64,
    /// Answers that are none to be kept.
    pub unkept: u64,
    /// Keys of which what is kept was forgotten, for something has changed what it is of.
    pub forgotten: u64,
    /// Targets, or beginnings of such, of which an operator had all forgotten.
    pub purged: u64,
    /// Bytes of content that came from what is kept.
    pub bytes: u64,
}

impl Counters {
    /// All of them, by name.
    pub fn list(&self) -> [(&'static str, u64); 11] {
        [
            ("proxy_cache_hits", self.hits),
            ("proxy_cache_stale", self.stale),
            ("proxy_cache_revalidated", self.revalidated),
            ("proxy_cache_misses", self.misses),
            ("proxy_cache_refreshes", self.refreshes),
            ("proxy_cache_waits", self.waits),
            ("proxy_cache_kept", self.kept),
            ("proxy_cache_unkept", self.unkept),
            ("proxy_cache_forgotten", self.forgotten),
            ("proxy_cache_purged", self.purged),
            ("proxy_cache_hit_bytes", self.bytes),
        ]
    }
}
