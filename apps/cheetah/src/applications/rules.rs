//! Which requests are for an application: those of an extension, those of some paths, or all for which the site has nothing.
//!
//! **The source of a script is never sent.** A document with an extension that is an application's is found here before it is
//! looked for as a document, by every name that it has: its own, one with more behind it, and its directory's. A redirect from
//! the script's own path (`/index.php` to `/`) leaves it its directory's. Where a rule does not look for documents, what is
//! below a document is none of its scripts: an application that cuts a path back until there is a file would run that
//! (`/upload/a.jpg/x.php`, cgi.fix_pathinfo of PHP).
//!
//! | rule | request | `SCRIPT_NAME` | `PATH_INFO` |
//! |---|---|---|---|
//! | extension `.php` | `/a/b.php` | `/a/b.php` | |
//! | | `/a/b.php/c/d` | `/a/b.php` | `/c/d` |
//! | | `/a/`, with the index `index.php` | `/a/index.php` | |
//! | path `/app` | `/app` | `/app` | |
//! | path `/app/*` | `/app/c/d` | `/app` | `/c/d` |
//! | missing `/app/*` | `/app/c/d`, where nothing is | `/app` | `/c/d` |
//! | front `/blog/index.php` | `/blog/2026/title`, where nothing is | `/blog/index.php` | |
//!
//! A rule about paths comes before one about an extension, and of several the most specific decides. What none of them is about,
//! and no document, directory or redirect is at, is that of a rule about what is missing, or the front's in whose directory it is; a front finds in `REQUEST_URI` what it
//! is asked for.

use std::cmp::Reverse;
use std::sync::Arc;

use super::application::Application;
use crate::site::rules::pattern::Pattern;
use crate::site::{Entry, Site};

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Scripts whose names end so, with the dot; if true, those alone that are documents of the site.
    Extension(String, bool),
    /// Paths, of which nothing has to be there.
    Path(Pattern),
    /// What the site has nothing for, of these paths.
    Missing(Pattern),
    /// What the site has nothing for, in the directory of this script and below; if true, only where the script is a document of
    /// the site.
    Front(String, bool),
}

impl Scope {
    /// An extension, with its dot.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn extension(text: &str) -> Result<Scope, String> {
        let name = text.strip_prefix('.').unwrap_or_default();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(format!(
                "{text:?} is no extension; write it with its dot, as \".php\""
            ));
        }
        Ok(Scope::Extension(text.to_owned(), true))
    }

    /// A path, or all below one.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn path(text: &str) -> Result<Scope, String> {
        let pattern = Pattern::parse(text)?;
        let is_below = text.ends_with("/*");
        if !text.starts_with('/') || pattern.has_star() != is_below {
            return Err(format!(
                "{text:?} is no path of an application; write one as \"/app\" or \"/app/*\""
            ));
        }
        Ok(Scope::Path(pattern))
    }

    /// A script with this extension for what the site has nothing for.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn front(text: &str, extension: &str) -> Result<Scope, String> {
        let pattern = Pattern::parse(text)?;
        let stem = text.strip_suffix(extension).unwrap_or_default();
        if !text.starts_with('/') || pattern.has_star() || stem.is_empty() || stem.ends_with('/') {
            return Err(format!(
                "{text:?} is no path of a script; write one as \"/index{extension}\""
            ));
        }
        Ok(Scope::Front(text.to_owned(), true))
    }

    /// Whether it is about those scripts only that are documents of the site, or about scripts wherever they are.
    #[must_use]
    pub fn only_documents(self, is_only: bool) -> Scope {
        match self {
            Scope::Extension(extension, _) => Scope::Extension(extension, is_only),
            Scope::Front(script, _) => Scope::Front(script, is_only),
            Scope::Path(_) | Scope::Missing(_) => self,
        }
    }
}

/// A rule, and the application that it leads to.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which requests.
    pub scope: Scope,
    /// To there.
    pub application: Arc<Application>,
}

/// What is asked of an application.
#[derive(Clone, Debug)]
pub struct Asked {
    /// It.
    pub application: Arc<Application>,
    /// The path of the script.
    pub script: Vec<u8>,
    /// What is behind that in the request's path.
    pub info: Vec<u8>,
    /// The site has nothing at the path: a front answers.
    pub is_front: bool,
}

