//! Why packets were dropped, or not sent on.

use exos_program::text::plain;
use ratatui::text::{Line, Text};

use crate::units::{rate, short};

/// A reason that a counter has.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The counter's name.
    pub name: String,
    /// Packets so far.
    pub total: u64,
    /// Packets per second.
    pub rate: Option<f64>,
}

/// A line for each, with room for names as wide as this.
pub(crate) fn reason_lines(reasons: &[Reason], width: usize) -> Text<'static> {
    if reasons.is_empty() {
        return Text::from("nothing");
    }
    let lines = reasons.iter().map(|reason| {
        let (name, total) = (plain(&reason.name), short(reason.total as f64));
        Line::from(format!(
            "{name:<width$} {total:>7}  {:>7}/s",
            rate(reason.rate)
        ))
    });
    Text::from_iter(lines)
}
