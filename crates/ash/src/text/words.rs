//! The words of the language.

use crate::code::{BE16, BE32, BE64, Comparison, Format, LE16, LE32, LE64, Operator, U8};

/// Words that name nothing of a handler's own.
const RESERVED: [&str; 34] = [
    "handler",
    "layer",
    "commit",
    "words",
    "rows",
    "table",
    "find",
    "of",
    "need",
    "take",
    "through",
    "checksum",
    "if",
    "else",
    "for",
    "in",
    "break",
    "give",
    "up",
    "to",
    "done",
    "reply",
    "row",
    "length",
    "add",
    "and",
    "or",
    "xor",
    "swap",
    "compare_swap",
    "u8",
    "be16",
    "be32",
    "be64",
];

/// Forms of a number in a message, by name.
pub(super) const FORMATS: [(&str, Format); 7] = [
    ("u8", U8),
    ("be16", BE16),
    ("be32", BE32),
    ("be64", BE64),
    ("le16", LE16),
    ("le32", LE32),
    ("le64", LE64),
];

/// Operators, those that bind less first. Those of one group bind alike.
pub(super) const OPERATORS: [&[(&str, Operator)]; 6] = [
    &[("|", Operator::Or)],
    &[("^", Operator::Xor)],
    &[("&", Operator::And)],
    &[("<<", Operator::ShiftLeft), (">>", Operator::ShiftRight)],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[
        ("*", Operator::Multiply),
        ("/", Operator::Divide),
        ("%", Operator::Remainder),
    ],
];

/// Comparisons.
pub(super) const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// The form of this name.
pub(super) fn format_named(name: &str) -> Option<Format> {
    named(&FORMATS, name)
}

/// The name of a form.
pub(super) fn format_name(of: Format) -> &'static str {
    // A single byte has no order.
    let of = match of.bytes {
        1 => U8,
        _ => of,
    };
    name_of(&FORMATS, of)
}

/// The sign of an operator.
pub(super) fn sign(of: Operator) -> &'static str {
    let all = OPERATORS.iter().find_map(|group| {
        let mut group = group.iter();
        group.find(|(_, operator)| *operator == of)
    });
    all.map_or("", |(sign, _)| sign)
}

/// The value of this name in a table.
pub(super) fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    let mut table = table.iter();
    table
        .find(|(known, _)| *known == name)
        .map(|(_, value)| *value)
}

/// The name of a value in a table, or nothing.
pub(super) fn name_of<T: PartialEq>(table: &[(&'static str, T)], of: T) -> &'static str {
    let mut table = table.iter();
    table
        .find(|(_, value)| *value == of)
        .map_or("", |(name, _)| name)
}

/// Whether something can be called so.
pub(crate) fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !RESERVED.contains(&name)
        && format_named(name).is_none()
}
