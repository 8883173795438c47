//! What was measured: medians for people, everything for programs (docs/json.md).

use super::bulk::Retransmissions;
use super::fair::FairCase;
use super::flood::FloodCase;
use super::wire::WireCase;
use crate::report::Results;
use crate::report::{median, ratios};
use exos_lab::Conditions;
use serde::Serialize;

/// What is asked of our stack in every cell of goodput: this part of Linux's.
const WANTED: f64 = 0.95;

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The kernel's release.
    pub kernel: String,
    /// What our program calls itself.
    pub exos: String,
    /// Congestion control of our stack where it sends bulk data; Linux's is CUBIC.
    pub exos_congestion_control: String,
    /// How often each cell was measured.
    pub runs: u32,
    /// How long one measurement was meant to last.
    pub seconds: f64,
    /// Rate of the emulated link in cells of goodput; 0: no limit.
    pub rate_mbit_per_sec: u64,
    /// What distorts the numbers, a sentence each.
    pub notes: Vec<String>,
    /// The plain wire.
    pub wire: Vec<WireCase>,
    /// The flood.
    pub flood: Vec<FloodCase>,
    /// Two flows.
    pub fair: Vec<FairCase>,
    /// Goodput.
    pub bulk: Vec<Case>,
}

/// One cell of goodput.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// What the wire did, in each direction.
    pub conditions: Conditions,
    /// Our goodput divided by Linux's in the same run: median over the runs.
    pub ratio: f64,
    /// The means over the runs, divided: it varies less where a few long silences decide a run.
    pub ratio_of_means: f64,
    /// What each did.
    pub results: Vec<Outcome>,
}

/// One contender in one cell.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// `exos`, `linux` or `linux-bbr`.
    pub contender: String,
    /// Median over the runs.
    pub goodput_mbit_per_sec: f64,
    /// Every run.
    pub runs: Vec<Run>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The seed of the wire's losses.
    pub seed: u64,
    /// Data that arrived, from the connection's beginning.
    pub goodput_mbit_per_sec: f64,
    /// What was sent again.
    pub retransmissions: Retransmissions,
}

impl Results for Report {
    fn table(&self) -> String {
        let mut lines = vec![format!(
            "TCP beside Linux's, kernel {}, {}; medians of {} runs of {} s",
            self.kernel, self.exos, self.runs, self.seconds
        )];
        let mut section = |title: &str, head: &str, rows: Vec<String>| {
            if !rows.is_empty() {
                lines.extend([String::new(), title.to_owned(), head.to_owned()]);
                lines.extend(rows);
            }
        };
        section(
            "the plain wire, MTU 1500, no losses; limit: AF_XDP frames from core to core",
            &format!(
                "{:<40} {:>9} {:>9} {:>9}",
                "", "Mbit/s", "kpackets", "of limit"
            ),
            self.wire.iter().map(WireCase::row).collect(),
        );
        section(
            "a SYN flood; 4,000 round trips a second on connections that stood before, 200 new connections a second",
            &format!(
                "{:<40} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                "", "kSYN/s", "trips/s", "x quiet", "p50 ms", "new/s", "failed", "p50 ms"
            ),
            self.flood.iter().flat_map(FloodCase::rows).collect(),
        );
        section(
            &format!(
                "two flows through 100 Mbit/s, 20 ms, a queue of 250 kB, {}",
                self.congestion_controls()
            ),
            &format!(
                "{:<40} {:>9} {:>9} {:>9} {:>9}",
                "", "Mbit/s", "Mbit/s", "1st share", "Jain"
            ),
            self.fair.iter().map(FairCase::row).collect(),
        );
        let below = self.bulk.iter().filter(|case| case.ratio < WANTED).count();
        section(
            &format!(
                "goodput in Mbit/s, {}, link of {} Mbit/s; x: exos / linux, median of the runs; {below} of {} cells below {WANTED}",
                self.congestion_controls(),
                self.rate_mbit_per_sec,
                self.bulk.len()
            ),
            &format!(
                "{:<40} {:>9} {:>9} {:>9} {:>9} {:>9}",
                "who sends / round trip / loss", "exos", "linux", "x", "x means", "linux-bbr"
            ),
            self.bulk.iter().map(Case::row).collect(),
        );
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines.join("\n") + "\n"
    }
}

