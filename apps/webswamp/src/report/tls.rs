//! TLS's handshakes of a load: how many were full, how many resumed a session, with early data or without, why others failed, and what was agreed upon. How
//! long they took stands among the times.

use super::numbers::{add_counts, listed};
use crate::statistics::Tls;

impl Tls {
    /// Adds another's.
    pub(super) fn add(&mut self, other: &Self) {
        self.handshakes_full += other.handshakes_full;
        self.handshakes_resumed += other.handshakes_resumed;
        self.handshakes_early += other.handshakes_early;
        self.early_refused += other.early_refused;
        add_counts(&mut self.handshakes_failed, &other.handshakes_failed);
        add_counts(&mut self.agreed, &other.agreed);
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
            let why = listed(&self.handshakes_failed).replace('_', " ");
            text.push_str(&format!(", {failed} failed ({why})"));
        }
        if !self.agreed.is_empty() {
            text.push_str(&format!("; {}", listed(&self.agreed)));
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
