//! Sites: `[[site]]` and `[limits]`.

use std::path::{Path, PathBuf};

use toml::Spanned;

use super::schema::{LimitsTable, SiteTable};
use super::source::Source;
use super::units::size_within;
use crate::limits::{DOCUMENT_LEN_MAX, SITE_FILES_MAX};
use crate::site::Limits;

/// Where the documents of a site are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// In the program: the example site.
    Example,
    /// In a directory.
    Directory(PathBuf),
}

/// One site.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// Where its documents are.
    pub root: Root,
}

impl SiteConfig {
    /// Everything by default.
    pub fn of(root: Root) -> SiteConfig {
        SiteConfig { root }
    }
}

/// `[limits]`.
pub(super) fn limits(source: &Source, table: &LimitsTable) -> Limits {
    let mut limits = Limits::default();
    let size = |text: &Option<_>, to| {
        let text = text.as_ref()?;
        source.value(text, |text| size_within(text, 1, to))
    };
    if let Some(len) = size(&table.document, DOCUMENT_LEN_MAX) {
        limits.document_len = len;
    }
    if let Some(len) = size(&table.site, u64::MAX) {
        limits.site_len = len;
    }
    let files = table.files.as_ref();
    if let Some(files) = files.and_then(|n| source.number(n, 1, SITE_FILES_MAX as i64)) {
        limits.files = files as usize;
    }
    limits
}

/// Every `[[site]]`. `folder` is where relative paths begin.
pub(super) fn all(
    source: &Source,
    folder: &Path,
    tables: &[Spanned<SiteTable>],
) -> Vec<SiteConfig> {
    if tables.is_empty() && !source.has_errors() {
        let write = "write [[site]], and root = \"/srv/www\" below it";
        source.note_whole(format!("names no site; {write}"));
    }
    if let [_, second, ..] = tables {
        let what = "there is more than one site; write one [[site]]";
        source.note(&second.span(), what);
    }
    tables
        .iter()
        .map(|table| one(source, folder, table))
        .collect()
}

fn one(source: &Source, folder: &Path, table: &Spanned<SiteTable>) -> SiteConfig {
    let (span, table) = (table.span(), table.get_ref());
    if table.root.is_none() && !source.has_errors() {
        source.note(
            &span,
            "the site has no documents; write root = \"/srv/www\"",
        );
    }
    let root = table.root.as_ref().map_or("", |root| root.get_ref());
    SiteConfig::of(Root::Directory(folder.join(root)))
}
