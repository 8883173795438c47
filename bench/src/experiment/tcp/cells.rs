//! The cells of the matrix: what each is called and what its wire does.

use super::options::TcpArgs;
use exos_lab::Conditions;
use exos_lab::emulator::BurstLoss;
use std::time::Duration;

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    /// The stack that is measured; Linux receives.
    Send,
    /// Linux; the stack that is measured receives.
    Receive,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Direction::Send => "send",
            Direction::Receive => "receive",
        }
    }
}

/// One cell of goodput.
#[derive(Clone, Debug)]
pub(super) struct BulkCell {
    pub name: String,
    pub direction: Direction,
    pub conditions: Conditions,
}

/// Round trips without queues, in milliseconds.
const ROUND_TRIPS_MS: [u64; 3] = [1, 20, 100];

/// Losses, in percent.
const LOSSES: [f64; 4] = [0.0, 0.1, 1.0, 3.0];

/// Frames that are lost together where losses come in bursts, on average: a queue that overflows loses some.
const BURST_FRAMES: f64 = 4.0;

/// Share of frames that others pass, where there is reordering.
const REORDERED: f64 = 0.01;

/// All cells, in the order in which they are measured.
pub(super) fn all(args: &TcpArgs) -> Vec<BulkCell> {
    let mut cells = Vec::new();
    for round_trip in ROUND_TRIPS_MS {
        for percent in LOSSES {
            for bursts in [false, true] {
                if bursts && percent == 0.0 {
                    continue;
                }
                for reorder in [false, true] {
                    for direction in [Direction::Send, Direction::Receive] {
                        cells.push(cell(args, direction, round_trip, percent, bursts, reorder));
                    }
                }
            }
        }
    }
    cells
}

/// A few of them: with and without losses and reordering, both ways.
pub(super) fn is_quick(cell: &BulkCell) -> bool {
    ["20ms/0%", "20ms/1%", "20ms/1%/reorder"]
        .iter()
        .any(|end| cell.name.ends_with(end))
}

fn cell(
    args: &TcpArgs,
    direction: Direction,
    round_trip: u64,
    percent: f64,
    bursts: bool,
    reorder: bool,
) -> BulkCell {
    let burst = if bursts { "-burst" } else { "" };
    let order = if reorder { "/reorder" } else { "" };
    let name = direction.name();
    let share = percent / 100.0;
    BulkCell {
        name: format!("bulk/{name}/{round_trip}ms/{percent}%{burst}{order}"),
        direction,
        conditions: Conditions {
            delay: Duration::from_micros(round_trip * 500),
            loss: if bursts { 0.0 } else { share },
            burst_loss: bursts.then_some(BurstLoss {
                loss: share,
                burst_frames: BURST_FRAMES,
                loss_in_burst: 1.0,
            }),
            reorder: if reorder { REORDERED } else { 0.0 },
            rate_bits_per_sec: (args.rate > 0).then_some(args.rate * 1_000_000),
            ..Conditions::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use std::collections::BTreeSet;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        tcp: TcpArgs,
    }

    #[test]
    fn the_matrix_is_whole_and_every_cell_possible() {
        let args = Cli::try_parse_from(["bench"]).expect("defaults").tcp;
        let cells = all(&args);
        let names: BTreeSet<&str> = cells.iter().map(|c| c.name.as_str()).collect();
        assert_eq!((cells.len(), names.len()), (84, 84));
        assert!(
            names.contains("bulk/send/1ms/0%")
                && names.contains("bulk/receive/100ms/3%-burst/reorder")
        );
        for cell in &cells {
            cell.conditions.check().expect(&cell.name);
        }
        assert_eq!(cells.iter().filter(|c| is_quick(c)).count(), 6);
    }
}
