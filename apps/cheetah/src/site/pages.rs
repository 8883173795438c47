//! Responses of a site that are no documents: its error pages, its redirects, and the fields that rules add to both.
//!
//! All are made when the site is, or once: error pages when their document comes, redirects to a fixed address at the
//! start, and the text of a set of rules when it is first asked for, of which there are no more than sets of rules that
//! match some path together.

use std::collections::HashMap;
use std::sync::Arc;

use exos_buf::{Buffer, Slice};

use super::document::Document;
use super::page;
use super::rules::fields::RuleSet;
use super::settings::Settings;
use crate::limits::RULE_SETS_MAX;
use crate::message::Status;

/// What is at hand for responses without a document.
#[derive(Debug)]
pub(super) struct Pages {
    settings: Arc<Settings>,
    errors: Vec<(Status, Document)>,
    /// By number of the redirect; `None` for those whose address depends on the path.
    redirects: Vec<Option<Document>>,
    lines: HashMap<RuleSet, Slice>,
}

impl Pages {
    pub(super) fn new(settings: Arc<Settings>) -> Pages {
        let redirects = settings.redirects.all().iter();
        let redirects = redirects.map(|redirect| {
            let made = || page::redirect(redirect.status, &redirect.location(b"", None));
            redirect.is_fixed().then(made)
        });
        Pages {
            redirects: redirects.collect(),
            errors: Vec::new(),
            lines: HashMap::new(),
            settings,
        }
    }

    /// A document has come, or another version of it: the pages that are made of it follow. One that is not in memory
    /// is no page, which has to be at hand.
    pub(super) fn document_changed(&mut self, path: &[u8], document: &Document) {
        if document.long().is_some() {
            return self.document_gone(path);
        }
        for status in self.settings.pages_at(path) {
            self.errors.retain(|(known, _)| *known != status);
            self.errors.push((status, page::like(status, document)));
        }
    }

    /// A document is no longer there: its errors have the server's pages again.
    pub(super) fn document_gone(&mut self, path: &[u8]) {
        for status in self.settings.pages_at(path) {
            self.errors.retain(|(known, _)| *known != status);
        }
    }

    pub(super) fn error(&self, status: Status) -> Option<&Document> {
        let known = self.errors.iter().find(|(known, _)| *known == status);
        known.map(|(_, page)| page)
    }

    /// The answer where a redirect decides about a path.
    pub(super) fn redirect(&self, path: &[u8], query: Option<&[u8]>) -> Option<(Status, Document)> {
        let number = self.settings.redirects.find(path)?;
        let redirect = &self.settings.redirects.all()[number];
        let query = query.filter(|_| redirect.keep_query);
        let answer = match (&self.redirects[number], query) {
            (Some(made), None) => made.clone(),
            _ => page::redirect(redirect.status, &redirect.location(path, query)),
        };
        Some((redirect.status, answer))
    }

    /// The lines that rules add to the responses of a path; `None` when there are none.
    #[inline]
    pub(super) fn rule_fields(&mut self, path: &[u8]) -> Option<Slice> {
        if self.settings.fields.is_empty() {
            return None;
        }
        let set = self.settings.fields.of(path);
        if let Some(lines) = self.lines.get(&set) {
            return Some(lines.clone()).filter(|lines| !lines.is_empty());
        }
        let lines: Slice = Buffer::from(self.settings.fields.lines(set)).into();
        if self.lines.len() < RULE_SETS_MAX {
            self.lines.insert(set, lines.clone());
        }
        Some(lines).filter(|lines| !lines.is_empty())
    }
}
