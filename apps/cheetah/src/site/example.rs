//! The example site, built into the program: `exos serve` without a directory serves it.
//!
//! Its files lie in the crate's `site/` folder. The mosaic page has one image per tile, so that a
//! browser opens several connections and one look at the picture shows whether all answers came.

use super::document::{Description, Document};
use super::media_type;
use super::table::Site;

/// The date of all files, 2026-01-01 00:00:00 UTC: fixed, so that every build sends the same.
const MODIFIED_SECS: u64 = 1_767_225_600;

/// Pairs of a file's path and its bytes.
macro_rules! embedded {
    ($($path:literal),* $(,)?) => {
        [$((concat!("/", $path), include_bytes!(concat!("../../site/", $path)).as_slice())),*]
    };
}

#[rustfmt::skip]
const FILES: [(&str, &[u8]); 56] = embedded![
    "favicon.svg",
    "how.html",
    "index.html",
    "journey.svg",
    "mosaic.html",
    "savanna.png",
    "style.css",
    "tiles/00.png",
    "tiles/01.png",
    "tiles/02.png",
    "tiles/03.png",
    "tiles/04.png",
    "tiles/05.png",
    "tiles/06.png",
    "tiles/07.png",
    "tiles/10.png",
    "tiles/11.png",
    "tiles/12.png",
    "tiles/13.png",
    "tiles/14.png",
    "tiles/15.png",
    "tiles/16.png",
    "tiles/17.png",
    "tiles/20.png",
    "tiles/21.png",
    "tiles/22.png",
    "tiles/23.png",
    "tiles/24.png",
    "tiles/25.png",
    "tiles/26.png",
    "tiles/27.png",
    "tiles/30.png",
    "tiles/31.png",
    "tiles/32.png",
    "tiles/33.png",
    "tiles/34.png",
    "tiles/35.png",
    "tiles/36.png",
    "tiles/37.png",
    "tiles/40.png",
    "tiles/41.png",
    "tiles/42.png",
    "tiles/43.png",
    "tiles/44.png",
    "tiles/45.png",
    "tiles/46.png",
    "tiles/47.png",
    "tiles/50.png",
    "tiles/51.png",
    "tiles/52.png",
    "tiles/53.png",
    "tiles/54.png",
    "tiles/55.png",
    "tiles/56.png",
    "tiles/57.png",
    "try/index.html",
];

impl Site {
    /// The example site.
    pub fn example() -> Site {
        let mut site = Site::new();
        for (path, content) in FILES {
            let media_type = media_type::of(path.as_bytes());
            site.insert(
                path.as_bytes(),
                Document::new(content, &Description::plain(media_type, MODIFIED_SECS)),
            );
        }
        site
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::site::{Limits, Tree};

    /// Every address that a page of the site links to or embeds is one that the site serves.
    #[test]
    fn no_link_is_broken() {
        let site = Site::example();
        for (path, content) in FILES
            .into_iter()
            .filter(|(path, _)| path.ends_with(".html"))
        {
            let page = str::from_utf8(content).unwrap();
            let directory = &path[..=path.rfind('/').unwrap()];
            let links = page.split(" href=\"").chain(page.split(" src=\"")).skip(1);
            for link in links
                .filter_map(|rest| rest.split_once('"'))
                .map(|(link, _)| link)
            {
                let target = if link.starts_with('/') {
                    link.into()
                } else {
                    directory.to_owned() + link
                };
                let known = crate::message::target::Target::parse(target.as_bytes())
                    .is_ok_and(|target| site.find(&target.path).is_some());
                assert!(
                    known || link == "/missing.html" || link.starts_with('<'),
                    "{path}: {link}"
                );
            }
        }
    }

    #[test]
    fn every_file_in_the_folder_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/site");
        let (limits, settings) = (Limits::default(), Arc::default());
        let mut tree = Tree::open(folder.as_ref(), limits, settings, false).unwrap();
        let mut loaded = Site::new();
        tree.scan(&mut |_, change| loaded.apply(change)).unwrap();
        let omissions = tree.take_omissions();
        assert!(omissions.is_empty(), "{omissions:?}");
        assert_eq!(loaded.document_count(), FILES.len());
        assert!(
            FILES
                .iter()
                .all(|(path, _)| loaded.find(path.as_bytes()).is_some())
        );
    }
}
