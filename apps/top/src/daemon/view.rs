//! What is seen: the daemon, its interfaces, the programs, and below them what is dropped and why; or,
//! inside one program, its grants, rings and counters.
//!
//! Programs choose their names, so that these are shown without control characters.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Paragraph, Row as TableRow, Table, TableState, Wrap};

use exos_program::status::{GrantStatus, InterfaceStatus, Status};
use exos_program::text::plain;

use super::app::{App, Column};
use super::rates::{Rates, Row};
use crate::reason::reason_lines;
use crate::screen::{BOLD, CHOSEN, column_title, draw_foot, draw_help, draw_title};
use crate::units::{bits, duration, known, memory, rate};

/// Draws everything.
pub fn draw(app: &App, frame: &mut Frame<'_>) {
    let interfaces = app
        .status
        .as_ref()
        .map_or(0, |status| status.interfaces.len());
    let heights = [
        Constraint::Length(1),
        Constraint::Length(interfaces as u16),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ];
    let [title, links, _, body, foot] = Layout::vertical(heights).areas(frame.area());
    let what = daemon(app);
    draw_title(
        &what,
        &app.programs.keys,
        app.trouble.as_ref(),
        frame,
        title,
    );
    if let Some(status) = &app.status {
        draw_interfaces(app, status, frame, links);
    }
    match (app.programs.keys.help, app.programs.inside()) {
        (true, _) => draw_help("program", frame, body),
        (_, Some(row)) => draw_program(row, frame, body),
        _ => draw_programs(app, frame, body),
    }
    draw_foot(frame, foot);
}

/// What is watched.
fn daemon(app: &App) -> String {
    let Some(status) = &app.status else {
        return "daemon".to_owned();
    };
    let up = status.uptime_ms.map(|ms| format!(", up {}", duration(ms)));
    format!("daemon {}{}", known(status.pid), up.unwrap_or_default())
}

fn draw_interfaces(app: &App, status: &Status, frame: &mut Frame<'_>, area: Rect) {
    let lines = status
        .interfaces
        .iter()
        .map(|interface| interface_line(app, interface));
    frame.render_widget(Text::from_iter(lines), area);
}

/// One interface with the sum of its programs.
fn interface_line<'a>(app: &App, interface: &InterfaceStatus) -> Line<'a> {
    let rows = app
        .programs
        .rows
        .iter()
        .filter(|row| row.interface == interface.name);
    let sum = |of: fn(&Rates) -> f64| {
        rows.clone()
            .map(|row| row.rates.as_ref().map(of))
            .sum::<Option<f64>>()
    };
    let limit = interface.rate_bits_per_sec.map(|limit| limit as f64);
    let limit = limit.map_or_else(|| "no limit".to_owned(), |limit| bits(Some(limit)));
    Line::from(format!(
        "{:<10} {limit}  rx {} pkt/s {}  tx {} pkt/s {}  drops {}/s  {}",
        plain(&interface.name),
        rate(sum(|r| r.rx_packets)),
        bits(sum(|r| r.rx_bits)),
        rate(sum(|r| r.tx_packets)),
        bits(sum(|r| r.tx_bits)),
        rate(sum(|r| r.drops)),
        interface.addresses.join(" "),
    ))
}

/// Titles, the width of each, and by what it sorts.
const COLUMNS: [(&str, u16, Option<Column>); 11] = [
    ("IFACE", 10, None),
    ("SLOT", 4, Some(Column::Slot)),
    ("PROGRAM", 16, Some(Column::Program)),
    ("PID", 8, None),
    ("UID", 6, None),
    ("MODE", 6, None),
    ("RX pkt", 7, None),
    ("RX bit", 7, Some(Column::Rx)),
    ("TX pkt", 7, None),
    ("TX bit", 7, Some(Column::Tx)),
    ("DROPS", 7, Some(Column::Drops)),
];

