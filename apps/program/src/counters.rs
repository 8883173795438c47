//! Counters by name, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// A line for each counter that is not zero, names and numbers aligned.
pub fn lines(counters: &[(String, u64)]) -> String {
    let width = counters.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for (name, count) in counters.iter().filter(|(_, count)| *count > 0) {
        let _ = writeln!(text, "  {name:width$}  {count}");
    }
    text
}

/// All of them, as a JSON object.
pub fn object(counters: Vec<(String, u64)>) -> Map<String, Value> {
    let values = counters
        .into_iter()
        .map(|(name, count)| (name, count.into()));
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_what_happened_and_programs_everything() {
        let counters = [("a", 0), ("bb", 7), ("ccc", 10)].map(|(n, c)| (n.to_owned(), c));
        assert_eq!(lines(&counters), "  bb   7\n  ccc  10\n");
        let object = object(counters.to_vec());
        assert_eq!((object.len(), object["a"].as_u64()), (3, Some(0)));
    }
}
