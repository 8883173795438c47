//! What the loop asks of whatever is watched.

use ratatui::Frame;
use ratatui::crossterm::event::KeyEvent;

use crate::keys::Next;

/// Something that is watched.
pub(crate) trait Watch {
    /// Asks for a report and takes it in.
    fn refresh(&mut self);
    /// Whether reports are not asked for.
    fn is_paused(&self) -> bool;
    /// A key was pressed.
    fn handle_key(&mut self, key: KeyEvent) -> Next;
    /// Draws all of it.
    fn draw(&self, frame: &mut Frame<'_>);
}
