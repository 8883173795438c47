//! What is seen while a load runs: once a second, of the second that is over. A block that is drawn over itself on a terminal,
//! lines elsewhere.
//!
//! Anyone who runs the load only makes the text; a thread of its own writes it, so that a terminal that stands still does not
//! hold the load up.

use std::fmt::Write as _;
use std::time::Duration;

use exos::Error;
use exos_inet::Instant;
use exos_program::{Printer, Stream};

use super::numbers::micros;
use crate::statistics::Second;

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Not at all.
    Nothing,
    /// A line each second.
    Lines,
    /// A block, drawn again and again at the same place.
    Block,
}

/// Lines are not wrapped, so that the block is as high as it has lines on a narrow terminal too.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
/// Clears from here to the end of the screen.
const CLEAR: &str = "\x1b[J";
const BLOCK_LINES: usize = 3;
const BAR_WIDTH: usize = 40;

/// What the loop knows at the end of a second.
#[derive(Clone, Debug)]
pub struct Moment<'a> {
    /// Of the load, since its begin.
    pub seconds: &'a [Second],
    /// Connections that slots have.
    pub connections: usize,
    /// Time in turns that moved something, since the begin.
    pub busy: Duration,
}

/// A display of a load under way.
pub struct Live {
    style: Style,
    printer: Option<Printer>,
    duration: Duration,
    /// Seconds that were shown.
    shown: usize,
    /// When the next second is over.
    next: Instant,
    /// What is not yet known is not asked for before.
    not_before: Instant,
    busy: Duration,
    errors: u64,
}

impl Live {
    /// Of a load that begins then and lasts so long.
    ///
    /// # Errors
    ///
    /// There can be no thread to write it.
    pub fn start(style: Style, start: Instant, duration: Duration) -> Result<Self, Error> {
        let printer = (style != Style::Nothing).then(|| Printer::start(Stream::Error));
        Ok(Self {
            style,
            printer: printer.transpose()?,
            duration,
            shown: 0,
            next: start + Duration::from_secs(1),
            not_before: start,
            busy: Duration::ZERO,
            errors: 0,
        })
    }

    /// Somebody wants to know how it goes, by SIGUSR1: a line each second from now on, where nothing was shown.
    pub fn ask(&mut self) {
        if self.style == Style::Nothing
            && let Ok(printer) = Printer::start(Stream::Error)
        {
            (self.style, self.printer) = (Style::Lines, Some(printer));
        }
    }

    /// When there is something to show; never where nothing is shown.
    pub fn due(&self) -> Option<Instant> {
        self.printer
            .as_ref()
            .map(|_| self.next.max(self.not_before))
    }

    /// Nothing new is known yet: it is not due before this.
    pub fn put_off(&mut self, until: Instant) {
        self.not_before = until;
    }

    /// Shows the last second that is over.
    pub fn show(&mut self, moment: &Moment<'_>) {
        let text = self.text(moment);
        if let (Some(text), Some(printer)) = (text, &self.printer) {
            printer.print(text);
        }
    }

    fn text(&mut self, moment: &Moment<'_>) -> Option<String> {
        let new = moment
            .seconds
            .get(self.shown..)
            .filter(|new| !new.is_empty())?;
        self.errors += new.iter().map(|second| second.errors).sum::<u64>();
        let passed = Duration::from_secs(new.len() as u64);
        let busy = (moment.busy - self.busy).as_secs_f64() / passed.as_secs_f64();
        self.next += passed;
        self.shown = moment.seconds.len();
        self.busy = moment.busy;
        let second = new.last()?;
        Some(match self.style {
            Style::Block => self.block(second, moment.connections, busy),
            Style::Lines | Style::Nothing => self.line(second, moment.connections, busy),
        })
    }

    fn line(&self, second: &Second, connections: usize, busy: f64) -> String {
        let [p50, p99, max] = times(second);
        format!(
            "{:>4} s {:>9}/s  p50 {p50:>8}  p99 {p99:>8}  max {max:>8}  {} errors  {connections} connections  busy {:.0} %\n",
            self.shown,
            second.responses,
            self.errors,
            100.0 * busy.min(1.0),
        )
    }

