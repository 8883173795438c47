//! A document together with its coded variants.
//!
//! Beside `x.html` may lie `x.html.br`, `x.html.zst` and `x.html.gz`: the same, compressed
//! beforehand. A client that takes a coding is sent the variant, with the original's media type, an
//! entity tag of its own, and `Vary: Accept-Encoding`, which the original then has too. Ranges are of
//! the bytes of the variant, and preconditions compare its tag: the choice comes before both, and
//! depends on nothing but Accept-Encoding. The coded file itself remains a document under its own
//! name, of its own media type, as nginx's gzip_static has it; so its bytes are in memory twice.
//!
//! Of the variants that a client wants most, the smallest is sent: we know what each of them came
//! to, so no order of the codings has to guess it. At equal sizes the order is br, zstd, gzip.

use std::cmp::Reverse;
use std::rc::Rc;

use super::document::Document;
use crate::message::Coding;
use crate::message::accept::Accepted;

/// A document and its coded variants, of which most documents have none.
#[derive(Clone, Debug)]
pub struct Variants {
    plain: Document,
    coded: Option<Rc<[(Coding, Document)]>>,
}

impl From<Document> for Variants {
    fn from(plain: Document) -> Variants {
        Variants { plain, coded: None }
    }
}

impl Variants {
    /// A document with coded variants, which may be none.
    pub fn new(plain: Document, coded: Vec<(Coding, Document)>) -> Variants {
        let coded = (!coded.is_empty()).then(|| coded.into());
        Variants { plain, coded }
    }

    /// The document as it is.
    pub fn plain(&self) -> &Document {
        &self.plain
    }

    /// The variants other than the document as it is.
    pub fn coded(&self) -> &[(Coding, Document)] {
        self.coded.as_deref().unwrap_or(&[])
    }

    /// The variant for a client; `accepted` reads what it takes, and is called only if there is a
    /// choice.
    #[inline]
    pub fn choose(&self, accepted: impl FnOnce() -> Option<Accepted>) -> &Document {
        match &self.coded {
            None => &self.plain,
            Some(coded) => accepted()
                .and_then(|accepted| best(coded, &self.plain, &accepted))
                .unwrap_or(&self.plain),
        }
    }
}

/// The coded variant that a client wants more than the document as it is.
fn best<'a>(
    coded: &'a [(Coding, Document)],
    plain: &Document,
    accepted: &Accepted,
) -> Option<&'a Document> {
    let wanted = coded.iter().filter_map(|&(coding, ref document)| {
        let rank = (accepted.weight(coding), Reverse(len(document)));
        (rank.0 > 0).then_some((rank, Reverse(coding as u8), document))
    });
    let (rank, _, document) = wanted.max_by_key(|&(rank, order, _)| (rank, order))?;
    let is_better = match accepted.identity() {
        Some(weight) => rank > (weight, Reverse(len(plain))),
        None => len(document) < len(plain),
    };
    is_better.then_some(document)
}

fn len(document: &Document) -> u64 {
    document.content_len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Description;

    /// Variants of these lengths; `plain` has 100 bytes.
    fn variants(lens: &[(Coding, usize)]) -> Variants {
        let document = |coding, len| {
            let description = Description {
                coding,
                vary: true,
                ..Description::plain("text/plain", 0)
            };
            Document::new(&vec![b'a'; len], &description)
        };
        let coded = lens
            .iter()
            .map(|&(coding, len)| (coding, document(Some(coding), len)));
        Variants::new(document(None, 100), coded.collect())
    }

    fn chosen(variants: &Variants, field: &str) -> usize {
        let accepted = || Some(Accepted::parse([field.as_bytes()]));
        variants.choose(accepted).body().len()
    }

    #[test]
    fn the_smallest_of_the_most_wanted_is_chosen() {
        use Coding::{Br, Gzip, Zstd};
        let usual = variants(&[(Br, 30), (Zstd, 40), (Gzip, 50)]);
        for (field, len) in [
            ("gzip, deflate, br, zstd", 30),
            ("gzip, zstd", 40),
            ("gzip", 50),
            ("br;q=0.5, gzip", 50),
            ("br;q=0, *", 40),
            ("*", 30),
            ("*;q=0", 100),
            ("", 100),
            ("deflate", 100),
            ("identity", 100),
            ("identity, gzip", 50),
            ("identity;q=0.5, gzip;q=0.4", 100),
            ("gzip;q=0.001", 50),
            ("identity;q=0, gzip;q=0.1", 50),
            ("identity;q=0", 100), // Nothing is acceptable.
        ] {
            assert_eq!(chosen(&usual, field), len, "{field}");
        }
        let badly_pressed = variants(&[(Br, 60), (Gzip, 50)]);
        assert_eq!(chosen(&badly_pressed, "br, gzip"), 50);
    }

    #[test]
    fn at_equal_sizes_the_order_of_the_codings_decides() {
        use Coding::{Br, Gzip, Zstd};
        for coded in [
            [(Gzip, 50), (Zstd, 50), (Br, 50)],
            [(Br, 50), (Gzip, 50), (Zstd, 50)],
        ] {
            let variants = variants(&coded);
            let tag = |coding| {
                let mut all = variants.coded().iter();
                all.find(|(known, _)| *known == coding)
                    .unwrap()
                    .1
                    .entity_tag()
            };
            let chosen = |field: &str| {
                let accepted = || Some(Accepted::parse([field.as_bytes()]));
                variants.choose(accepted).entity_tag()
            };
            assert_eq!(chosen("gzip, zstd, br"), tag(Br));
            assert_eq!(chosen("gzip, zstd"), tag(Zstd));
        }
    }

    /// What has grown by being compressed is sent only to who refuses the original.
    #[test]
    fn a_variant_that_is_no_smaller_is_a_last_resort() {
        let grown = variants(&[(Coding::Gzip, 100)]);
        assert_eq!(chosen(&grown, "gzip;q=0.5, identity;q=0"), 100);
        let tag = |field: &str| {
            let accepted = || Some(Accepted::parse([field.as_bytes()]));
            grown.choose(accepted).entity_tag().to_vec()
        };
        assert_eq!(tag("gzip"), grown.plain().entity_tag());
        assert_eq!(tag("*"), grown.plain().entity_tag());
        assert_eq!(tag("gzip, *;q=0"), grown.coded()[0].1.entity_tag());
        assert_eq!(tag("gzip, identity;q=0.5"), grown.coded()[0].1.entity_tag());
    }

    #[test]
    fn without_variants_or_without_the_field_nothing_is_read() {
        let alone = Variants::from(variants(&[]).plain().clone());
        alone.choose(|| unreachable!("there is nothing to choose"));
        let with = variants(&[(Coding::Br, 10)]);
        assert_eq!(with.choose(|| None).body().len(), 100);
    }
}
