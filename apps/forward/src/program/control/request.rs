//! What can be asked over the control socket.

use serde::{Deserialize, Serialize};

use crate::statistics;

/// The schema of answers; see docs/json.md.
const SCHEMA: &str = "exos.forward.control/1";

/// What is asked.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
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
    /// Another weight.
    Weigh,
    /// What its file says now.
    Reload,
    /// To end, for who asks to take its place.
    HandOver,
}

/// A request, as it is on a line.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
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
    /// Its weight from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// Its flows end now.
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

/// An answer: whether it was done, and what there is to say.
#[derive(Serialize)]
struct Answer<T> {
    schema: &'static str,
    ok: bool,
    #[serde(flatten)]
    fields: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The line that answers a request with these fields, or says why it cannot be done.
pub fn answer(outcome: Result<impl Serialize, String>) -> String {
    let ok = outcome.is_ok();
    let (fields, error) = match outcome {
        Ok(fields) => (Some(fields), None),
        Err(error) => (None, Some(error)),
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
    answer(Err::<(), _>(error))
}
