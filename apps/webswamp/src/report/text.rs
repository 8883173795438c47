//! The table for people.

use std::fmt::Write as _;

use super::{Distribution, POINTS, Results};

impl Results {
    /// A table.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:.0} requests/s, {:.2} MB/s of content, {:.0} connections/s, measured for {:.2} s",
            self.per_second(self.responses),
            self.per_second(self.content_bytes) / 1e6,
            self.per_second(self.connections),
            self.measured_secs,
        );
        let _ = write!(text, "{} responses", self.responses);
        for (status, count) in &self.statuses {
            let _ = write!(text, ", {count} of {status}");
        }
        let _ = write!(text, "\n{} errors", self.errors_all());
        for (kind, count) in &self.errors {
            let _ = write!(text, ", {count} {}", kind.replace('_', " "));
        }
        text.push_str("\n\n           ");
        POINTS.iter().for_each(|(name, _)| {
            let _ = write!(text, "{name:>10}");
        });
        text.push('\n');
        for (name, times) in self.times_us.list() {
            if !times.0.is_empty() {
                text.push_str(&row(&name.replace('_', " "), times));
            }
        }
        let _ = writeln!(
            text,
            "\nwe were busy for {:.0} % of the time",
            100.0 * self.busy_share(),
        );
        text
    }
}

fn row(name: &str, times: &Distribution) -> String {
    let mut text = format!("{name:<11}");
    for (_, quantile) in POINTS {
        let time = times.at(quantile).unwrap_or(0);
        let _ = write!(text, "{:>10}", micros(time));
    }
    text.push('\n');
    text
}

/// A time as a person reads it.
pub(crate) fn micros(micros: u64) -> String {
    let it = micros as f64;
    match micros {
        0..1000 => format!("{micros} us"),
        1000..1_000_000 => format!("{:.2} ms", it / 1e3),
        _ => format!("{:.2} s", it / 1e6),
    }
}

/// A number as a person reads it.
pub(crate) fn plain(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}
