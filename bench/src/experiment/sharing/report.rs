//! What was measured, for people and for programs (docs/json.md).

use super::figure::Figure;
use crate::report::Results;
use serde::Serialize;

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The kernel's release.
    pub kernel: String,
    /// What our program calls itself.
    pub exos: String,
    /// How often everything was measured.
    pub runs: u32,
    /// How long one measurement was meant to last.
    pub seconds: f64,
    /// The link that was divided.
    pub rate_mbit_per_sec: u64,
    /// What distorts the numbers, a sentence each.
    pub notes: Vec<String>,
    /// What was measured.
    pub figures: Vec<Figure>,
}

impl Results for Report {
    fn table(&self) -> String {
        let missed = self.figures.iter().filter(|f| f.met == Some(false)).count();
        let asked = self.figures.iter().filter(|f| f.met.is_some()).count();
        let mut lines = vec![
            format!(
                "sharing an interface, kernel {}, {}; medians of {} runs of {} s, a link of {} Mbit/s",
                self.kernel, self.exos, self.runs, self.seconds, self.rate_mbit_per_sec
            ),
            format!(
                "{:<44} {:>10} {:<10} {:>10} {:>10}  goal ({} of {asked} met)",
                "",
                "median",
                "",
                "least",
                "most",
                asked - missed
            ),
        ];
        let mut group = "";
        for figure in &self.figures {
            let own = figure.name.split('/').next().unwrap_or("");
            if own != group {
                lines.push(String::new());
                group = own;
            }
            lines.push(figure.row());
        }
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines.join("\n") + "\n"
    }
}
