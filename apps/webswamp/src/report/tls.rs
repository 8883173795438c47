//! TLS's handshakes of a load: how many were full, how many resumed a session, with early data or without, why others failed, and what was agreed upon. How
//! long they took stands among the times.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::statistics::Handshakes;

/// TLS's handshakes on connections that were begun in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tls {
    /// With a certificate and a signature of the server's.
    pub handshakes_full: u64,
    /// With a ticket, or the name, of an earlier session.
    pub handshakes_resumed: u64,
    /// With a ticket, and a request in early data that the server has taken; not among those that are resumed.
    #[serde(default)]
    pub handshakes_early: u64,
    /// Those of the others with which early data was sent that the server has not taken: it was sent again.
    #[serde(default)]
    pub early_refused: u64,
    /// Those that failed, by reason; only reasons that happened.
    pub handshakes_failed: BTreeMap<String, u64>,
    /// Versions with cipher suites that were agreed upon, and how often.
    pub agreed: BTreeMap<String, u64>,
}

impl Tls {
    /// Of what was seen; `None` where there was no handshake.
    pub(super) fn of(seen: &Handshakes) -> Option<Self> {
        let failed = seen.failed.iter();
        let it = Self {
            handshakes_full: seen.full,
            handshakes_resumed: seen.resumed,
            handshakes_early: seen.early,
            early_refused: seen.early_refused,
            handshakes_failed: failed.map(|(why, n)| ((*why).to_owned(), *n)).collect(),
            agreed: seen.agreed.clone(),
        };
        (it != Self::default()).then_some(it)
    }

    /// Adds another's.
    pub(super) fn add(&mut self, other: &Self) {
        self.handshakes_full += other.handshakes_full;
        self.handshakes_resumed += other.handshakes_resumed;
        self.handshakes_early += other.handshakes_early;
        self.early_refused += other.early_refused;
        for (why, count) in &other.handshakes_failed {
            *self.handshakes_failed.entry(why.clone()).or_default() += count;
        }
        for (what, count) in &other.agreed {
            *self.agreed.entry(what.clone()).or_default() += count;
        }
    }

    /// All that it counts, together.
    pub(super) fn counted(&self) -> u128 {
        let named = self.handshakes_failed.values().chain(self.agreed.values());
        let own = [
            self.handshakes_full,
            self.handshakes_resumed,
            self.handshakes_early,
            self.early_refused,
        ];
        own.iter().chain(named).copied().map(u128::from).sum()
    }

    /// A line.
    pub fn text(&self) -> String {
        let listed = |counts: &BTreeMap<String, u64>, words: fn(&str) -> String| {
            let each = counts.iter();
            let each: Vec<String> = each
                .map(|(what, n)| format!("{n} {}", words(what)))
                .collect();
            each.join(", ")
        };
        let mut text = format!(
            "TLS: {} handshakes full, {} resumed",
            self.handshakes_full, self.handshakes_resumed
        );
        if self.handshakes_early + self.early_refused > 0 {
            text.push_str(&format!(", {} early", self.handshakes_early));
        }
        if self.early_refused > 0 {
            text.push_str(&format!(" ({} refused)", self.early_refused));
        }
        let failed: u64 = self.handshakes_failed.values().sum();
        if failed > 0 {
            let why = listed(&self.handshakes_failed, |why| why.replace('_', " "));
            text.push_str(&format!(", {failed} failed ({why})"));
        }
        if !self.agreed.is_empty() {
            text.push_str(&format!("; {}", listed(&self.agreed, str::to_owned)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;
    use crate::report::{Results, merge};

    #[test]
    fn what_is_counted_is_told_merged_and_read_again() {
        let mut it = results(1e9, 500);
        assert_eq!(it.tls, None);
        assert!(!it.text().contains("TLS"));
        it.tls = Some(Tls {
            handshakes_full: 7,
            handshakes_resumed: 3,
            handshakes_early: 4,
            early_refused: 1,
            handshakes_failed: [("certificate_expired".to_owned(), 2)].into(),
            agreed: [("TLSv1.3 TLS_AES_128_GCM_SHA256".to_owned(), 14)].into(),
        });
        it.times_us
            .handshake
            .0
            .record_n(300, 14)
            .expect("it is in bounds");
        let text = it.text();
        let line = "TLS: 7 handshakes full, 3 resumed, 4 early (1 refused), 2 failed (2 certificate expired); 14 TLSv1.3 TLS_AES_128_GCM_SHA256";
        assert!(
            text.contains(line) && text.contains("\nhandshake "),
            "{text}"
        );
        assert!(it.html().contains("7 handshakes full"));
        assert_eq!(Results::from_json(&it.json()).expect("we wrote it"), it);
        let plain = results(1e9, 500);
        for parts in [[it.clone(), plain.clone()], [plain, it.clone()]] {
            assert_eq!(
                merge(parts.to_vec()).expect("they ran together").tls,
                it.tls
            );
        }
        let twice = merge(vec![it.clone(), it]).expect("they ran together");
        let tls = twice.tls.expect("both have some");
        assert_eq!(
            (tls.handshakes_full, tls.counted()),
            (14, 2 * (7 + 3 + 4 + 1 + 2 + 14))
        );
        assert_eq!(twice.times_us.handshake.0.len(), 28);
    }
}
