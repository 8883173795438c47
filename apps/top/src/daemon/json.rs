//! `exos top --json`: the daemon's report with rates beside it.

use serde_json::{Value, json};

use super::rates::Row;

/// The object for two reports, `seconds` apart; `report` is the later one, as the daemon wrote it.
pub(crate) fn object(report: &Value, rows: &[Row]) -> Value {
    let rates: Vec<Value> = rows.iter().map(rates).collect();
    json!({ "schema": "exos.top/1", "report": report, "rates": rates })
}

fn rates(row: &Row) -> Value {
    let rates = row.rates.as_ref();
    json!({
        "interface": row.interface,
        "slot": row.slot.slot,
        "program": row.slot.program,
        "rx_packets_per_sec": rates.map(|r| r.rx_packets),
        "rx_bits_per_sec": rates.map(|r| r.rx_bits),
        "tx_packets_per_sec": rates.map(|r| r.tx_packets),
        "tx_bits_per_sec": rates.map(|r| r.tx_bits),
        "drops_per_sec": rates.map(|r| r.drops),
        "drops": row.drops,
        "fullest_ring": row.fullest_ring,
    })
}
