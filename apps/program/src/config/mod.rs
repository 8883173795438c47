//! Configuration files of programs: TOML, read past every error, so that all that is wrong is told at once.
//!
//! A program has a struct of tables, which serde fills ([`tables::read`]), and checks that turn these into what they mean; both take
//! notes of errors with their lines ([`Source`]). [`link`] is what they have in common.

pub mod link;
mod source;
mod spanned;
pub mod tables;

use std::path::Path;

use crate::UserArgs;

pub use source::{ConfigError, ConfigErrors, Source};
pub use spanned::{Number, Text};

/// `user`: what `--user` says.
pub fn user(source: &Source, text: Option<&Text>) -> UserArgs {
    UserArgs {
        user: text.and_then(|text| source.value(text, str::parse)),
    }
}

/// The text of a file of at most `len_max` bytes.
///
/// # Errors
///
/// There is none.
pub fn text_of(file: &Path, len_max: u64) -> Result<String, ConfigErrors> {
    let fail = |what: String| ConfigErrors::whole(file, what);
    let unreadable = |e: std::io::Error| fail(format!("cannot be read: {e}"));
    let about = std::fs::metadata(file).map_err(unreadable)?;
    if !about.is_file() {
        return Err(fail(
            "is not a file; give the path of a TOML file".to_owned(),
        ));
    }
    if about.len() > len_max {
        return Err(fail(format!("is longer than {} KiB", len_max >> 10)));
    }
    std::fs::read_to_string(file).map_err(unreadable)
}
