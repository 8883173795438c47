//! `exos top --json`: the daemon's report with rates beside it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::rates::Row;

/// What `exos top --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    /// `"exos.top/1"`.
    schema: &'static str,
    /// [The daemon's report](#the-daemons-report), as the daemon wrote it.
    report: Value,
    /// Each program on each interface.
    rates: Vec<Rates>,
}

/// A program on an interface, since the report before, which was asked for `--interval` earlier. Rates are `null` when there
/// is nothing to compare with.
#[derive(Serialize, JsonSchema)]
struct Rates {
    /// Which interface.
    interface: String,
    /// Which slot; 0 with the program `(host)` is what belongs to no program.
    slot: u16,
    /// The program's name.
    program: String,
    /// Packets received.
    rx_packets_per_sec: Option<f64>,
    /// Bits received.
    rx_bits_per_sec: Option<f64>,
    /// Packets sent.
    tx_packets_per_sec: Option<f64>,
    /// Bits sent.
    tx_bits_per_sec: Option<f64>,
    /// Packets dropped, for whatever reason.
    drops_per_sec: Option<f64>,
    /// Packets dropped in all.
    drops: u64,
}

impl Report {
    /// The object for two reports; `report` is the later one.
    pub(crate) fn new(report: Value, rows: &[Row]) -> Self {
        Self {
            schema: "exos.top/1",
            report,
            rates: rows.iter().map(Rates::of).collect(),
        }
    }
}

impl Rates {
    fn of(row: &Row) -> Self {
        let rates = row.rates.as_ref();
        Self {
            interface: row.interface.clone(),
            slot: row.slot.slot,
            program: row.slot.program.clone(),
            rx_packets_per_sec: rates.map(|r| r.rx_packets),
            rx_bits_per_sec: rates.map(|r| r.rx_bits),
            tx_packets_per_sec: rates.map(|r| r.tx_packets),
            tx_bits_per_sec: rates.map(|r| r.tx_bits),
            drops_per_sec: rates.map(|r| r.drops),
            drops: row.drops,
        }
    }
}
