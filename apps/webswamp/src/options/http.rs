//! The version of HTTP that a load speaks, and what it has no place for.

use clap::ValueEnum as _;
use exos_host::{Error, Result};

use crate::http2::{self, NOT_SENT};
use crate::http3;
use crate::limits::STREAMS_MAX;
use crate::request::Version;

/// Options about the version of HTTP.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct HttpArgs {
    /// Version of HTTP. 2 is agreed on by ALPN with https URLs, and spoken at once (h2c) with http URLs; 3 is spoken over QUIC,
    /// with https URLs, to the UDP port of the URL's number
    #[arg(long, value_name = "VERSION", value_enum, default_value_t)]
    pub(crate) http: Version,
    /// With --http 2 or 3, most unanswered requests on a connection at once, each on a stream: in a closed loop, its clients
    /// [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(STREAMS_MAX)))]
    pub(crate) streams: Option<u32>,
}

impl HttpArgs {
    /// Streams of a connection, over HTTP/2 and HTTP/3.
    pub(crate) fn streams(&self) -> Option<u32> {
        let has_streams = matches!(self.http, Version::Http2 | Version::Http3);
        has_streams.then(|| self.streams.unwrap_or(1))
    }

    /// It is HTTP/3 that is spoken.
    pub(crate) fn is_http3(&self) -> bool {
        self.http == Version::Http3
    }

    /// The version, as it is given.
    pub(crate) fn name(&self) -> String {
        let value = self.http.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What is offered in a handshake of TLS (RFC 7301 §6).
    pub(crate) fn protocol(&self) -> &'static str {
        match self.http {
            Version::Http10 | Version::Http11 => "http/1.1",
            Version::Http2 => http2::ALPN,
            Version::Http3 => http3::ALPN,
        }
    }

    /// What a server has to have agreed on in a handshake; HTTP/1 is spoken with one that says nothing, too.
    pub(crate) fn needed(&self) -> Option<&'static [u8]> {
        (self.http == Version::Http2).then(|| self.protocol().as_bytes())
    }

    /// Refuses what HTTP/2 and HTTP/3 have no place for, and what has none without them.
    ///
    /// # Errors
    ///
    /// There is some.
    pub(crate) fn check(
        &self,
        pipeline: u32,
        early_finish: bool,
        headers: &[(String, String)],
    ) -> Result<()> {
        let refuse = |what: &str, mend: &str| Err(Error::new(what).mend(mend));
        match self.streams() {
            None if self.streams.is_some() => refuse(
                "HTTP/1 has no streams",
                "give --http 2 or --http 3, or leave --streams out",
            ),
            None => Ok(()),
            Some(_) if pipeline > 1 => refuse(
                &format!("HTTP/{} has no pipelining", self.name()),
                "give --streams in place of --pipeline",
            ),
            Some(_) if early_finish && self.is_http3() => refuse(
                "HTTP/3 has no FIN that could go with a request",
                "leave --early-finish out",
            ),
            Some(_) if early_finish => refuse(
                "over HTTP/2 a FIN cannot go with a request, whose windows are opened later",
                "leave --early-finish out",
            ),
            Some(_) => match headers.iter().find(|(name, _)| is_of_connection(name)) {
                None => Ok(()),
                Some((name, _)) => refuse(
                    &format!(
                        "HTTP/{} has no header field {name}: connections are the frames' to say",
                        self.name()
                    ),
                    "leave it out",
                ),
            },
        }
    }
}

fn is_of_connection(name: &str) -> bool {
    let is_host = name.eq_ignore_ascii_case("host");
    !is_host && NOT_SENT.iter().any(|it| it.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(http: Version, streams: Option<u32>, pipeline: u32, header: Option<&str>) -> String {
        let args = HttpArgs { http, streams };
        let headers = header.map(|name| (name.to_owned(), String::new()));
        let headers: Vec<(String, String)> = headers.into_iter().collect();
        let checked = args.check(pipeline, false, &headers);
        checked.map_or_else(|e| e.to_string(), |()| String::new())
    }

    #[test]
    fn what_has_no_place() {
        use Version::{Http2, Http3, Http11};
        for (http, streams, pipeline, header, part) in [
            (Http11, None, 4, Some("Connection"), ""),
            (Http11, Some(4), 1, None, "no streams"),
            (Http3, Some(4), 1, None, ""),
            (Http3, None, 2, None, "HTTP/3 has no pipelining"),
            (Http2, None, 1, Some("Host"), ""),
            (Http2, Some(4), 1, Some("TE"), ""),
            (Http2, Some(4), 2, None, "no pipelining"),
            (
                Http2,
                None,
                1,
                Some("Connection"),
                "no header field Connection",
            ),
            (Http2, None, 1, Some("transfer-encoding"), "no header field"),
        ] {
            let said = said(http, streams, pipeline, header);
            assert!(
                said.contains(part) && said.is_empty() == part.is_empty(),
                "{said}"
            );
        }
    }
}
