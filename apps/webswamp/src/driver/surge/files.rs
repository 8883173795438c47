//! `exos load surge-files`: writes a set of documents.

use std::path::PathBuf;

use exos_host::{Error, Result};

use super::documents::Documents;
use crate::limits::REQUESTS_MAX;

/// What is to be written.
#[derive(clap::Args, Clone, Debug)]
pub struct FilesArgs {
    /// Folder for the documents and their list; created if missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Number of files
    #[arg(long, value_name = "COUNT", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(2..=REQUESTS_MAX as i64))]
    files: u32,
    /// Seed: the same seed gives the same files
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

/// Writes it, and says what it is.
///
/// # Errors
///
/// A file or the folder cannot be written.
pub fn write(args: &FilesArgs) -> Result<String> {
    let set = Documents::generate(args.files, args.seed);
    set.write(&args.folder, args.seed)
        .map_err(|(name, e)| Error::io(format!("cannot write {name}"), e))?;
    Ok(format!(
        "{} files of {} pages, {:.1} MB, in {}\n",
        set.files(),
        set.pages().len(),
        set.bytes() as f64 / 1e6,
        args.folder.display()
    ))
}
