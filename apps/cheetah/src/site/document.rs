//! One document, as it is sent.
//!
//! # Layout
//!
//! Header fields and content lie behind one another in one buffer, so that a whole response is
//! two slices, its opening and a part of this, and a small one fits one packet. For HTTP/2 the fields are there once more, as
//! parts of header blocks that name nothing of a connection's:
//!
//! ```text
//! a block of HTTP/2 of validators()               | validators_block()
//! one of fields()                                 | fields_block()
//! ETag: "0123456789abcdef"                        |
//! Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT    | validators()
//! [Vary: Accept-Encoding] [fields of rules]       |
//! (empty line)                                    |
//! Content-Type: text/html; charset=utf-8          |            |
//! [Content-Encoding: br]                          |            |
//! Content-Length: 1234                            | fields()   |
//! Accept-Ranges: bytes                            |            | whole()
//! ETag and what follows it above                  |            |
//! (empty line)                                    |            |
//! content                                         | body()     |
//! ```
//!
//! What stands with the validators is what a 304 has to repeat (RFC 9110 §15.4.5).
//!
//! A page made by the server itself has no validators and nothing before `fields()`.
//!
//! Content in memory that processes share ([`FileContent::lent`]) is a buffer of its own, which follows: `whole()` has the fields alone.
//!
//! The content of a [`LongFile`] is not there: `body()` is empty, and what was said about a whole holds for the fields
//! alone. Its entity tag is made of what the file system says about its version.

use std::rc::Rc;
use std::sync::Arc;

use exos_buf::{Buffer, SharedBytes, Slice};

use super::hash::content_hash;
use super::long::{Long, LongFile};
use super::media_type;
use super::path::About;
use super::store::root::Version;
use crate::limits::{MORE_FIELDS_LEN_MAX, RESPONSE_FIELDS_LEN_MAX};
use crate::message::coding::Coding;
use crate::message::date::date_text;
use crate::message::http2::push_lines;

/// The entity tag in `validators()`: after `ETag: `, sixteen digits in quotes.
const TAG: std::ops::Range<usize> = 6..24;
/// The date in `validators()`: after the tag's line end and `Last-Modified: `.
const DATE: std::ops::Range<usize> = 41..70;
/// Follows the date of a document that has variants.
const VARY: &str = "Vary: Accept-Encoding\r\n";

/// What is said about content that becomes a document.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// Its `type/subtype`; a text that is UTF-8 is said to be so. One with parameters stays as it is.
    /// Of coded content it is the type of what was coded.
    pub media_type: &'a str,
    /// The time of its last change in seconds since 1970, which must not lie in the future (RFC
    /// 9110 §8.8.2.1).
    pub modified_secs: u64,
    /// How the content is coded, if it is.
    pub coding: Option<Coding>,
    /// Whether there are other variants of it, of which Accept-Encoding chooses.
    pub vary: bool,
    /// Further header fields, each a line ended by CRLF, for 200 and 206 and also for 304. At most
    /// [`MORE_FIELDS_LEN_MAX`] bytes.
    pub more_fields: &'a str,
}

impl<'a> Description<'a> {
    /// Content as it is, without variants or further fields.
    pub const fn plain(media_type: &'a str, modified_secs: u64) -> Description<'a> {
        Description {
            media_type,
            modified_secs,
            coding: None,
            vary: false,
            more_fields: "",
        }
    }
}

/// Where in a document's bytes its fields for HTTP/2 are: validators from the beginning, then all.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    fields_from: u32,
    end: u32,
}

/// A document on its way to the thread that serves it: laid out and summed, so that what is left to do
/// there does not depend on its length.
#[derive(Clone, Debug)]
pub struct Draft {
    bytes: SharedBytes,
    blocks: Blocks,
    fields_start: u32,
    body_start: u32,
    modified_secs: u64,
    /// The content, where it is in memory that processes share.
    lent: Option<SharedBytes>,
    long: Option<Arc<LongFile>>,
}