/// All rules of a site.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// From rules in any order.
    pub fn new(mut rules: Vec<Rule>) -> Rules {
        rules.sort_by_key(|rule| match &rule.scope {
            Scope::Path(pattern) => (0, Reverse(Some(pattern.precedence())), Reverse(0)),
            Scope::Extension(..) => (1, Reverse(None), Reverse(0)),
            Scope::Missing(pattern) => (2, Reverse(None), Reverse(pattern.before().len())),
            Scope::Front(script, _) => (
                2,
                Reverse(None),
                Reverse(directory(script.as_bytes()).len()),
            ),
        });
        Rules(rules)
    }

    /// Nothing is for an application.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// Whether a document at this path is a script.
    pub fn is_script(&self, path: &[u8]) -> bool {
        self.0.iter().any(|rule| match &rule.scope {
            Scope::Extension(extension, _) => path.ends_with(extension.as_bytes()),
            Scope::Path(_) | Scope::Missing(_) | Scope::Front(..) => false,
        })
    }

    /// Paths whose rules of access hold for a request beside those of its own: the script's that it runs, where that is known by
    /// its name and more is behind it in the path, or it is a front; and behind a front's name what that takes such a request
    /// for. Frameworks cut their front out of `REQUEST_URI`: to them `/index.php/admin` is `/admin`.
    pub fn other_paths(&self, path: &[u8], site: &Site) -> Vec<Vec<u8>> {
        let asked = self.find(path, site);
        let named = asked.filter(|asked| asked.is_front || !asked.info.is_empty());
        let Some(Asked { script, .. }) = named.filter(|asked| self.is_script(&asked.script)) else {
            return Vec::new();
        };
        let behind = path.strip_prefix(&*script);
        let behind = behind.filter(|_| self.is_front(&script));
        let taken_for = behind.and_then(|behind| behind.strip_prefix(b"/"));
        let taken_for = taken_for.map(|behind| [directory(&script), behind].concat());
        [script].into_iter().chain(taken_for).collect()
    }

    /// Scripts that answer what the site has nothing for, where they have to be documents of the site.
    pub fn fronts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|rule| match &rule.scope {
            Scope::Front(script, true) => Some(script.as_str()),
            _ => None,
        })
    }

    fn is_front(&self, path: &[u8]) -> bool {
        let mut rules = self.0.iter();
        rules
            .any(|rule| matches!(&rule.scope, Scope::Front(script, _) if script.as_bytes() == path))
    }

    /// What a request for a path asks of an application, if it does.
    pub fn find(&self, path: &[u8], site: &Site) -> Option<Asked> {
        self.0.iter().find_map(|rule| match &rule.scope {
            Scope::Path(pattern) => rule.asked_by(pattern, path),
            Scope::Missing(pattern) => {
                let asked = rule.asked_by(pattern, path)?;
                (is_free(path, site) || is_bare(path, site)).then_some(Asked {
                    is_front: true,
                    ..asked
                })
            }
            Scope::Extension(extension, only_documents) => {
                rule.find_script(path, site, extension.as_bytes(), *only_documents)
            }
            Scope::Front(script, only_documents) => {
                let is_there = !only_documents || site.is_index(script.as_bytes());
                let is_below = path.starts_with(directory(script.as_bytes()));
                (is_below && is_there && is_free(path, site)).then(|| Asked {
                    is_front: true,
                    ..rule.asked(script.as_bytes(), b"")
                })
            }
        })
    }
}

impl Rule {
    fn asked(&self, script: &[u8], info: &[u8]) -> Asked {
        Asked {
            application: self.application.clone(),
            script: script.into(),
            info: info.into(),
            is_front: false,
        }
    }

    /// What is asked by a rule about these paths.
    fn asked_by(&self, pattern: &Pattern, path: &[u8]) -> Option<Asked> {
        let below = pattern.star(path)?.len();
        let end = path.len() - below - usize::from(pattern.has_star());
        let (script, info) = path.split_at(end);
        Some(self.asked(script, info))
    }

