//! The documents that are served and asked for: pages by popularity, each a base file and the files embedded in it.
//!
//! They are written to a folder with a list of theirs, the file `surge`, by which the load knows them. A page a line, the
//! most popular first; a line has the sizes of the page's base file and of its embedded files in bytes:
//!
//! ```text
//! # SURGE, 2000 files, seed 1
//! 4211 873
//! 12077 3501 9034
//! ```
//!
//! The base file of the page in line n, counted without comments from 1, is `n`, its embedded files are `n.1`, `n.2`, ....

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::Path;

use rand_distr::Distribution as _;
use rand_distr::StandardUniform;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng as _;

use super::matching::distribute;
use super::parameters::Distributions;
use crate::limits::REQUESTS_MAX;

/// The list's name in its folder.
pub const LIST: &str = "surge";

/// A set of documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    /// Sizes of the files of each page, its base file's first; none is empty.
    pages: Vec<Vec<u64>>,
}

impl Documents {
    /// This many files, at least two.
    pub fn generate(files: u32, seed: u64) -> Self {
        assert!(files >= 2, "a page has two files at least");
        let distributions = Distributions::published();
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut counts = Vec::new();
        let mut left = files;
        while left > 0 {
            let count = (1 + distributions.embedded(&mut random)).min(left);
            counts.push(count);
            left -= count;
        }
        let size = |random: &mut Pcg64Mcg| distributions.file_bytes(random).round() as u64;
        let sizes = (0..files).map(|_| size(&mut random)).collect();
        let mut pages = distribute(sizes, &counts);
        // The largest file of a page would always be its base: any may be.
        for page in &mut pages {
            let unit: f64 = StandardUniform.sample(&mut random);
            let base = (unit * page.len() as f64) as usize;
            page.swap(0, base);
        }
        Self { pages }
    }

    /// The sizes of each page's files, the most popular page first.
    pub fn pages(&self) -> &[Vec<u64>] {
        &self.pages
    }

    /// Bytes of all.
    pub fn bytes(&self) -> u64 {
        self.pages.iter().flatten().sum()
    }

    /// Files in all.
    pub fn files(&self) -> usize {
        self.pages.iter().map(Vec::len).sum()
    }

    /// How often each page is asked for, the least popular once (Zipf's law).
    pub fn requests(&self) -> Vec<u32> {
        let pages = self.pages.len() as u32;
        (1..=pages).map(|rank| (pages + rank / 2) / rank).collect()
    }

    /// The list.
    pub fn list(&self) -> String {
        let mut text = String::new();
        for page in &self.pages {
            for (n, bytes) in page.iter().enumerate() {
                let blank = if n > 0 { " " } else { "" };
                let _ = write!(text, "{blank}{bytes}");
            }
            text.push('\n');
        }
        text
    }

    /// Reads a list.
    ///
    /// # Errors
    ///
    /// What is wrong, and in which line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pages = Vec::new();
        let (mut files, mut bytes) = (0, 0u64);
        for (line, number) in text.lines().zip(1..) {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let sizes = line.split_ascii_whitespace().map(|word| {
                let size = word.parse::<u64>();
                size.map_err(|_| format!("line {number}: {word:?} is no size in bytes"))
            });
            let page: Vec<u64> = sizes.collect::<Result<_, _>>()?;
            files += page.len();
            let sum = page
                .iter()
                .try_fold(bytes, |sum, size| sum.checked_add(*size));
            bytes = sum.ok_or_else(|| {
                format!("line {number}: there are more bytes than can be counted")
            })?;
            if files > REQUESTS_MAX {
                return Err(format!(
                    "line {number}: there are more than {REQUESTS_MAX} files"
                ));
            }
            pages.push(page);
        }
        if pages.is_empty() {
            return Err("there is no page in it".to_owned());
        }
        Ok(Self { pages })
    }

    /// Writes the documents into a folder, and their list at last.
    ///
    /// # Errors
    ///
    /// The folder's or a file's, with its name.
    pub fn write(&self, folder: &Path, seed: u64) -> Result<(), (String, std::io::Error)> {
        let at = |name: &Path| {
            let name = name.display().to_string();
            move |e| (name, e)
        };
        std::fs::create_dir_all(folder).map_err(at(folder))?;
        for (page, sizes) in (1..).zip(&self.pages) {
            for (n, &bytes) in sizes.iter().enumerate() {
                let path = folder.join(name(page, n));
                write_file(&path, bytes).map_err(at(&path))?;
            }
        }
        let list = folder.join(LIST);
        let head = format!("# SURGE, {} files, seed {seed}\n", self.files());
        std::fs::write(&list, head + &self.list()).map_err(at(&list))
    }
}

/// The name of a page's file; the base file is the one numbered zero.
pub fn name(page: usize, file: usize) -> String {
    if file == 0 {
        format!("{page}")
    } else {
        format!("{page}.{file}")
    }
}

/// A file of this many bytes, which say where in it they are.
fn write_file(path: &Path, bytes: u64) -> std::io::Result<()> {
    const LINE: u64 = 16;
    let mut to = BufWriter::with_capacity(64 * 1024, std::fs::File::create(path)?);
    for at in (0..bytes).step_by(LINE as usize) {
        let line = format!("{at:015x}\n");
        let length = LINE.min(bytes - at) as usize;
        to.write_all(&line.as_bytes()[..length])?;
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_set() {
        for (files, seed) in [(2, 1), (3, 1), (2000, 1), (2001, 9)] {
            let set = Documents::generate(files, seed);
            assert_eq!(set.files(), files as usize);
            assert_eq!(set, Documents::generate(files, seed));
            assert_ne!(set, Documents::generate(files, seed + 1));
            assert_eq!(Documents::parse(&set.list()), Ok(set));
        }
    }

    #[test]
    fn is_written_as_it_is_listed() {
        let folder = std::env::temp_dir().join(format!("exos-surge-{}", std::process::id()));
        let set = Documents::parse("# mine\n5 0\n\n100000 33 17\n").unwrap();
        set.write(&folder, 1).unwrap();
        for (file, length) in [
            ("1", 5),
            ("1.1", 0),
            ("2", 100_000),
            ("2.1", 33),
            ("2.2", 17),
        ] {
            assert_eq!(std::fs::metadata(folder.join(file)).unwrap().len(), length);
        }
        let text = std::fs::read_to_string(folder.join("2.1")).unwrap();
        assert_eq!(text, "000000000000000\n000000000000010\n0");
        let list = std::fs::read_to_string(folder.join(LIST)).unwrap();
        assert_eq!(Documents::parse(&list), Ok(set));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn lists_that_are_none() {
        for (text, part) in [
            ("", "no page"),
            ("# 5\n", "no page"),
            ("5\n6 x\n", "line 2"),
            ("-1\n", "line 1"),
            ("1\n18446744073709551615\n", "line 2: there are more bytes"),
        ] {
            let error = Documents::parse(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn how_often() {
        let set = Documents::parse("1\n1\n1\n1\n1\n").unwrap();
        assert_eq!(set.requests(), [5, 3, 2, 1, 1]);
    }

    proptest! {
        #[test]
        fn any_text(text in "(?s).{0,100}") {
            let _ = Documents::parse(&text);
        }

        #[test]
        fn what_is_written_is_read(pages in prop::collection::vec(prop::collection::vec(0..1u64 << 56, 1..5), 1..20)) {
            let set = Documents { pages };
            prop_assert_eq!(Documents::parse(&set.list()), Ok(set));
        }
    }
}
