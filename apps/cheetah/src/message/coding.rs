//! Content codings: how a document may be compressed for the way (RFC 9110 §8.4.1).

/// A content coding that documents are stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Coding {
    /// Brotli (RFC 7932).
    Br,
    /// Zstandard (RFC 8878).
    Zstd,
    /// gzip (RFC 1952).
    Gzip,
}

impl Coding {
    /// All codings.
    pub const ALL: [Coding; 3] = [Coding::Br, Coding::Zstd, Coding::Gzip];

    /// Its name in Content-Encoding and Accept-Encoding.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Br => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// What follows the name of a file in the name of its coded variant.
    pub const fn extension(self) -> &'static str {
        match self {
            Coding::Br => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }

    /// The name of what a file is a coded variant of; `None` if by its name it is none.
    pub fn of_name(name: &[u8]) -> Option<(&[u8], Coding)> {
        Coding::ALL.into_iter().find_map(|coding| {
            let original = name.strip_suffix(coding.extension().as_bytes())?;
            (!original.is_empty() && !original.ends_with(b"/")).then_some((original, coding))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_the_name_of_the_original_and_an_extension() {
        for (name, want) in [
            ("a.html.br", Some(("a.html", Coding::Br))),
            ("/a/b.zst", Some(("/a/b", Coding::Zstd))),
            ("a.tar.gz", Some(("a.tar", Coding::Gzip))),
            ("a.gz.br", Some(("a.gz", Coding::Br))),
            ("a.html", None),
            ("a.GZ", None),
            ("/a/.br", None),
            (".gz", None),
            ("gz", None),
        ] {
            let got = Coding::of_name(name.as_bytes());
            let want = want.map(|(name, coding)| (name.as_bytes(), coding));
            assert_eq!(got, want, "{name}");
        }
    }
}
