//! What was measured: a table for people, everything for programs (docs/json.md).

use super::callgrind::Counted;
use super::capacity::{Idle, TimeWait, Timers};
use super::options::{Exchange, Replayed};
use super::scenario::{Family, Link, Scenario, StackKind};
use crate::report::Results;
use serde::Serialize;
use std::fmt::Write as _;

/// The most bytes that an idle connection should take.
const IDLE_BYTES_GOAL: u32 = 512;

/// The least millions of timer operations a second.
const TIMERS_GOAL: u32 = 10;

/// Everything that was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// What could not be measured, and how to mend that.
    pub skipped: Vec<String>,
    /// Instructions of each exchange.
    pub instructions: Vec<Instructions>,
    /// Idle connections, few and many.
    pub idle: Vec<Idle>,
    /// Connections in TIME-WAIT.
    pub time_wait: Option<TimeWait>,
    /// The timer wheel.
    pub timers: Option<Timers>,
}

/// What one exchange costs one stack.
#[derive(Clone, Debug, Serialize)]
pub struct Instructions {
    /// Whose stack.
    pub stack: StackKind,
    /// The exchange.
    pub scenario: Scenario,
    /// The address family.
    pub family: Family,
    /// What the link says about received checksums.
    pub link: Link,
    /// How many operations were counted.
    pub operations: u64,
    /// Frames received for one operation.
    pub frames_in: f64,
    /// Frames sent for one operation.
    pub frames_out: f64,
    /// Instructions of one operation, the program's few included.
    pub instructions: f64,
    /// Those of them that asked the stack for frames to send.
    pub transmitting: f64,
    /// The most that it should take, where a limit was set for our stack.
    pub goal: Option<u32>,
}

impl Results for Report {
    fn table(&self) -> String {
        let mut out = String::new();
        self.skipped
            .iter()
            .for_each(|line| out += &format!("{line}\n"));
        self.table_of_instructions(&mut out);
        self.table_of_capacity(&mut out);
        out
    }
}

impl Instructions {
    /// Totals become shares of one operation.
    pub(super) fn new(exchange: &Exchange, done: &Replayed, counted: Counted) -> Self {
        let each = |total: u64| total as f64 / done.operations as f64;
        let ours = exchange.stack == StackKind::Exos;
        Self {
            stack: exchange.stack,
            scenario: exchange.scenario,
            family: exchange.family,
            link: exchange.link,
            operations: done.operations,
            frames_in: each(done.frames_in),
            frames_out: each(done.frames_out),
            instructions: each(counted.total),
            transmitting: each(counted.transmitting),
            goal: exchange.scenario.goal().filter(|_| ours),
        }
    }
}

impl Report {
    fn table_of_instructions(&self, out: &mut String) {
        if self.instructions.is_empty() {
            return;
        }
        out.push_str(
            "Instructions of one operation (callgrind, x86-64 with AVX2); sending: those of them that ask for frames;\n\
             in, out: frames; checksums verified by the link, or unknown to it and verified by the stack\n\n",
        );
        let heading = format!(
            "{:<17} {:<4}  {:<8}  {:<7} {:>12} {:>8} {:>6} {:>5} {:>5}",
            "exchange", "IP", "checksum", "stack", "instructions", "sending", "goal", "in", "out"
        );
        line(out, &heading);
        let mut last = None;
        for i in &self.instructions {
            let case = (i.scenario, i.family, i.link);
            let named = last.replace(case) != Some(case);
            let shown = |text: String| if named { text } else { String::new() };
            let goal = i.goal.map_or(String::new(), |goal| goal.to_string());
            let row = format!(
                "{:<17} {:<4}  {:<8}  {:<7} {:>12.0} {:>8.0} {goal:>6} {:>5.1} {:>5.1}",
                shown(i.scenario.to_string()),
                shown(i.family.to_string()),
                shown(i.link.to_string()),
                i.stack,
                i.instructions,
                i.transmitting,
                i.frames_in,
                i.frames_out,
            );
            line(out, &row);
        }
        out.push('\n');
    }