    fn block(&self, second: &Second, connections: usize, busy: f64) -> String {
        let share = (self.shown as f64 / self.duration.as_secs_f64()).min(1.0);
        let done = (share * BAR_WIDTH as f64) as usize;
        let [p50, p99, max] = times(second);
        let mut text = format!("\r{CLEAR}{NO_WRAP}");
        let _ = writeln!(
            text,
            " {} s of {:.0} s  {}{}",
            self.shown,
            self.duration.as_secs_f64(),
            "━".repeat(done),
            "─".repeat(BAR_WIDTH - done)
        );
        let _ = writeln!(
            text,
            " {} requests/s   p50 {p50}   p99 {p99}   max {max}",
            second.responses
        );
        let _ = writeln!(
            text,
            " {} errors   {connections} connections   we are busy for {:.0} % of the time",
            self.errors,
            100.0 * busy.min(1.0)
        );
        let _ = write!(text, "{WRAP}\x1b[{BLOCK_LINES}A");
        text
    }

    /// Ends it; a block is cleared away for what comes after it.
    pub fn finish(self) {
        if let Some(printer) = self.printer {
            if self.style == Style::Block {
                printer.print(format!("\r{CLEAR}"));
            }
            printer.finish();
        }
    }
}

fn times(second: &Second) -> [String; 3] {
    [second.median, second.p99, second.max].map(|us| {
        let is_empty = second.responses == 0;
        if is_empty { "-".to_owned() } else { micros(us) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(responses: u64) -> Second {
        Second {
            responses,
            errors: 2,
            median: 55,
            p99: 1200,
            max: 30_000,
            ..Second::default()
        }
    }

    fn live(style: Style) -> Live {
        let (start, duration) = (Instant::from_millis(500), Duration::from_secs(4));
        Live {
            style,
            ..Live::start(Style::Nothing, start, duration).unwrap()
        }
    }

    fn text(live: &mut Live, seconds: &[Second], busy_millis: u64) -> Option<String> {
        live.text(&Moment {
            seconds,
            connections: 64,
            busy: Duration::from_millis(busy_millis),
        })
    }

    #[test]
    fn who_asks_gets_lines_from_then_on() {
        let mut live = live(Style::Nothing);
        assert_eq!(live.due(), None);
        live.ask();
        assert_eq!(live.due(), Some(Instant::from_millis(1500)));
        live.put_off(Instant::from_millis(1505));
        assert_eq!(live.due(), Some(Instant::from_millis(1505)));
        let line = text(&mut live, &[second(7), second(9)], 100).expect("two seconds are over");
        assert!(line.starts_with("   2 s         9/s"), "{line}");
        assert_eq!(live.due(), Some(Instant::from_millis(3500)));
        live.finish();
    }

    #[test]
    fn a_line_for_each_second() {
        let mut live = live(Style::Lines);
        let seconds = [second(1000), second(0), second(7), second(9)];
        let line = text(&mut live, &seconds[..1], 250).unwrap();
        assert_eq!(
            line,
            "   1 s      1000/s  p50    55 us  p99  1.20 ms  max 30.00 ms  2 errors  64 connections  busy 25 %\n"
        );
        let line = text(&mut live, &seconds[..2], 250).unwrap();
        assert!(
            line.contains("p50        -") && line.contains("4 errors"),
            "{line}"
        );
        assert!(line.ends_with("busy 0 %\n"), "{line}");
        assert_eq!(text(&mut live, &seconds[..2], 260), None);
        // Who was late shows the last second, and what happened in all of them.
        let line = text(&mut live, &seconds, 1250).unwrap();
        assert!(
            line.starts_with("   4 s         9/s") && line.contains("8 errors"),
            "{line}"
        );
        assert!(line.ends_with("busy 50 %\n"), "{line}");
        assert_eq!(live.next, Instant::from_millis(5500));
    }

    /// The block leaves the cursor where it began, and its bar is full at the end.
    #[test]
    fn a_block_over_itself() {
        let mut live = live(Style::Block);
        let seconds = vec![second(1000); 9];
        let block = text(&mut live, &seconds[..1], 900).unwrap();
        assert_eq!(block.matches('\n').count(), BLOCK_LINES);
        assert!(block.ends_with(&format!("\x1b[{BLOCK_LINES}A")));
        assert_eq!(block.matches('━').count(), BAR_WIDTH / 4);
        assert!(
            block.contains("1 s of 4 s") && block.contains("busy for 90 %"),
            "{block}"
        );
        let block = text(&mut live, &seconds, 900).unwrap();
        assert_eq!(
            (block.matches('━').count(), block.matches('─').count()),
            (BAR_WIDTH, 0)
        );
    }

    #[test]
    fn nothing_is_due_where_nothing_is_shown() {
        let quiet = live(Style::Nothing);
        assert_eq!(quiet.due(), None);
        let start = Instant::from_millis(500);
        let shown = Live::start(Style::Lines, start, Duration::from_secs(1)).unwrap();
        assert_eq!(shown.due(), Some(Instant::from_millis(1500)));
    }
}