/// What was read of a file.
#[derive(Debug)]
pub struct FileContent {
    /// All of it.
    pub bytes: Vec<u8>,
    /// Where it stays, if that is memory that processes share.
    pub lent: Option<SharedBytes>,
}

impl Draft {
    /// What [`Document::new`] makes, on any thread.
    pub fn new(content: &[u8], description: &Description) -> Draft {
        let (not_modified, fields) = heads_of(content, description);
        Draft::assemble(&not_modified, &fields, content, description.modified_secs)
    }

    /// A document of a file: what the file's bytes alone would make, but for where its content is.
    pub fn of_file(content: &FileContent, description: &Description) -> Draft {
        let FileContent { bytes, lent } = content;
        let Some(lent) = lent else {
            return Draft::new(bytes, description);
        };
        let (not_modified, fields) = heads_of(bytes, description);
        lent.prepare_sums();
        Draft {
            lent: Some(lent.clone()),
            ..Draft::assemble(&not_modified, &fields, b"", description.modified_secs)
        }
    }

    /// A document whose content is read while it is sent.
    pub fn long(file: Arc<LongFile>, description: &Description) -> Draft {
        let tag = version_hash(file.version(), description.coding);
        let (not_modified, fields) = heads(tag, "", file.len(), description);
        Draft {
            long: Some(file),
            ..Draft::assemble(&not_modified, &fields, b"", description.modified_secs)
        }
    }

    /// Whether its content is in memory.
    pub fn is_in_memory(&self) -> bool {
        self.long.is_none()
    }

    fn assemble(not_modified: &str, fields: &str, content: &[u8], modified_secs: u64) -> Draft {
        let mut bytes = Vec::with_capacity(2 * (not_modified.len() + fields.len()) + content.len());
        push_lines(&mut bytes, not_modified.as_bytes());
        let fields_from = bytes.len() as u32;
        push_lines(&mut bytes, fields.as_bytes());
        let blocks = Blocks {
            fields_from,
            end: bytes.len() as u32,
        };
        let fields_start = bytes.len() + not_modified.len();
        let body_start = fields_start + fields.len();
        bytes.extend_from_slice(not_modified.as_bytes());
        bytes.extend_from_slice(fields.as_bytes());
        bytes.extend_from_slice(content);
        let bytes = SharedBytes::from(bytes);
        bytes.prepare_sums();
        Draft {
            bytes,
            blocks,
            fields_start: fields_start as u32,
            body_start: body_start as u32,
            modified_secs,
            lent: None,
            long: None,
        }
    }
}

/// The validators and fields of a document of this content.
fn heads_of(content: &[u8], description: &Description) -> (String, String) {
    let tag = content_hash(content, description.coding);
    let charset = match description.coding {
        None => media_type::charset(description.media_type, content),
        Some(_) => "",
    };
    heads(tag, charset, content.len() as u64, description)
}

/// The validators of a document with a tag, and all its fields, each with an empty line at its end.
fn heads(tag: u64, charset: &str, len: u64, description: &Description) -> (String, String) {
    let &Description {
        media_type,
        modified_secs,
        coding,
        vary,
        more_fields,
    } = description;
    assert!(
        more_fields.len() <= MORE_FIELDS_LEN_MAX,
        "checked where the fields come from"
    );
    let date = date_text(modified_secs);
    let vary = if vary { VARY } else { "" };
    let not_modified =
        format!("ETag: \"{tag:016x}\"\r\nLast-Modified: {date}\r\n{vary}{more_fields}\r\n");
    let coding_field = coding.map_or(String::new(), |coding| {
        format!("Content-Encoding: {}\r\n", coding.name())
    });
    let fields = format!(
        "Content-Type: {media_type}{charset}\r\n{coding_field}Content-Length: {len}\r\n\
         Accept-Ranges: bytes\r\n{not_modified}"
    );
    (not_modified, fields)
}

