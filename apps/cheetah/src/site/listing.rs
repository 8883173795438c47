//! Listings: what a directory without an index document is answered with, where that is wanted.
//!
//! A page of plain HTML: a table of names, sizes in bytes and times of the last change, directories
//! first, each in the order of their bytes. It lists what is served: nothing hidden, nothing that is
//! forbidden. Whatever a name holds, it is text on the page and one path segment in the link: markup
//! is escaped, and links are relative, percent-encoded, and begin with `./`, so that no name is taken
//! for a scheme.
//!
//! A page is made when it is first asked for and kept until something in its directory changes, so
//! many readers share one. The pages of all directories take about 150 bytes for each document.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use exos_program::html::escape;

use super::document::Document;
use super::entry::Entry;
use super::path::About;
use crate::limits::LISTING_NAMES_MAX;
use crate::message::date::date_text;
use crate::message::target::encode;

/// The names in each directory, by its path, which ends with `/`.
#[derive(Debug, Default)]
pub(super) struct Listings(HashMap<Box<[u8]>, Directory>);

#[derive(Debug, Default)]
struct Directory {
    names: BTreeSet<Box<[u8]>>,
    page: OnceCell<Document>,
}

impl Listings {
    /// Something at a path has come, has changed, or has gone.
    pub(super) fn changed(&mut self, path: &[u8], is_there: bool) {
        let Some(slash) = path.iter().rposition(|&b| b == b'/') else {
            return;
        };
        match (path.split_at(slash + 1), is_there) {
            ((_, b""), true) => {
                self.0.entry(path.into()).or_default();
            }
            ((_, b""), false) => {
                self.0.remove(path);
            }
            ((directory, name), true) => {
                let directory = self.0.entry(directory.into()).or_default();
                directory.names.insert(name.into());
                directory.page = OnceCell::new();
            }
            ((directory, name), false) => {
                if let Some(directory) = self.0.get_mut(directory) {
                    directory.names.remove(name);
                    directory.page = OnceCell::new();
                }
            }
        }
    }

    /// The page of a directory, whose path ends with `/`, if that is known; `find` says what is at a path.
    pub(super) fn page<'s>(
        &self,
        path: &[u8],
        find: impl Fn(&[u8]) -> Option<&'s Entry>,
    ) -> Option<Document> {
        let directory = self.0.get(path)?;
        let page = directory.page.get_or_init(|| make(path, directory, find));
        Some(page.clone())
    }
}

fn make<'s>(
    path: &[u8],
    directory: &Directory,
    find: impl Fn(&[u8]) -> Option<&'s Entry>,
) -> Document {
    let (mut directories, mut documents) = (Vec::new(), Vec::new());
    for name in directory.names.iter().filter(|name| name[0] != b'.') {
        match find(&[path, name].concat()) {
            Some(Entry::Directory) => directories.push((&name[..], "/", None)),
            Some(entry) => {
                let row = |about| (&name[..], "", Some(about));
                documents.extend(entry.about().map(row));
            }
            None => {}
        }
    }
    let rows = [directories, documents].concat();
    let page = Document::page("", &html(path, &rows));
    page.buffer().prepare_sums();
    page
}

/// A name, what follows it in addresses, and what is said of the document if it is one.
type Row<'a> = (&'a [u8], &'static str, Option<About>);

/// The page of a directory.
fn html(path: &[u8], rows: &[Row]) -> String {
    let title = escape(&String::from_utf8_lossy(path));
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>table {{ font-family: monospace }} td, th {{ text-align: left; padding-right: 2em }} \
         td:nth-child(2) {{ text-align: right }}</style>\n<h1><bdi>{title}</bdi></h1>\n<table>\n\
         <tr><th>Name</th><th>Bytes</th><th>Changed (UTC)</th></tr>\n"
    );
    if path != b"/" {
        html += "<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n";
    }
    for row in rows.iter().take(LISTING_NAMES_MAX) {
        push_row(&mut html, *row);
    }
    html += "</table>\n";
    if let Some(left @ 1..) = rows.len().checked_sub(LISTING_NAMES_MAX) {
        let _ = writeln!(html, "<p>{left} more are not shown.</p>");
    }
    html + "</html>\n"
}

