//! Pages that the server makes by itself: of errors, redirects, and the answer to OPTIONS.

use super::document::Document;
use crate::message::Status;

/// The methods that documents have.
const ALLOW: &str = "Allow: GET, HEAD, OPTIONS\r\n";

/// The page of a status; those of 200, 206 and 304 are never sent.
pub fn of(status: Status) -> Document {
    Document::page(fields(status), &text(status))
}

/// The page of an error with the content of a document.
pub fn like(status: Status, document: &Document) -> Document {
    Document::page_like(document, fields(status))
}

/// The answer to OPTIONS.
pub fn allowed() -> Document {
    Document::page(ALLOW, "")
}

/// Plain text, for programs.
pub fn plain(text: &str) -> Document {
    Document::made("text/plain", "", text.as_bytes())
}

/// The page of a redirect.
pub fn redirect(status: Status, location: &str) -> Document {
    Document::page(&format!("Location: {location}\r\n"), &text(status))
}

/// The fields that a status asks for.
const fn fields(status: Status) -> &'static str {
    match status {
        Status::MethodNotAllowed => ALLOW, // RFC 9110 §15.5.6
        _ => "",
    }
}

fn text(status: Status) -> String {
    let (code, reason, explanation) = (status.code(), status.reason(), status.explanation());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<title>{code} {reason}</title>\n\
         <h1>{code} {reason}</h1>\n<p>{explanation}</p>\n</html>\n"
    )
}
