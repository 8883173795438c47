//! What is seen: the flows, the listeners, the servers, and below them what was not sent on and why; or all about one server.
//!
//! Why a check failed is in a server's words, and shown without control characters.

use exos_program::text::plain;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Paragraph, Row as TableRow, Table, TableState};

use super::app::{App, Column};
use super::rates::{Rates, Row};
use super::status::{Server, Status};
use crate::reason::reason_lines;
use crate::screen::{BOLD, CHOSEN, column_title, draw_foot, draw_help, draw_title};
use crate::units::{duration, known, rate, short};

/// Draws everything.
pub fn draw(app: &App, frame: &mut Frame<'_>) {
    let area = frame.area();
    let listeners = (app.listeners.len() as u16 + 2).min(area.height / 3);
    let reasons = (app.reasons.len().max(1) as u16 + 2).min(area.height / 3);
    let heights = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(listeners),
        Constraint::Min(3),
        Constraint::Length(reasons),
        Constraint::Length(1),
    ];
    let [title, flows, above, body, below, foot] = Layout::vertical(heights).areas(area);
    let what = app
        .status
        .as_ref()
        .map_or("forwarder".to_owned(), forwarder);
    draw_title(&what, &app.servers.keys, app.trouble.as_ref(), frame, title);
    if let Some(status) = &app.status {
        frame.render_widget(Line::from(flows_line(status)), flows);
    }
    draw_listeners(app, frame, above);
    match (app.servers.keys.help, app.servers.inside()) {
        (true, _) => draw_help("server", frame, body),
        (_, Some(row)) => draw_server(row, frame, body),
        _ => draw_servers(app, frame, body),
    }
    let block = Block::bordered().title("not sent on");
    frame.render_widget(
        Paragraph::new(reason_lines(&app.reasons, 28)).block(block),
        below,
    );
    draw_foot(frame, foot);
}

/// What is watched.
fn forwarder(status: &Status) -> String {
    let up = status.uptime_ms.map(|ms| format!(", up {}", duration(ms)));
    format!("forwarder {}{}", known(status.pid), up.unwrap_or_default())
}

/// How many flows there are, and how they stand.
fn flows_line(status: &Status) -> String {
    let flows = |name: &str| status.flows.get(name).copied();
    let classes = [
        "opening",
        "one_way",
        "answered",
        "claimed",
        "established",
        "talking",
        "closing",
    ];
    let sum: u64 = classes.iter().filter_map(|class| flows(class)).sum();
    let of = flows("capacity").map(|all| format!(" of {}", short(all as f64)));
    let mut text = format!("flows {}{}:", short(sum as f64), of.unwrap_or_default());
    for class in classes.iter().chain(&["in_kernel"]) {
        if let Some(count) = flows(class) {
            text += &format!("  {} {}", class.replace('_', " "), short(count as f64));
        }
    }
    text
}

/// Titles of what is of listeners and servers, with the width of each.
const FIGURES: [(&str, u16, Option<Column>); 7] = [
    ("FLOWS", 7, Some(Column::Flows)),
    ("NEW/s", 7, Some(Column::Begun)),
    ("REFUSED", 8, None),
    ("IN pkt", 7, None),
    ("IN bit", 7, Some(Column::In)),
    ("OUT pkt", 7, None),
    ("OUT bit", 8, Some(Column::Out)),
];

fn figures(row: &Row) -> [String; 7] {
    let of = |of: fn(&Rates) -> f64| rate(row.rates.as_ref().map(of));
    [
        short(row.figures.flows as f64),
        of(|r| r.begun),
        short(row.figures.flows_refused as f64),
        of(|r| r.packets_in),
        of(|r| r.bits_in),
        of(|r| r.packets_out),
        of(|r| r.bits_out),
    ]
}

/// A table of listeners or of servers.
fn table<'a>(title: &'static str, rows: &[Row], app: &App, sorts: bool) -> Table<'a> {
    let is_sorted = |column: Option<Column>| sorts && column == Some(app.servers.column);
    let first = [(title, 28, Some(Column::Server)), ("STANDS", 18, None)];
    let columns = || first.iter().chain(&FIGURES);
    let titles =
        columns().map(|(title, _, by)| column_title(title, is_sorted(*by), &app.servers.keys));
    let rows = rows.iter().map(|row| {
        let names = [plain(&row.name), row.standing.clone()];
        TableRow::new(names.into_iter().chain(figures(row)))
    });
    let header = TableRow::new(titles.collect::<Vec<_>>()).style(BOLD);
    let widths: Vec<_> = columns()
        .map(|(_, width, _)| Constraint::Length(*width))
        .collect();
    Table::new(rows.collect::<Vec<_>>(), widths)
        .header(header)
        .row_highlight_style(CHOSEN)
}

fn draw_listeners(app: &App, frame: &mut Frame<'_>, area: Rect) {
    frame.render_widget(table("LISTENER", &app.listeners, app, false), area);
}

fn draw_servers(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let mut state = TableState::new().with_selected(app.servers.chosen_at());
    let table = table("SERVER", &app.servers.rows, app, true);
    frame.render_stateful_widget(table, area, &mut state);
}

/// All about one server.
fn draw_server(row: &Row, frame: &mut Frame<'_>, area: Rect) {
    let title = format!("{}: {}", plain(&row.name), row.standing);
    let block = Block::bordered().title(title);
    let text = row.server.as_ref().map_or_else(Text::default, facts);
    frame.render_widget(Paragraph::new(text).block(block), area);
}

fn facts(server: &Server) -> Text<'static> {
    let figures = &server.figures;
    let bytes = |bytes: u64| short(bytes as f64);
    let mut lines = vec![
        format!(
            "flows   {} ({} not over), {} begun, {} refused, {} unanswered",
            figures.flows,
            server.flows_open,
            figures.flows_begun,
            figures.flows_refused,
            server.flows_unanswered,
        ),
        format!(
            "in      {} packets, {} bytes",
            figures.packets_to_servers,
            bytes(figures.bytes_to_servers)
        ),
        format!(
            "out     {} packets, {} bytes",
            figures.packets_to_clients,
            bytes(figures.bytes_to_clients)
        ),
        format!(
            "checks  {} passed, {} failed",
            server.checks_passed, server.checks_failed
        ),
        format!(
            "rests   {}; {} flows did not begin well",
            server.rests, server.flows_failed
        ),
    ];
    if let Some(why) = &server.last_failure {
        lines.push(format!("failed  {}", plain(why)));
    }
    Text::from_iter(lines)
}