/// The hash of a version by its metadata, without reading its content.
fn version_hash(version: &Version, coding: Option<Coding>) -> u64 {
    let &Version {
        identity: (device, inode),
        len,
        modified,
        changed,
    } = version;
    let times = [modified, changed].map(|(secs, nanos)| [secs as u64, nanos]);
    let words = [[device, inode], [len, 0], times[0], times[1]];
    let bytes: Vec<u8> = words
        .iter()
        .flatten()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    content_hash(&bytes, coding)
}

impl Draft {
    /// What is said of the document where it is not in memory.
    pub fn about(&self) -> About {
        About {
            len: match &self.long {
                Some(file) => file.len(),
                None => {
                    let lent = self.lent.as_ref().map_or(0, SharedBytes::len);
                    (self.bytes.len() + lent) as u64 - u64::from(self.body_start)
                }
            },
            modified_secs: self.modified_secs,
        }
    }

    /// The bytes, for who keeps account of them.
    pub fn bytes(&self) -> impl Iterator<Item = &SharedBytes> {
        [&self.bytes].into_iter().chain(&self.lent)
    }
}

impl From<Draft> for Document {
    fn from(draft: Draft) -> Document {
        Document {
            buffer: draft.bytes.buffer(),
            blocks: draft.blocks,
            fields_start: draft.fields_start,
            body_start: draft.body_start,
            modified_secs: draft.modified_secs,
            lent: draft.lent.map(|lent| lent.buffer()),
            long: draft.long.map(|file| Rc::new(file.into())),
        }
    }
}

/// A document with its header fields; cloning it counts a reference.
#[derive(Clone, Debug)]
pub struct Document {
    buffer: Buffer,
    blocks: Blocks,
    fields_start: u32,
    body_start: u32,
    modified_secs: u64,
    /// The content, if it is in memory that processes share.
    lent: Option<Buffer>,
    /// Where the content is, if it is in no memory.
    long: Option<Rc<Long>>,
}

impl Document {
    /// A document of some content.
    ///
    /// The entity tag is a hash of the content and its coding: equal content, equal tag, whatever
    /// the times of its file.
    pub fn new(content: &[u8], description: &Description) -> Document {
        Document::from(Draft::new(content, description))
    }

    /// A page of HTML that the server itself made, with further header fields, each ended by
    /// CRLF.
    pub fn page(more_fields: &str, html: &str) -> Document {
        Document::made("text/html; charset=utf-8", more_fields, html.as_bytes())
    }

    /// A document of any type that the server itself made; `content_type` is the whole value of the field.
    pub fn made(content_type: &str, more_fields: &str, content: &[u8]) -> Document {
        let len = content.len();
        let fields =
            format!("Content-Type: {content_type}\r\nContent-Length: {len}\r\n{more_fields}\r\n");
        Document::from(Draft::assemble("", &fields, content, 0))
    }

    /// A page with the content and type of a document, and further header fields, each ended by CRLF.
    pub fn page_like(document: &Document, more_fields: &str) -> Document {
        let content_fields = document.content_fields();
        let mut body = Vec::new();
        document.body().append_to(&mut body);
        let fields = format!(
            "{content_fields}Content-Length: {}\r\n{more_fields}\r\n",
            body.len()
        );
        Document::from(Draft::assemble("", &fields, &body, 0))
    }

    /// Header fields and content: what follows the opening of a 200 response to GET. Where the content is [lent](Self::lent_body), it comes behind
    /// this.
    #[inline]
    pub fn whole(&self) -> Slice {
        self.buffer
            .slice(self.fields_start as usize..self.buffer.len())
    }

    /// Header fields with the empty line that ends them: what HEAD is answered with.
    pub fn fields(&self) -> Slice {
        self.buffer
            .slice(self.fields_start as usize..self.body_start as usize)
    }

    /// Entity tag and date, with the empty line that ends them: what a 304 is answered with, and the
    /// end of a 206's fields.
    pub fn validators(&self) -> Slice {
        self.buffer
            .slice(self.blocks.end as usize..self.fields_start as usize)
    }

