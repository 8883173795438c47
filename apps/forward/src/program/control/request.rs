//! What can be asked over the control socket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::program::statistics;

/// The schema of answers.
const SCHEMA: &str = "exos.forward.control/1";

/// What is asked.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// How it is.
    Status,
    /// A server more.
    Add,
    /// A server less.
    Remove,
    /// No new flows for a server.
    Drain,
    /// New flows again.
    Resume,
    /// Another weight for a server.
    Weigh,
    /// Read the file of `--config` again.
    Reload,
    /// End, for a forwarder that takes its place; the connection ends when all is given up.
    HandOver,
}

/// A request, as it is on a line.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What is asked.
    pub request: Kind,
    /// Which server: `ADDRESS`, with the port of each listener, or `ADDRESS:PORT`. To be added also with `,WEIGHT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Behind which listener: `tcp:ADDRESS:PORT` or `udp:ADDRESS:PORT`. All of its family when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
    /// For `weigh`, from 0 to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// For `remove`: its flows end now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
}

impl Request {
    /// One that says no more than this.
    pub fn of(request: Kind) -> Self {
        Self {
            request,
            server: None,
            listener: None,
            weight: None,
            now: false,
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    ///
    /// It is no request.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let help =
            r#"write for example {"request":"status"} or {"request":"drain","server":"192.0.2.8"}"#;
        serde_json::from_slice(line).map_err(|e| format!("this is no request: {e}; {help}"))
    }
}

/// An answer, on one line. Fields of other answers are left out.
#[derive(Serialize, JsonSchema)]
pub struct Answer<'a> {
    /// `"exos.forward.control/1"`.
    schema: &'static str,
    /// Whether it was done; what cannot be done changes nothing.
    ok: bool,
    #[serde(flatten)]
    fields: Fields<'a>,
    /// When it was not done: why, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What there is to say beside that.
#[derive(Default, Serialize, JsonSchema)]
pub struct Fields<'a> {
    /// Behind which listeners a server was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listeners: Option<Vec<String>>,
    /// What a reload has changed, in words; or that the file is followed when the names in it are resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reloaded: Option<String>,
    /// It ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hands_over: Option<bool>,
    /// The status, an object as of [`exos forward --json`](#exos-forward---json).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub status: Option<statistics::Report<'a>>,
}

/// The line that answers a request with these fields, or says why it cannot be done.
pub fn answer(outcome: Result<Fields<'_>, String>) -> String {
    let ok = outcome.is_ok();
    let (fields, error) = match outcome {
        Ok(fields) => (fields, None),
        Err(error) => (Fields::default(), Some(error)),
    };
    statistics::line(&Answer {
        schema: SCHEMA,
        ok,
        fields,
        error,
    })
}

/// The line that refuses a request, for this reason.
pub fn refuse(error: String) -> String {
    answer(Err(error))
}
