//! What a site is told about its documents: plain values, made once and shared by all who load or serve it.

use std::collections::HashMap;

use super::document::Description;
use super::media_type;
use super::rules::fields::FieldRules;
use super::rules::redirect::Redirects;
use crate::applications;
use crate::message::Status;
use crate::site::rules::access::AccessRules;

/// How the documents of a site are found, named and sent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names of the document that a directory is answered with, the preferred one first.
    pub index: Vec<String>,
    /// Whether a directory without one is answered with a list of what is in it.
    pub listing: bool,
    /// Types by extension.
    pub types: MediaTypes,
    /// Header fields by path.
    pub fields: FieldRules,
    /// Redirects by path.
    pub redirects: Redirects,
    /// Plain requests are sent to this port, by HTTPS.
    pub https_only: Option<u16>,
    /// Who may have what, by path.
    pub access: AccessRules,
    /// Which requests are for applications.
    pub applications: applications::Rules,
    /// Paths of the documents that are sent as error pages.
    pub error_pages: Vec<(Status, String)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            index: vec!["index.html".to_owned()],
            listing: false,
            types: MediaTypes::default(),
            fields: FieldRules::default(),
            redirects: Redirects::default(),
            https_only: None,
            access: AccessRules::default(),
            applications: applications::Rules::default(),
            error_pages: Vec::new(),
        }
    }
}

impl Settings {
    /// How a document at a path is sent.
    pub fn manner(&self, path: &[u8]) -> Manner {
        Manner {
            media_type: self.types.of(path).to_owned(),
            more_fields: self.fields.lines(self.fields.of(path)),
            is_redirected: self.redirects.find(path).is_some(),
        }
    }

    /// The statuses whose page is the document at a path.
    pub fn pages_at(&self, path: &[u8]) -> impl Iterator<Item = Status> {
        let pages = self.error_pages.iter();
        let here = pages.filter(move |(_, page)| page.as_bytes() == path);
        here.map(|&(status, _)| status)
    }
}

/// How a document is sent: what depends on its path, beside its content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Manner {
    /// Its media type.
    pub media_type: String,
    /// The lines that rules add to its header fields.
    pub more_fields: String,
    /// A redirect comes before it, so that no other path can have what is there.
    pub is_redirected: bool,
}

impl Manner {
    /// What is said of content without variants.
    pub fn description(&self, modified_secs: u64) -> Description<'_> {
        Description {
            more_fields: &self.more_fields,
            ..Description::plain(&self.media_type, modified_secs)
        }
    }
}

/// Media types by extension, where they are other than the table's.
#[derive(Clone, Debug, Default)]
pub struct MediaTypes(HashMap<String, String>);

impl MediaTypes {
    /// Names the type of an extension, which is without its dot; its case does not count.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn set(&mut self, extension: &str, media_type: &str) -> Result<(), String> {
        if extension.is_empty() || extension.contains(['.', '/']) {
            return Err(format!(
                "{extension:?} is no extension; write it without dots, as \"wasm\""
            ));
        }
        check(media_type)?;
        self.0
            .insert(extension.to_ascii_lowercase(), media_type.to_owned());
        Ok(())
    }

    /// The media type of a file name.
    pub fn of(&self, name: &[u8]) -> &str {
        let own = media_type::extension(name).and_then(|extension| self.0.get(&extension));
        own.map_or_else(|| media_type::of(name), String::as_str)
    }
}

/// `type/subtype`, parameters allowed (RFC 9110 §8.3.1).
fn check(media_type: &str) -> Result<(), String> {
    let is_token = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    let (essence, parameters) = media_type.split_once(';').unwrap_or((media_type, ""));
    let (kind, subtype) = essence.trim_end().split_once('/').unwrap_or_default();
    let is_plain = parameters.bytes().all(|b| (0x20..0x7f).contains(&b));
    if is_token(kind) && is_token(subtype) && is_plain && media_type.len() <= 255 {
        return Ok(());
    }
    Err(format!(
        "{media_type:?} is no media type; write one as \"text/html\" or \"text/plain; charset=iso-8859-1\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_types_come_before_the_table() {
        let mut types = MediaTypes::default();
        types.set("TXT", "text/plain; charset=iso-8859-1").unwrap();
        types.set("gmi", "text/gemini").unwrap();
        assert_eq!(types.of(b"/a.txt"), "text/plain; charset=iso-8859-1");
        assert_eq!(types.of(b"/a.GMI"), "text/gemini");
        assert_eq!(types.of(b"/a.html"), "text/html");
        assert_eq!(types.of(b"/gmi"), media_type::UNKNOWN);
    }

    #[test]
    fn types_are_types() {
        let mut types = MediaTypes::default();
        for bad in [
            "",
            "text",
            "/",
            "text/",
            "text/html\r\nA: b",
            "text/html, text/x",
            "a b/c",
            "text/x; \u{e9}",
        ] {
            assert!(types.set("x", bad).is_err(), "{bad:?}");
        }
        for bad in ["", ".txt", "a/b"] {
            assert!(types.set(bad, "text/plain").is_err(), "{bad:?}");
        }
    }
}
