//! The lines of a file that name what is opened later: so what is wrong with that is told with file and line too.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use exos::Error;
use exos_program::config::Source;

use super::applications;
use super::schema::{File, SiteTable};

/// Lines from 1; 0 for what the file does not say.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    file: PathBuf,
    /// `file` of `[log]`.
    pub log: usize,
    /// `name` of `[link]`.
    pub link: usize,
    sites: Vec<SiteLines>,
}

/// Where a file lies: relative paths in it begin there.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    file.parent().map(Path::to_path_buf).unwrap_or_default()
}

#[derive(Clone, Debug, Default)]
struct SiteLines {
    root: usize,
    /// By the path of a document that has to be there: an error page, or a front.
    documents: HashMap<String, usize>,
    /// By the file of passwords, in full.
    users: HashMap<PathBuf, usize>,
}

impl Lines {
    pub(super) fn of(source: &Source, file: &Path, tables: &File) -> Lines {
        let line = |text: &Option<super::schema::Text>| {
            text.as_ref().map_or(0, |text| source.line(&text.span()))
        };
        let site = |table: &SiteTable| SiteLines {
            root: line(&table.root),
            documents: table
                .error_pages
                .values()
                .chain(applications::fronts(table))
                .map(|page| (page.get_ref().clone(), source.line(&page.span())))
                .collect(),
            users: table
                .access
                .iter()
                .filter_map(|rule| rule.get_ref().users.as_ref())
                .map(|users| {
                    (
                        folder_of(file).join(users.get_ref()),
                        source.line(&users.span()),
                    )
                })
                .collect(),
        };
        Lines {
            file: file.into(),
            log: line(&tables.log.file),
            link: tables.link.first().map_or(0, |link| line(&link.name)),
            sites: tables.site.iter().map(|t| site(t.get_ref())).collect(),
        }
    }

    /// An error about what a line names.
    pub fn place(&self, line: usize, error: Error) -> Error {
        if line == 0 {
            return error;
        }
        let what = format!("{}:{line}: {}", self.file.display(), error.what);
        Error { what, ..error }
    }

    /// An error about the directory of a site, by its number.
    pub fn place_root(&self, site: usize, error: Error) -> Error {
        self.place(self.sites.get(site).map_or(0, |lines| lines.root), error)
    }

    /// An error about a document of a site that has to be there, by its path.
    pub fn place_document(&self, site: usize, path: &str, error: Error) -> Error {
        let lines = self.sites.get(site);
        let line = lines.and_then(|lines| lines.documents.get(path)).copied();
        self.place(line.unwrap_or(0), error)
    }

    /// An error about a file of passwords of a site.
    pub fn place_users(&self, site: usize, users: &Path, error: Error) -> Error {
        let lines = self.sites.get(site);
        let line = lines.and_then(|lines| lines.users.get(users)).copied();
        self.place(line.unwrap_or(0), error)
    }
}
