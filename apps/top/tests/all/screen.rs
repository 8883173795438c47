//! A terminal in memory.

use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{Frame, Terminal};

/// What a view shows on a terminal of this size, its lines without spaces at their ends.
pub fn seen((width, height): (u16, u16), draw: impl FnOnce(&mut Frame<'_>)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(draw).expect("drawn");
    let buffer = terminal.backend().buffer();
    let row = |y| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    let rows = (0..height).map(|y| row(y).trim_end().to_owned() + "\n");
    rows.collect()
}

/// Draws on terminals on which not everything, or nothing, has room.
pub fn draw_on_all_sizes(draw: impl Fn(&mut Frame<'_>)) {
    for size in [(0, 0), (1, 1), (10, 3), (40, 5), (300, 100)] {
        seen(size, &draw);
    }
}

pub fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}
