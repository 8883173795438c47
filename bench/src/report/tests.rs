//! What tests of all experiments ask of a report.

/// A table has these rows, in this order; other rows may be among them, and how wide columns are does not matter.
pub(crate) fn assert_has_rows(table: &str, rows: &[&str]) {
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut lines = table.lines().map(words);
    for row in rows {
        let row_words = words(row);
        assert!(
            lines.any(|line| line == row_words),
            "{row}\nis not in\n{table}"
        );
    }
}

/// A page has this many figures, and needs nothing from elsewhere.
pub(crate) fn assert_page(html: &str, figures: usize) {
    assert_eq!(html.matches("<svg").count(), figures);
    for elsewhere in ["http://", "https://", "<script", "src=", "@import", "url("] {
        assert!(!html.contains(elsewhere), "{elsewhere}");
    }
}