    /// What [`Document::fields`] says, as a part of a header block of HTTP/2.
    #[inline]
    pub fn fields_block(&self) -> Slice {
        self.buffer
            .slice(self.blocks.fields_from as usize..self.blocks.end as usize)
    }

    /// What [`Document::validators`] says, as a part of a header block of HTTP/2.
    pub fn validators_block(&self) -> Slice {
        self.buffer.slice(0..self.blocks.fields_from as usize)
    }

    /// The content, if it is in memory.
    #[inline]
    pub fn body(&self) -> Slice {
        self.lent_body().unwrap_or_else(|| {
            self.buffer
                .slice(self.body_start as usize..self.buffer.len())
        })
    }

    /// The content, if it is in memory that processes share.
    #[inline]
    pub fn lent_body(&self) -> Option<Slice> {
        self.lent.as_ref().map(Buffer::whole)
    }

    /// The file whose content it has, if that is not in memory.
    #[inline]
    pub fn long(&self) -> Option<&Rc<Long>> {
        self.long.as_ref()
    }

    /// Bytes of its content, wherever that is.
    pub fn content_len(&self) -> u64 {
        match &self.long {
            Some(long) => long.file().len(),
            None => self.body().len() as u64,
        }
    }

    /// The lines of Content-Type and, if it is coded, Content-Encoding, each with its CRLF: what a
    /// part of the document has to say too.
    pub fn content_fields(&self) -> &str {
        let fields = &self.buffer.as_slice()[self.fields_start as usize..self.body_start as usize];
        let fields = str::from_utf8(fields).unwrap_or_default();
        fields
            .split_once("Content-Length: ")
            .map_or("", |(before, _)| before)
    }

    /// Whether the content is coded.
    pub fn is_coded(&self) -> bool {
        self.content_fields().contains("\r\nContent-Encoding: ")
    }

    /// Whether there are other variants of it.
    pub fn varies(&self) -> bool {
        let validators = self.validators_text();
        let added = validators.get(DATE.end + 2..);
        added.is_some_and(|added| added.starts_with(VARY.as_bytes()))
    }

    /// The buffer that all of these are parts of.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Seconds since 1970 of the last change.
    pub fn modified_secs(&self) -> u64 {
        self.modified_secs
    }

    /// What is said of it where it is not in memory.
    pub fn about(&self) -> About {
        About {
            len: self.content_len(),
            modified_secs: self.modified_secs,
        }
    }

    /// The entity tag, quotes included; empty for a page of the server's own.
    pub fn entity_tag(&self) -> &[u8] {
        self.validator(TAG)
    }

    /// The date of the last change as it is sent; empty for a page of the server's own.
    pub fn last_modified(&self) -> &[u8] {
        self.validator(DATE)
    }

    fn validator(&self, place: std::ops::Range<usize>) -> &[u8] {
        self.validators_text().get(place).unwrap_or(b"")
    }

    fn validators_text(&self) -> &[u8] {
        &self.buffer.as_slice()[self.blocks.end as usize..self.fields_start as usize]
    }
}

