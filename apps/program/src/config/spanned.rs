//! Values of a file with their places in it.

use toml::Spanned;

/// A text with its place.
pub type Text = Spanned<String>;
/// A number with its place.
pub type Number = Spanned<i64>;
