//! A session: one stage, and the servers that are there.

use super::args::HttpArgs;
use crate::stage::web::{Server, WebStage};

/// A session: servers in a lab, with what each calls itself.
pub(super) struct Session<'a> {
    pub(super) args: &'a HttpArgs,
    pub(super) web: WebStage,
    pub(super) servers: Vec<Server>,
}

impl std::ops::Deref for Session<'_> {
    type Target = WebStage;

    fn deref(&self) -> &WebStage {
        &self.web
    }
}