/// The longest content that fits a buffer together with its fields.
pub const CONTENT_LEN_MAX: usize = exos_buf::limits::BUFFER_LEN_MAX - RESPONSE_FIELDS_LEN_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(slice: &Slice) -> &str {
        str::from_utf8(slice.as_bytes()).unwrap()
    }

    #[test]
    fn the_parts_of_a_document_lie_where_they_should() {
        let document = Document::new(b"<p>hi", &Description::plain("text/html", 784_111_777));
        let tag = str::from_utf8(document.entity_tag()).unwrap();
        assert_eq!(tag.len(), 18);
        assert_eq!(document.last_modified(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        let validators =
            format!("ETag: {tag}\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n");
        let fields = format!(
            "Content-Type: text/html; charset=utf-8\r\nContent-Length: 5\r\n\
             Accept-Ranges: bytes\r\n{validators}"
        );
        assert_eq!(text(&document.validators()), validators);
        assert_eq!(text(&document.fields()), fields);
        assert_eq!(text(&document.body()), "<p>hi");
        assert_eq!(text(&document.whole()), fields.clone() + "<p>hi");
        for (block, lines) in [
            (document.validators_block(), &validators),
            (document.fields_block(), &fields),
        ] {
            let mut wanted = Vec::new();
            push_lines(&mut wanted, lines.as_bytes());
            assert_eq!(block.as_bytes(), wanted);
        }
        assert!(!document.is_coded() && !document.varies());
        assert_eq!(
            document.content_fields(),
            "Content-Type: text/html; charset=utf-8\r\n"
        );
    }

    #[test]
    fn coding_is_said_with_the_content_and_vary_with_the_validators() {
        let description = Description {
            media_type: "text/html; charset=utf-8",
            modified_secs: 784_111_777,
            coding: Some(Coding::Br),
            vary: true,
            more_fields: "Cache-Control: no-cache\r\nX-Frame-Options: DENY\r\n",
        };
        let document = Document::new(b"\x0b\x02\x80", &description);
        let tag = str::from_utf8(document.entity_tag()).unwrap();
        let validators = format!(
            "ETag: {tag}\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Vary: Accept-Encoding\r\nCache-Control: no-cache\r\nX-Frame-Options: DENY\r\n\r\n"
        );
        assert_eq!(text(&document.validators()), validators);
        assert!(document.is_coded() && document.varies());
        assert_eq!(
            text(&document.fields()),
            format!(
                "Content-Type: text/html; charset=utf-8\r\nContent-Encoding: br\r\n\
                 Content-Length: 3\r\nAccept-Ranges: bytes\r\n{validators}"
            )
        );
    }

    /// Two variants of a document never share a tag, even where somebody stored the same bytes
    /// under both names (RFC 9110 §8.8.3.3).
    #[test]
    fn equal_bytes_in_different_codings_have_different_tags() {
        let codings = [None].into_iter().chain(Coding::ALL.map(Some));
        let tags: Vec<Vec<u8>> = codings
            .map(|coding| {
                let plain = Description::plain("text/plain", 0);
                let description = Description { coding, ..plain };
                Document::new(b"same", &description).entity_tag().to_vec()
            })
            .collect();
        for (at, tag) in tags.iter().enumerate() {
            assert!(!tags[at + 1..].contains(tag), "{at}");
        }
    }

    #[test]
    fn tags_follow_the_content() {
        let tag = |content: &[u8]| {
            Document::new(content, &Description::plain("text/plain", 0))
                .entity_tag()
                .to_vec()
        };
        assert_eq!(tag(b"same"), tag(b"same"));
        let different: &[&[u8]] = &[
            b"",
            b"\0",
            b"\0\0",
            b"a",
            b"a\0",
            b"12345678",
            b"12345678\0",
        ];
        for (at, one) in different.iter().enumerate() {
            for other in &different[at + 1..] {
                assert_ne!(tag(one), tag(other), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_page_like_a_document_has_its_type_and_content() {
        let document = Document::new(b"{}", &Description::plain("application/json", 0));
        let page = Document::page_like(&document, "Allow: GET\r\n");
        let head = "Content-Type: application/json\r\nContent-Length: 2\r\nAllow: GET\r\n\r\n";
        assert_eq!(text(&page.fields()), head);
        assert_eq!(text(&page.whole()), format!("{head}{{}}"));
        assert_eq!(page.entity_tag(), b"");
    }

    #[test]
    fn pages_have_no_validators() {
        let page = Document::page("Allow: GET\r\n", "x");
        assert_eq!(
            (page.entity_tag(), page.last_modified()),
            (&b""[..], &b""[..])
        );
        assert!(text(&page.whole()).ends_with("Content-Length: 1\r\nAllow: GET\r\n\r\nx"));
    }
}
