//! Text that others have chosen.

/// The text without what a terminal would obey.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing() {
        assert_eq!(plain("a\x1b[2J\u{9b}b\n"), "a?[2J?b?");
        assert_eq!(plain("größer"), "größer");
    }
}
