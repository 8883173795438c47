//! What every view has on the screen: its styles, its title, and the keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph};

use crate::keys::Keys;
use exos_program::text::plain;

pub(crate) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(crate) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(crate) const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// The first line: what is watched, and why it may not be up to date.
pub(crate) fn draw_title(
    what: &str,
    keys: &Keys,
    trouble: Option<&String>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let mut text = format!("exos top  {what}");
    if keys.paused {
        text += "  (paused)";
    }
    if let Some(trouble) = trouble {
        text += &format!("  {}", plain(trouble));
    }
    frame.render_widget(Line::styled(text, BOLD), area);
}

/// The last line.
pub(crate) fn draw_foot(frame: &mut Frame<'_>, area: Rect) {
    let keys = "q quit  ? keys  enter look into  left/right sort  r reverse  p pause";
    frame.render_widget(Line::styled(keys, DIM), area);
}

/// What the keys do; rows are such things.
pub(crate) fn draw_help(row: &str, frame: &mut Frame<'_>, area: Rect) {
    let text = format!(
        "\
up, down   choose a {row}
enter      look into it, and out again
left, right  sort by another column
r          sort the other way round
p          stop asking for reports, and go on
?          these lines
q          quit"
    );
    frame.render_widget(
        Paragraph::new(text).block(Block::bordered().title("keys")),
        area,
    );
}

/// The title of a column, with a mark where it is what rows are sorted by.
pub(crate) fn column_title(title: &str, is_sorted: bool, keys: &Keys) -> Cell<'static> {
    let mark = match (is_sorted, keys.reversed) {
        (false, _) => "",
        (true, false) => "v",
        (true, true) => "^",
    };
    Cell::from(format!("{title}{mark}"))
}