    /// A script with this extension in a path, or as a directory's index.
    fn find_script(
        &self,
        path: &[u8],
        site: &Site,
        extension: &[u8],
        only_documents: bool,
    ) -> Option<Asked> {
        let is_there = |path: &[u8]| match only_documents {
            true => site.find(path).is_some_and(Entry::is_document),
            false => !above(path).any(|path| site.is_index(path)),
        };
        if let Some((script, info)) = split(path, extension, is_there) {
            return Some(self.asked(script, info));
        }
        let script = index(path, &site.settings().index, |path| site.is_index(path))?;
        script
            .ends_with(extension)
            .then(|| self.asked(&script, b""))
    }
}

/// Whether the site has nothing at a path: no document, directory or redirect.
fn is_free(path: &[u8], site: &Site) -> bool {
    site.find(path).is_none() && site.settings().redirects.find(path).is_none()
}

/// Whether all that the site has at a path is a directory, with nothing to answer with: neither a document nor a listing. That of the
/// site itself is always there.
fn is_bare(path: &[u8], site: &Site) -> bool {
    let (name, below) = match path.strip_suffix(b"/") {
        Some(name) => (name, path.to_vec()),
        None => (path, [path, b"/"].concat()),
    };
    let is_directory = name.is_empty() || matches!(site.find(name), Some(Entry::Directory));
    let is_empty = matches!(site.find(&below), Some(Entry::Forbidden));
    let is_redirected = site.settings().redirects.find(path).is_some();
    is_directory && is_empty && !is_redirected && !site.settings().listing
}

/// The directory of a script, with its slash.
fn directory(script: &[u8]) -> &[u8] {
    let slash = script.iter().rposition(|&b| b == b'/');
    let end = slash.map_or(0, |slash| slash + 1);
    &script[..end]
}

/// The first script in a path, and what is behind it.
fn split<'p>(
    path: &'p [u8],
    extension: &[u8],
    is_there: impl Fn(&[u8]) -> bool,
) -> Option<(&'p [u8], &'p [u8])> {
    let ends = (1..=path.len()).filter(|&end| path.get(end).is_none_or(|&b| b == b'/'));
    let mut scripts = ends.map(|end| path.split_at(end)).filter(|(script, _)| {
        let stem = script.strip_suffix(extension);
        stem.is_some_and(|stem| !stem.ends_with(b"/"))
    });
    scripts.find(|(script, _)| is_there(script))
}

/// The paths that a path is below.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = (1..path.len()).filter(|&at| path[at] == b'/');
    slashes.map(|at| &path[..at])
}

