//! Comparison of two lists of lines: equal but for spaces, or a difference that a person can read.

/// Lines that mean something, with single spaces between words.
pub(super) fn normalized(text: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines()
        .map(words)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// `Err` with both lists woven into one: `-` is expected and missing, `+` is there and unexpected.
pub(super) fn compare(expected: &[String], actual: &[String]) -> Result<(), String> {
    let plain = normalized(&actual.join("\n"));
    if plain == expected {
        return Ok(());
    }
    let mut text = String::from("the trace is not what was expected (- missing, + unexpected):\n");
    let (mut e, mut a) = (0, 0);
    for (same_e, same_a) in common(expected, &plain)
        .into_iter()
        .chain([(expected.len(), plain.len())])
    {
        expected[e..same_e]
            .iter()
            .for_each(|line| text += &format!("  - {line}\n"));
        plain[a..same_a]
            .iter()
            .for_each(|line| text += &format!("  + {line}\n"));
        if let Some(line) = expected.get(same_e) {
            text += &format!("    {line}\n");
        }
        (e, a) = (same_e + 1, same_a + 1);
    }
    text += "the whole trace:\n";
    actual
        .iter()
        .for_each(|line| text += &format!("    {line}\n"));
    Err(text)
}

/// Index pairs of a longest common subsequence. Traces that tests expect line by line are short,
/// hence the plain quadratic table.
fn common(left: &[String], right: &[String]) -> Vec<(usize, usize)> {
    let mut best = vec![vec![0u32; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            best[i][j] = if left[i] == right[j] {
                best[i + 1][j + 1] + 1
            } else {
                best[i + 1][j].max(best[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < left.len() && j < right.len() {
        if left[i] == right[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if best[i + 1][j] >= best[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}