fn draw_programs(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let reasons = app
        .programs
        .chosen_row()
        .map_or(0, |row| row.reasons.len().max(1)) as u16;
    let heights = [
        Constraint::Min(2),
        Constraint::Length(reasons.saturating_add(2).min(area.height / 2)),
    ];
    let [programs, below] = Layout::vertical(heights).areas(area);
    let titles = COLUMNS.map(|(title, _, sorts)| {
        column_title(
            title,
            sorts == Some(app.programs.column),
            &app.programs.keys,
        )
    });
    let rows = app
        .programs
        .rows
        .iter()
        .map(|row| TableRow::new(cells(row)));
    let table = Table::new(rows, COLUMNS.map(|(_, width, _)| Constraint::Length(width)))
        .header(TableRow::new(titles).style(BOLD))
        .row_highlight_style(CHOSEN);
    let mut state = TableState::new().with_selected(app.programs.chosen_at());
    frame.render_stateful_widget(table, programs, &mut state);
    if let Some(row) = app.programs.chosen_row() {
        let title = format!("dropped of {}", plain(&row.slot.program));
        let block = Block::bordered().title(title);
        frame.render_widget(
            Paragraph::new(reason_lines(&row.reasons, 20)).block(block),
            below,
        );
    }
}

fn cells(row: &Row) -> [String; 11] {
    let of = |of: fn(&Rates) -> f64| rate(row.rates.as_ref().map(of));
    let slot = &row.slot;
    [
        plain(&row.interface),
        slot.slot.to_string(),
        plain(&slot.program),
        known(slot.pid),
        known(slot.uid),
        known(slot.mode.as_deref()),
        of(|r| r.rx_packets),
        of(|r| r.rx_bits),
        of(|r| r.tx_packets),
        of(|r| r.tx_bits),
        of(|r| r.drops),
    ]
}

/// All about one program.
fn draw_program(row: &Row, frame: &mut Frame<'_>, area: Rect) {
    let slot = &row.slot;
    let title = format!(
        "{} on {}, slot {}",
        plain(&slot.program),
        plain(&row.interface),
        slot.slot
    );
    let block = Block::bordered().title(title);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [head, body] = Layout::vertical([Constraint::Length(2), Constraint::Min(1)]).areas(inside);
    frame.render_widget(Paragraph::new(facts(row)), head);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(body);
    let mut grants = vec![Line::styled(format!("grants: {}", slot.grants.len()), BOLD)];
    grants.extend(slot.grants.iter().map(grant_line));
    let handled = slot
        .handled_ports
        .iter()
        .map(|port| format!("a handler gets what comes to {} first", plain(port)));
    grants.extend(handled.map(Line::from));
    frame.render_widget(Paragraph::new(grants).wrap(Wrap { trim: false }), left);
    let mut counters = vec![Line::styled("counters", BOLD)];
    counters.extend(
        slot.counters
            .iter()
            .map(|(name, total)| Line::from(format!("{:<20} {total:>12}", plain(name)))),
    );
    frame.render_widget(Paragraph::new(counters), right);
}

fn grant_line(grant: &GrantStatus) -> Line<'static> {
    let kept = grant.successor_ms.map_or_else(String::new, |ms| {
        format!(" (then {} s for a successor)", ms as f64 / 1000.0)
    });
    let others = match (grant.shared, grant.holders) {
        (Some(true), Some(holders)) => format!(" (shared by {holders})"),
        _ => String::new(),
    };
    let leaves = if grant.retired == Some(true) {
        ", no new flows"
    } else {
        ""
    };
    let claim = plain(&grant.claim);
    Line::from(format!("{:>5}  {claim}{others}{leaves}{kept}", grant.id))
}

fn facts(row: &Row) -> Text<'static> {
    let slot = &row.slot;
    let of = |of: fn(&Rates) -> f64| rate(row.rates.as_ref().map(of));
    Text::from(vec![
        Line::from(format!(
            "pid {}  uid {}  mode {}  weight {}  memory {}",
            known(slot.pid),
            known(slot.uid),
            known(slot.mode.as_deref()),
            known(slot.weight),
            memory(slot.memory_bytes),
        )),
        Line::from(format!(
            "rx {} pkt/s {}  tx {} pkt/s {}  drops {}/s",
            of(|r| r.rx_packets),
            bits(row.rates.as_ref().map(|r| r.rx_bits)),
            of(|r| r.tx_packets),
            bits(row.rates.as_ref().map(|r| r.tx_bits)),
            of(|r| r.drops),
        )),
    ])
}
