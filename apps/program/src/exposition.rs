//! Prometheus text (the exposition format, version 0.0.4): what every text of metrics is made of.

use std::fmt::{Display, Write as _};

/// The media type of such a text.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4";

/// What the samples of a metric are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// A text of metrics under construction.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Without metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// The samples of this metric follow. A name comes once in a text.
    pub fn begin(&mut self, name: &str, kind: Kind) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
    }

    /// A sample; `labels` is empty or of the form `name="value",...`, with values made by [`label_value`].
    pub fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            _ => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    /// A metric of one sample without labels.
    pub fn single(&mut self, name: &str, kind: Kind, value: impl Display) {
        self.begin(name, kind);
        self.sample(name, "", value);
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// A name as far as it can be one of a metric.
pub fn metric_name(name: &str) -> String {
    let usual = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.replace(|c| !usual(c), "_")
}

/// The value of a label, without its quotes.
pub fn label_value(value: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        match c {
            '\\' | '"' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_metrics() {
        let mut text = Exposition::new();
        text.single("up", Kind::Gauge, 1);
        text.begin("seen_total", Kind::Counter);
        for value in ["a\"b\\c\nd", "e"] {
            let labels = format!("name=\"{}\"", label_value(value));
            text.sample("seen_total", &labels, 2.5);
        }
        let wanted = "# TYPE up gauge\nup 1\n# TYPE seen_total counter\n\
            seen_total{name=\"a\\\"b\\\\c\\nd\"} 2.5\nseen_total{name=\"e\"} 2.5\n";
        assert_eq!(text.into_text(), wanted);
        assert_eq!(metric_name("odd name\n:é"), "odd_name___");
    }
}
