//! Which answers of a rule's upstreams are kept, as it is configured.

use std::time::Duration;

use exos::wire::Prefix;

use crate::limits::{ANSWER_LEN, ANSWER_SHARE_PERCENT};

/// What is said of keeping the answers of a rule's upstreams. Each rule of each configuration has its own, by whose address in memory
/// an answer's rule is known: what was kept for one is never given out by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRules {
    /// The longest content of an answer.
    pub answer_len_max: u64,
    /// How much of the cache the answers of this rule may take.
    pub share_percent: u8,
    /// Clients may have an answer asked for again, by their Cache-Control.
    pub obeys_clients: bool,
    /// How long an answer that says nothing of it is fresh at most: a tenth of the time since its last change. Not at all where nothing is said here.
    pub heuristic: Option<Duration>,
    /// How long behind its time one will do while it is asked for, where it does not say so itself.
    pub stale_while_revalidate: Duration,
    /// How long behind its time one will do where there is no other, where it does not say so itself.
    pub stale_if_error: Duration,
    /// Who may have what is kept forgotten.
    pub purgers: Vec<Prefix>,
    /// Fields of which no upstream is sent what clients say: no answer depends on that.
    pub withheld: Vec<String>,
}

impl Default for CacheRules {
    fn default() -> CacheRules {
        CacheRules {
            answer_len_max: ANSWER_LEN,
            share_percent: ANSWER_SHARE_PERCENT,
            obeys_clients: true,
            heuristic: None,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            purgers: Vec::new(),
            withheld: Vec::new(),
        }
    }
}