fn push_row(html: &mut String, (name, slash, about): Row) {
    let link = escape(&encode(name, None));
    let text = escape(&String::from_utf8_lossy(name));
    let (len, changed) = about.map_or((String::new(), String::new()), |about| {
        // Of `Sun, 06 Nov 1994 08:49:37 GMT` without the day's name, the seconds and the zone.
        let date = date_text(about.modified_secs);
        let changed = date.get(5..22).unwrap_or_default().to_owned();
        (about.len.to_string(), changed)
    });
    let _ = writeln!(
        html,
        "<tr><td><a href=\"./{link}{slash}\"><bdi>{text}</bdi>{slash}</a></td>\
         <td>{len}</td><td>{changed}</td></tr>"
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::site::{Description, Settings, Site};

    fn site(paths: &[&[u8]]) -> Site {
        let settings = Settings {
            listing: true,
            ..Settings::default()
        };
        let mut site = Site::with(Arc::new(settings));
        for path in paths {
            let description = Description::plain("text/plain", 784_111_777);
            site.insert(path, Document::new(b"12345", &description));
        }
        site
    }

    fn listing(site: &Site, path: &str) -> String {
        let page = site.listing(path.as_bytes()).unwrap();
        String::from_utf8(page.body().as_bytes().to_vec()).unwrap()
    }

    /// The targets of the links, in their order.
    fn links(html: &str) -> Vec<&str> {
        let links = html.split("<a href=\"").skip(1);
        links
            .filter_map(|rest| Some(rest.split_once('"')?.0))
            .collect()
    }

    #[test]
    fn directories_come_first_and_each_has_its_row() {
        let mut site = site(&[
            b"/d/b.txt",
            b"/d/B.txt",
            b"/d/a/x",
            b"/d/z/y/x",
            b"/d/.well-known/x",
        ]);
        site.insert_forbidden(b"/d/secret");
        let html = listing(&site, "/d/");
        assert_eq!(links(&html), ["../", "./a/", "./z/", "./B.txt", "./b.txt"]);
        let row = "<tr><td><a href=\"./b.txt\"><bdi>b.txt</bdi></a></td>\
                   <td>5</td><td>06 Nov 1994 08:49</td></tr>\n";
        assert!(html.contains(row), "{html}");
        assert_eq!(links(&listing(&site, "/")), ["./d/"]);
        assert_eq!(links(&listing(&site, "/d/z/")), ["../", "./y/"]);
    }

    /// Every link leads to the document whose name it shows, and no name becomes markup.
    #[test]
    fn names_are_text_on_the_page_and_one_segment_in_the_link() {
        let names: [&[u8]; 10] = [
            b"a b&c<d>\"e'.txt",
            b"javascript:alert(1)",
            b"100%",
            b"%2e%2e",
            b"what?#me",
            b"back\\slash",
            "na\u{ef}ve \u{202e}txt".as_bytes(),
            b"\xff\xfe",
            b"new\r\nline",
            b"<a><script>",
        ];
        let tags = |html: &str| html.matches(['<', '>']).count();
        let plain = listing(&site(&[b"/d/plain"]), "/d/");
        for name in names {
            let path = [b"/d/", name].concat();
            let site = site(&[&path]);
            let html = listing(&site, "/d/");
            let links = links(&html);
            let link = links[1].replace("&amp;", "&").replace("&#39;", "'");
            assert!(link.is_ascii() && link.starts_with("./"), "{link}");
            let target = format!("/d/{}", &link[2..]);
            let target = crate::message::target::Target::parse(target.as_bytes()).unwrap();
            assert_eq!((&*target.path, target.query), (&path[..], None), "{link}");
            assert_eq!(tags(&html), tags(&plain), "{html}");
        }
    }

    #[test]
    fn a_page_is_kept_until_its_directory_changes() {
        let mut site = site(&[b"/d/a", b"/e/a"]);
        let page = |site: &Site, path: &[u8]| site.listing(path).unwrap();
        let (d, e) = (page(&site, b"/d/"), page(&site, b"/e/"));
        assert!(page(&site, b"/d/").buffer().same(d.buffer()));
        site.insert(
            b"/d/b",
            Document::new(b"", &Description::plain("text/plain", 0)),
        );
        assert_eq!(links(&listing(&site, "/d/")), ["../", "./a", "./b"]);
        assert!(page(&site, b"/e/").buffer().same(e.buffer()));
        site.remove(b"/d/a");
        assert_eq!(links(&listing(&site, "/d/")), ["../", "./b"]);
        site.insert_directory(b"/d/e/");
        assert_eq!(links(&listing(&site, "/d/")), ["../", "./e/", "./b"]);
        site.remove_directory(b"/d/e/");
        assert_eq!(links(&listing(&site, "/d/")), ["../", "./b"]);
    }

    #[test]
    fn what_is_no_open_directory_is_not_listed() {
        let mut site = site(&[b"/d/a"]);
        site.insert_directory(b"/empty/");
        site.insert_directory(b"/closed/");
        site.insert_forbidden(b"/closed");
        assert_eq!(links(&listing(&site, "/empty/")), ["../"]);
        for path in ["/d", "/d/a", "/closed/", "/nothing/", ""] {
            assert!(site.listing(path.as_bytes()).is_none(), "{path}");
        }
        let mut unlisted = Site::new();
        unlisted.insert_directory(b"/d/");
        assert!(unlisted.listing(b"/d/").is_none());
    }

    #[test]
    fn a_listing_has_a_bound_and_says_what_is_beyond() {
        let paths: Vec<Vec<u8>> = (0..LISTING_NAMES_MAX + 3)
            .map(|n| format!("/{n:06}").into_bytes())
            .collect();
        let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
        let html = listing(&site(&paths), "/");
        assert_eq!(links(&html).len(), LISTING_NAMES_MAX);
        assert!(html.contains("<p>3 more are not shown.</p>"));
    }
}