    fn table_of_capacity(&self, out: &mut String) {
        for idle in &self.idle {
            let text = format!(
                "{} idle connections: open {:.0} ns, acknowledgement {:.0} ns, request and answer {:.0} ns each",
                idle.connections, idle.open_ns, idle.ack_ns, idle.request_ns
            );
            line(out, &text);
            let pages = match idle.huge_bytes {
                0 => String::new(),
                bytes => format!("; {} MiB in huge pages", bytes >> 20),
            };
            let text = format!(
                "  look-up alone {:.0} ns, warm {:.0} ns; acknowledgement warm {:.0} ns{pages}",
                idle.lookup_ns, idle.lookup_warm_ns, idle.ack_warm_ns
            );
            line(out, &text);
        }
        if let Some(idle) = self.idle.last() {
            let text = format!(
                "memory of one: {:.0} bytes fresh, {:.0} after a request (goal {IDLE_BYTES_GOAL})",
                idle.bytes_fresh, idle.bytes_used
            );
            line(out, &text);
        }
        if let Some(waiting) = &self.time_wait {
            let text = format!(
                "{} connections in TIME-WAIT: {:.0} bytes each",
                waiting.connections, waiting.bytes
            );
            line(out, &text);
        }
        if let Some(t) = &self.timers {
            let text = format!(
                "{} timers: arm {:.0} ns, expire or forget {:.0} ns, both at once {:.0} ns; {:.1} million/s (goal {TIMERS_GOAL})",
                t.timers, t.arm_ns, t.expire_ns, t.turnover_ns, t.millions_per_sec
            );
            line(out, &text);
        }
    }
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{}", text.trim_end()).expect("memory takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let done = Replayed {
            operations: 200,
            frames_in: 200,
            frames_out: 100,
        };
        let counted = Counted {
            total: 70_200,
            transmitting: 20_000,
        };
        let of = |stack| {
            let exchange = Exchange {
                stack,
                scenario: Scenario::Receive,
                family: Family::Ipv6,
                link: Link::Verified,
                operations: 200,
            };
            Instructions::new(&exchange, &done, counted)
        };
        Report {
            skipped: vec!["SKIPPED something: why".into()],
            instructions: vec![of(StackKind::Exos), of(StackKind::Smoltcp)],
            idle: vec![Idle {
                connections: 1000,
                bytes_fresh: 480.4,
                bytes_used: 500.0,
                open_ns: 1500.0,
                lookup_ns: 25.0,
                lookup_warm_ns: 20.0,
                ack_ns: 70.0,
                ack_warm_ns: 60.0,
                huge_bytes: 4 << 20,
                request_ns: 300.0,
            }],
            time_wait: Some(TimeWait {
                connections: 500,
                bytes: 80.0,
            }),
            timers: Some(Timers {
                timers: 1000,
                arm_ns: 20.0,
                expire_ns: 30.0,
                turnover_ns: 55.0,
                millions_per_sec: 40.0,
            }),
        }
    }

    #[test]
    fn the_table_as_people_see_it() {
        let expected = "\
SKIPPED something: why
Instructions of one operation (callgrind, x86-64 with AVX2); sending: those of them that ask for frames;
in, out: frames; checksums verified by the link, or unknown to it and verified by the stack

exchange          IP    checksum  stack   instructions  sending   goal    in   out
receive           ipv6  verified  exos             351      100    350   1.0   0.5
                                  smoltcp          351      100          1.0   0.5

1000 idle connections: open 1500 ns, acknowledgement 70 ns, request and answer 300 ns each
  look-up alone 25 ns, warm 20 ns; acknowledgement warm 60 ns; 4 MiB in huge pages
memory of one: 480 bytes fresh, 500 after a request (goal 512)
500 connections in TIME-WAIT: 80 bytes each
1000 timers: arm 20 ns, expire or forget 30 ns, both at once 55 ns; 40.0 million/s (goal 10)
";
        assert_eq!(report().table(), expected);
    }

    #[test]
    fn json_names_what_the_table_shows() {
        let json: serde_json::Value = serde_json::from_str(&report().json()).expect("valid");
        assert_eq!(json["instructions"][0]["goal"], 350);
        assert!(json["instructions"][1]["goal"].is_null());
        assert_eq!(json["instructions"][1]["stack"], "smoltcp");
        assert_eq!(json["idle"][0]["connections"], 1000);
    }
}