impl Outcome {
    pub(super) fn of(contender: &str, runs: Vec<Run>) -> Self {
        Self {
            contender: contender.to_owned(),
            goodput_mbit_per_sec: median(runs.iter().map(|r| r.goodput_mbit_per_sec).collect()),
            runs,
        }
    }

    fn goodputs(&self) -> Vec<f64> {
        self.runs.iter().map(|r| r.goodput_mbit_per_sec).collect()
    }

    fn mean(&self) -> f64 {
        let sum: f64 = self.runs.iter().map(|run| run.goodput_mbit_per_sec).sum();
        sum / self.runs.len() as f64
    }
}

impl Case {
    /// The first result is ours, the second Linux's with the same congestion control.
    pub(super) fn new(name: &str, conditions: &Conditions, results: Vec<Outcome>) -> Self {
        let ratios = ratios(&results[0].goodputs(), &results[1].goodputs());
        Self {
            name: name.to_owned(),
            conditions: conditions.clone(),
            ratio: median(ratios),
            ratio_of_means: results[0].mean() / results[1].mean().max(f64::MIN_POSITIVE),
            results,
        }
    }

    /// A line for people.
    pub(super) fn row(&self) -> String {
        let goodput = |n: usize| {
            self.results.get(n).map_or(String::new(), |outcome| {
                format!("{:.2}", outcome.goodput_mbit_per_sec)
            })
        };
        let mark = if self.ratio < WANTED { "  <" } else { "" };
        let row = format!(
            "{:<40} {:>9} {:>9} {:>9.2} {:>9.2} {:>9}{mark}",
            self.name,
            goodput(0),
            goodput(1),
            self.ratio,
            self.ratio_of_means,
            goodput(2)
        );
        row.trim_end().to_owned()
    }
}

impl Report {
    fn congestion_controls(&self) -> String {
        match self.exos_congestion_control.as_str() {
            "cubic" => "CUBIC".to_owned(),
            ours => format!("exos with {ours}, Linux with CUBIC"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(contender: &str, goodputs: [f64; 3]) -> Outcome {
        let run = |goodput| Run {
            seed: 1,
            goodput_mbit_per_sec: goodput,
            retransmissions: Retransmissions::default(),
        };
        Outcome::of(contender, goodputs.map(run).to_vec())
    }

    /// The ratio is of each run: here the medians of the goodputs alone would say 1.
    #[test]
    fn ratios_are_taken_run_by_run() {
        let results = vec![
            outcome("exos", [10.0, 30.0, 20.0]),
            outcome("linux", [20.0, 10.0, 40.0]),
        ];
        let case = Case::new("bulk/send/1ms/0%", &Conditions::default(), results);
        assert_eq!(case.ratio, 0.5);
        assert!((case.ratio_of_means - 60.0 / 70.0).abs() < 1e-9);
        assert!(
            case.row()
                .ends_with("20.00     20.00      0.50      0.86            <")
        );
    }

    #[test]
    fn the_table_has_the_sections_that_were_measured() {
        let results = vec![
            outcome("exos", [10.0; 3]),
            outcome("linux", [10.0; 3]),
            outcome("linux-bbr", [11.0; 3]),
        ];
        let report = Report {
            kernel: "6.1.0".into(),
            exos: "exos 0.1.0".into(),
            exos_congestion_control: "cubic".into(),
            runs: 3,
            seconds: 4.0,
            rate_mbit_per_sec: 200,
            notes: vec!["core 0 was busy".into()],
            wire: Vec::new(),
            flood: Vec::new(),
            fair: Vec::new(),
            bulk: vec![Case::new(
                "bulk/send/1ms/0%",
                &Conditions::default(),
                results,
            )],
        };
        let expected = "\
TCP beside Linux's, kernel 6.1.0, exos 0.1.0; medians of 3 runs of 4 s

goodput in Mbit/s, CUBIC, link of 200 Mbit/s; x: exos / linux, median of the runs; 0 of 1 cells below 0.95
who sends / round trip / loss                 exos     linux         x   x means linux-bbr
bulk/send/1ms/0%                             10.00     10.00      1.00      1.00     11.00
note: core 0 was busy
";
        assert_eq!(report.table(), expected);
        let json: serde_json::Value = serde_json::from_str(&report.json()).expect("valid");
        assert_eq!(json["bulk"][0]["results"][2]["contender"], "linux-bbr");
    }
}