/// The path of the document that a directory is answered with.
fn index(path: &[u8], names: &[String], is_document: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    if !path.ends_with(b"/") {
        return None;
    }
    let mut documents = names.iter().map(|name| [path, name.as_bytes()].concat());
    documents.find(|document| is_document(document))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::{Address, Place};
    use crate::message::Status;
    use crate::site::document::Description;
    use crate::site::rules::redirect::{Destination, Redirect, Redirects};
    use crate::site::{Document, Settings};

    fn rule(scope: Scope, port: u16) -> Rule {
        let address = Address::Fastcgi(Place::Tcp(([127, 0, 0, 1], port).into()));
        let application = Arc::new(Application::at(address));
        Rule { scope, application }
    }

    fn site() -> Site {
        site_with(Redirects::default())
    }

    fn site_with(redirects: Redirects) -> Site {
        let rules = vec![
            rule(Scope::extension(".php").unwrap(), 1),
            rule(Scope::path("/app/*").unwrap(), 2),
            rule(Scope::path("/app/deep/*").unwrap(), 3),
            rule(Scope::path("/one").unwrap(), 4),
            rule(Scope::Extension(".cgi".to_owned(), false), 5),
            rule(Scope::front("/front.php", ".php").unwrap(), 6),
            rule(Scope::front("/h/front.php", ".php").unwrap(), 7),
            rule(Scope::front("/a/none.php", ".php").unwrap(), 8),
            rule(
                Scope::front("/w/x.cgi", ".cgi")
                    .unwrap()
                    .only_documents(false),
                9,
            ),
        ];
        let mut site = Site::with(Arc::new(Settings {
            index: vec!["index.php".to_owned(), "index.html".to_owned()],
            applications: Rules::new(rules),
            redirects,
            ..Settings::default()
        }));
        for path in [
            "/index.php",
            "/a/index.html",
            "/a/b.php",
            "/d.php/c.php",
            "/x.html",
            "/app/static.css",
            "/h/index.html",
            "/h/index.php",
            "/front.php",
            "/h/front.php",
        ] {
            let document = Document::new(b"source", &Description::plain("text/html", 0));
            site.insert(path.as_bytes(), document);
        }
        site
    }

    #[test]
    fn a_path_is_a_script_and_what_is_behind_it() {
        let site = site();
        for (path, wanted) in [
            ("/index.php", Some(("/index.php", "", 1))),
            ("/index.php/", Some(("/index.php", "/", 1))),
            ("/index.php/c/d.php", Some(("/index.php", "/c/d.php", 1))),
            ("/", Some(("/index.php", "", 1))),
            ("/h/", Some(("/h/index.php", "", 1))),
            ("/a/", None),
            ("/a/b.php", Some(("/a/b.php", "", 1))),
            ("/a/b.phpx", Some(("/front.php", "", 6))),
            ("/a/b.PHP", Some(("/front.php", "", 6))),
            ("/none.php", Some(("/front.php", "", 6))),
            ("/.php", Some(("/front.php", "", 6))),
            ("/x.html/y.php", Some(("/front.php", "", 6))),
            // A directory is no script, whatever its name.
            ("/d.php/c.php/e", Some(("/d.php/c.php", "/e", 1))),
            ("/d.php/", None),
            ("/app", None),
            ("/app/", Some(("/app", "/", 2))),
            ("/app/static.css", Some(("/app", "/static.css", 2))),
            ("/app/x.php", Some(("/app", "/x.php", 2))),
            ("/app/deep/x", Some(("/app/deep", "/x", 3))),
            ("/one", Some(("/one", "", 4))),
            ("/one/", Some(("/front.php", "", 6))),
            ("/elsewhere.cgi/i", Some(("/elsewhere.cgi", "/i", 5))),
            // A path below a document, which an application might run instead.
            ("/x.html/y.cgi", Some(("/front.php", "", 6))),
            ("/x.html/z/y.cgi/i", Some(("/front.php", "", 6))),
            // What is there is no front's: documents, directories with an index or without.
            ("/x.html", None),
            ("/a", None),
            ("/d.php", None),
            ("*", None),
            // The front of the nearest directory that has one; a script that is not there is none.
            ("/h/pretty/url/", Some(("/h/front.php", "", 7))),
            ("/hpretty", Some(("/front.php", "", 6))),
            ("/a/pretty", Some(("/front.php", "", 6))),
            ("/w/pretty", Some(("/w/x.cgi", "", 9))),
        ] {
            let asked = site.settings().applications.find(path.as_bytes(), &site);
            let asked = asked.map(|asked| {
                let Address::Fastcgi(Place::Tcp(address)) = asked.application.addresses[0] else {
                    unreachable!("all are ports")
                };
                (asked.script, asked.info, address.port())
            });
            let wanted = wanted.map(|(script, info, port)| (script.into(), info.into(), port));
            assert_eq!(asked, wanted, "{path}");
        }
    }

    /// `/index.php` leads to `/`, which the script answers: as many sites have it.
    #[test]
    fn a_script_that_is_redirected_is_still_its_directorys() {
        let to_root = Redirect {
            from: Pattern::parse("/index.php").unwrap(),
            to: Destination::parse("/").unwrap(),
            status: Status::MovedPermanently,
            keep_query: true,
        };
        let mut site = site_with(Redirects::new(vec![to_root]).unwrap());
        let script = |site: &Site, path: &[u8]| {
            let asked = site.settings().applications.find(path, site);
            asked.map(|asked| String::from_utf8(asked.script).unwrap())
        };
        assert_eq!(script(&site, b"/").as_deref(), Some("/index.php"));
        // The address that is redirected is no script's, with more behind it either.
        assert_eq!(script(&site, b"/index.php"), None);
        let front = script(&site, b"/index.php/more");
        assert_eq!(front.as_deref(), Some("/front.php"));
        for path in ["/", "/index.php"] {
            let entry = site.find(path.as_bytes());
            assert!(!entry.is_some_and(Entry::is_document), "{path}");
        }
        site.remove(b"/index.php");
        assert_eq!(script(&site, b"/"), None);
        assert!(!site.find(b"/").is_some_and(Entry::is_document));
    }

    #[test]
    fn the_source_of_a_script_is_never_its_directorys_entry() {
        let mut site = site();
        assert!(!site.find(b"/").is_some_and(Entry::is_document));
        // Where two are there, the other one goes.
        site.remove(b"/h/index.html");
        assert!(!site.find(b"/h/").is_some_and(Entry::is_document));
        assert!(site.find(b"/a/").is_some_and(Entry::is_document));
    }

    #[test]
    fn a_script_is_known_by_its_own_path_and_behind_a_front_by_what_follows() {
        let site = site();
        let rules = &site.settings().applications;
        for (path, wanted) in [
            ("/a/b.php/c", &["/a/b.php"][..]),
            ("/a/b.php", &[]),
            ("/app/c", &[]),
            ("/pretty/url", &["/front.php"]),
            ("/front.php", &[]),
            ("/front.php/", &["/front.php", "/"]),
            ("/front.php/c/d", &["/front.php", "/c/d"]),
            ("/h/front.php/c", &["/h/front.php", "/h/c"]),
            ("/h/c/front.php/d", &["/h/front.php"]),
            ("/", &[]),
        ] {
            let others = rules.other_paths(path.as_bytes(), &site);
            let wanted: Vec<&[u8]> = wanted.iter().map(|path| path.as_bytes()).collect();
            assert_eq!(others, wanted, "{path}");
        }
    }

    /// The front answers for its own address with more behind it, too, where that is redirected.
    #[test]
    fn a_front_that_is_redirected_is_taken_for_what_follows() {
        let away = Redirect {
            from: Pattern::parse("/front.php").unwrap(),
            to: Destination::parse("/").unwrap(),
            status: Status::MovedPermanently,
            keep_query: true,
        };
        let site = site_with(Redirects::new(vec![away]).unwrap());
        let others = (site.settings().applications).other_paths(b"/front.php/admin/x", &site);
        assert_eq!(others, [&b"/front.php"[..], b"/admin/x"]);
    }

    #[test]
    fn no_document_is_sent_that_is_a_script() {
        let site = site();
        for path in [
            "/index.php",
            "/a/b.php",
            "/d.php/c.php",
            "/",
            "/h/",
            "/h/index.php",
        ] {
            assert!(
                site.settings()
                    .applications
                    .find(path.as_bytes(), &site)
                    .is_some(),
                "{path}"
            );
        }
    }

    /// The directory of the site is always there: an upstream for all that is missing has it where it has no document.
    #[test]
    fn a_directory_without_a_document_is_an_upstreams() {
        let scope = |text| match Scope::path(text).unwrap() {
            Scope::Path(pattern) => Scope::Missing(pattern),
            other => other,
        };
        for listing in [false, true] {
            let mut site = Site::with(Arc::new(Settings {
                listing,
                applications: Rules::new(vec![rule(scope("/*"), 1)]),
                ..Settings::default()
            }));
            site.insert(
                b"/a/x.css",
                Document::new(b"", &Description::plain("text/css", 0)),
            );
            site.insert(
                b"/b/index.html",
                Document::new(b"", &Description::plain("text/html", 0)),
            );
            site.insert_forbidden(b"/c");
            for (path, is_asked) in [
                ("/", !listing),
                ("/a", !listing),
                ("/a/", !listing),
                ("/a/x.css", false),
                ("/a/y.css", true),
                ("/b", false),
                ("/b/", false),
                ("/c", false),
                ("/d/", true),
            ] {
                let asked = site.settings().applications.find(path.as_bytes(), &site);
                assert_eq!(asked.is_some(), is_asked, "{path} {listing}");
            }
        }
    }

    #[test]
    fn scopes_are_extensions_and_paths() {
        for text in ["", "php", ".", ".a.b", "./x", ".p*p"] {
            assert!(Scope::extension(text).is_err(), "{text}");
        }
        for text in ["", "*", "*.php", "/a*", "/a/*.php", "app/*", "//x", "/a/**"] {
            assert!(Scope::path(text).is_err(), "{text}");
        }
        assert!(Scope::path("/*").is_ok() && Scope::path("/a").is_ok());
        for text in [
            "",
            "index.php",
            "/index.html",
            "/*.php",
            "/.php",
            "/a/",
            "/a/.php",
            "//a.php",
        ] {
            assert!(Scope::front(text, ".php").is_err(), "{text}");
        }
    }
}
