//! What was seen of HTTP/2 or HTTP/3 in a load, added up and told.

use std::collections::BTreeMap;

use super::numbers::{add_counts, listed};
use crate::statistics::Multiplexing;

impl Multiplexing {
    /// Adds another's.
    pub(super) fn add(&mut self, other: &Self) {
        self.streams_per_connection = self
            .streams_per_connection
            .max(other.streams_per_connection);
        self.streams_allowed = self
            .streams_allowed
            .into_iter()
            .chain(other.streams_allowed)
            .min();
        self.asked_again += other.asked_again;
        for (own, its) in [
            (&mut self.resets, &other.resets),
            (&mut self.goaways, &other.goaways),
            (&mut self.faults, &other.faults),
        ] {
            add_counts(own, its);
        }
    }

    /// All that it counts, together.
    pub(super) fn counted(&self) -> u128 {
        let named = [&self.resets, &self.goaways, &self.faults];
        let named: u128 = named.iter().map(|it| u128::from(sum(it))).sum();
        named + u128::from(self.asked_again)
    }

    /// A line about this version of HTTP.
    pub fn text(&self, version: u8) -> String {
        let streams = self.streams_per_connection;
        let word = if streams == 1 { "stream" } else { "streams" };
        let mut text = format!("HTTP/{version}: {streams} {word} on each connection");
        if let Some(allowed) = self.streams_allowed {
            text.push_str(&format!(
                " ({allowed} at once: the server allows no more, and requests waited for it)"
            ));
        }
        for (counts, what) in [
            (&self.resets, "reset"),
            (&self.goaways, "goaways"),
            (&self.faults, "connections broken off by us"),
        ] {
            if !counts.is_empty() {
                let each = listed(counts).replace('_', " ");
                text.push_str(&format!(", {} {what} ({each})", sum(counts)));
            }
        }
        if self.asked_again > 0 {
            text.push_str(&format!(", {} requests asked again", self.asked_again));
        }
        text
    }
}

fn sum(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;
    use crate::report::{Results, merge};

    fn counts(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
        all.iter()
            .map(|(what, n)| ((*what).to_owned(), *n))
            .collect()
    }

    #[test]
    fn what_is_counted_is_told_merged_and_read_again() {
        let mut it = results(1e9, 500);
        assert_eq!(it.http2, None);
        it.http2 = Some(Multiplexing {
            streams_per_connection: 1,
            ..Multiplexing::default()
        });
        assert!(it.text().contains("HTTP/2: 1 stream on each connection\n"));
        it.http2 = Some(Multiplexing {
            streams_per_connection: 10,
            streams_allowed: Some(3),
            resets: counts(&[("refused_stream", 2), ("cancel", 1)]),
            goaways: counts(&[("no_error", 4)]),
            asked_again: 7,
            faults: counts(&[("push", 1)]),
        });
        let line = "HTTP/2: 10 streams on each connection (3 at once: the server allows no more, and requests waited for it), 3 reset (1 cancel, 2 refused stream), 4 goaways (4 no error), \
            1 connections broken off by us (1 push), 7 requests asked again\n";
        assert!(it.text().contains(line), "{}", it.text());
        assert_eq!(Results::from_json(&it.json()).unwrap(), it);
        let twice = merge(vec![it.clone(), it]).expect("they ran together");
        let http2 = twice.http2.expect("both have some");
        assert_eq!((http2.streams_per_connection, http2.counted()), (10, 30));
        assert_eq!(http2.streams_allowed, Some(3));
    }
}
