//! What keys mean in every view: sort, choose a row, look into it, pause, help, end.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What the keys have set.
#[derive(Debug, Default)]
pub struct Keys {
    /// Sorted the other way round.
    pub reversed: bool,
    /// The chosen row is looked into.
    pub inside: bool,
    /// The keys are explained.
    pub help: bool,
    /// Reports are not asked for.
    pub paused: bool,
}

/// What is left to the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Press {
    /// End.
    Quit,
    /// Sort by a column this many further.
    Column(isize),
    /// Sort again.
    Sort,
    /// Choose a row this many further down.
    Choose(isize),
    /// Look into the chosen row, or out again.
    Enter,
    /// Nothing more.
    Nothing,
}

/// What is to be done after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on.
    Stay,
    /// End.
    Quit,
}

impl Keys {
    /// A key was pressed.
    pub fn handle(&mut self, key: KeyEvent) -> Press {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Press::Quit,
            KeyCode::Char('q') => return Press::Quit,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc if self.inside => self.inside = false,
            KeyCode::Esc => return Press::Quit,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('r') => {
                self.reversed = !self.reversed;
                return Press::Sort;
            }
            KeyCode::Right | KeyCode::Char('s') => return Press::Column(1),
            KeyCode::Left => return Press::Column(-1),
            KeyCode::Down | KeyCode::Char('j') => return Press::Choose(1),
            KeyCode::Up | KeyCode::Char('k') => return Press::Choose(-1),
            KeyCode::Enter => return Press::Enter,
            _ => {}
        }
        Press::Nothing
    }
}

/// The one of these that is this many further, round and round.
///
/// # Panics
///
/// It is none of them.
pub fn further<T: Copy + PartialEq>(all: &[T], one: T, step: isize) -> T {
    let at = all.iter().position(|other| *other == one);
    let at = at.expect("all of them are listed") as isize + step;
    all[at.rem_euclid(all.len() as isize) as usize]
}
