//! The status codes that this server sends (RFC 9110 §15).

/// What is said of a status.
struct About {
    code: u16,
    reason: &'static str,
    explanation: &'static str,
    counter: &'static str,
}

/// Declares the statuses, a row for each: code, name, the reason phrase of RFC 9110 or RFC 6585, and one sentence for the
/// person who sees the page.
macro_rules! statuses {
    ($($code:literal $name:ident, $reason:literal, $explanation:expr;)*) => {
        /// A response status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Status {
            $(#[doc = stringify!($code)] $name,)*
        }

        impl Status {
            /// Every status, in the order of their numbers; `Status::ALL[s as usize] == s`.
            pub const ALL: [Status; ABOUT.len()] = [$(Status::$name,)*];
        }

        const ABOUT: [About; [$($code,)*].len()] = [$(About {
            code: $code,
            reason: $reason,
            explanation: $explanation,
            counter: concat!("http_responses_", $code),
        },)*];
    };
}

const MOVED: &str = "The document is at the address in the Location field.";

statuses! {
    200 Ok, "OK", "";
    206 PartialContent, "Partial Content", "";
    301 MovedPermanently, "Moved Permanently", MOVED;
    302 Found, "Found", MOVED;
    304 NotModified, "Not Modified", "";
    307 TemporaryRedirect, "Temporary Redirect", MOVED;
    308 PermanentRedirect, "Permanent Redirect", MOVED;
    400 BadRequest, "Bad Request", "The request does not follow the rules of HTTP.";
    401 Unauthorized, "Unauthorized", "This address is for those who have a password.";
    403 Forbidden, "Forbidden", "This address exists but is not open to reading.";
    404 NotFound, "Not Found", "There is no document at this address.";
    405 MethodNotAllowed, "Method Not Allowed", "Documents here can be read with GET and HEAD.";
    408 RequestTimeout, "Request Timeout", "The request did not arrive in time.";
    411 LengthRequired, "Length Required", "A request body needs a Content-Length here.";
    412 PreconditionFailed, "Precondition Failed", "The document is not the version that the request asked for.";
    413 ContentTooLarge, "Content Too Large", "The request body is longer than this server reads.";
    414 UriTooLong, "URI Too Long", "The address is longer than this server reads.";
    416 RangeNotSatisfiable, "Range Not Satisfiable", "The document ends before the part that was asked for.";
    417 ExpectationFailed, "Expectation Failed", "The request expects something that this server does not know.";
    421 MisdirectedRequest, "Misdirected Request", "This server does not answer for the host in the request.";
    425 TooEarly, "Too Early", "The request came before the connection was secured; send it again.";
    429 TooManyRequests, "Too Many Requests", "There were too many requests from your address; try again later.";
    431 HeaderFieldsTooLarge, "Request Header Fields Too Large", "The request's header is longer than this server reads.";
    500 InternalServerError, "Internal Server Error", "The document could not be read this time.";
    501 NotImplemented, "Not Implemented", "This server does not know the method or transfer coding.";
    502 BadGateway, "Bad Gateway", "The application behind this address gave no answer that could be understood.";
    503 ServiceUnavailable, "Service Unavailable", "The server has too much to do at the moment.";
    504 GatewayTimeout, "Gateway Timeout", "The application behind this address did not answer in time.";
    505 VersionNotSupported, "HTTP Version Not Supported", "This server speaks HTTP/1.0, HTTP/1.1, and HTTP/2.";
}

impl Status {
    const fn about(self) -> &'static About {
        &ABOUT[self as usize]
    }

    /// The three-digit code.
    pub const fn code(self) -> u16 {
        self.about().code
    }

    /// The reason phrase.
    pub const fn reason(self) -> &'static str {
        self.about().reason
    }

    /// One sentence for the person who sees the error page.
    pub const fn explanation(self) -> &'static str {
        self.about().explanation
    }

    /// The name of the counter of responses with this status.
    pub const fn counter(self) -> &'static str {
        self.about().counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_order_and_counters_carry_the_code() {
        for (index, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, index);
            assert!(
                status.counter().ends_with(&status.code().to_string()),
                "{status:?}"
            );
        }
        assert!(Status::ALL.is_sorted_by_key(|status| status.code()));
    }
}
