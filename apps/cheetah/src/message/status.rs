//! The status codes that this server sends (RFC 9110 §15).

/// A response status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// 200
    Ok,
    /// 206
    PartialContent,
    /// 301
    MovedPermanently,
    /// 302
    Found,
    /// 304
    NotModified,
    /// 307
    TemporaryRedirect,
    /// 308
    PermanentRedirect,
    /// 400
    BadRequest,
    /// 401
    Unauthorized,
    /// 403
    Forbidden,
    /// 404
    NotFound,
    /// 405
    MethodNotAllowed,
    /// 408
    RequestTimeout,
    /// 411
    LengthRequired,
    /// 412
    PreconditionFailed,
    /// 413
    ContentTooLarge,
    /// 414
    UriTooLong,
    /// 416
    RangeNotSatisfiable,
    /// 417
    ExpectationFailed,
    /// 421
    MisdirectedRequest,
    /// 429
    TooManyRequests,
    /// 431
    HeaderFieldsTooLarge,
    /// 500
    InternalServerError,
    /// 501
    NotImplemented,
    /// 503
    ServiceUnavailable,
    /// 505
    VersionNotSupported,
}

use Status::*;

impl Status {
    /// Every status, in the order of their numbers; `Status::ALL[s as usize] == s`.
    pub const ALL: [Status; 26] = [
        Ok,
        PartialContent,
        MovedPermanently,
        Found,
        NotModified,
        TemporaryRedirect,
        PermanentRedirect,
        BadRequest,
        Unauthorized,
        Forbidden,
        NotFound,
        MethodNotAllowed,
        RequestTimeout,
        LengthRequired,
        PreconditionFailed,
        ContentTooLarge,
        UriTooLong,
        RangeNotSatisfiable,
        ExpectationFailed,
        MisdirectedRequest,
        TooManyRequests,
        HeaderFieldsTooLarge,
        InternalServerError,
        NotImplemented,
        ServiceUnavailable,
        VersionNotSupported,
    ];

    /// The three-digit code.
    pub const fn code(self) -> u16 {
        match self {
            Ok => 200,
            PartialContent => 206,
            MovedPermanently => 301,
            Found => 302,
            NotModified => 304,
            TemporaryRedirect => 307,
            PermanentRedirect => 308,
            BadRequest => 400,
            Unauthorized => 401,
            Forbidden => 403,
            NotFound => 404,
            MethodNotAllowed => 405,
            RequestTimeout => 408,
            LengthRequired => 411,
            PreconditionFailed => 412,
            ContentTooLarge => 413,
            UriTooLong => 414,
            RangeNotSatisfiable => 416,
            ExpectationFailed => 417,
            MisdirectedRequest => 421,
            TooManyRequests => 429,
            HeaderFieldsTooLarge => 431,
            InternalServerError => 500,
            NotImplemented => 501,
            ServiceUnavailable => 503,
            VersionNotSupported => 505,
        }
    }

    /// The reason phrase of RFC 9110 or RFC 6585.
    pub const fn reason(self) -> &'static str {
        match self {
            Ok => "OK",
            PartialContent => "Partial Content",
            MovedPermanently => "Moved Permanently",
            Found => "Found",
            NotModified => "Not Modified",
            TemporaryRedirect => "Temporary Redirect",
            PermanentRedirect => "Permanent Redirect",
            BadRequest => "Bad Request",
            Unauthorized => "Unauthorized",
            Forbidden => "Forbidden",
            NotFound => "Not Found",
            MethodNotAllowed => "Method Not Allowed",
            RequestTimeout => "Request Timeout",
            LengthRequired => "Length Required",
            PreconditionFailed => "Precondition Failed",
            ContentTooLarge => "Content Too Large",
            UriTooLong => "URI Too Long",
            RangeNotSatisfiable => "Range Not Satisfiable",
            ExpectationFailed => "Expectation Failed",
            MisdirectedRequest => "Misdirected Request",
            TooManyRequests => "Too Many Requests",
            HeaderFieldsTooLarge => "Request Header Fields Too Large",
            InternalServerError => "Internal Server Error",
            NotImplemented => "Not Implemented",
            ServiceUnavailable => "Service Unavailable",
            VersionNotSupported => "HTTP Version Not Supported",
        }
    }

    /// One sentence for the person who sees the error page.
    pub const fn explanation(self) -> &'static str {
        match self {
            Ok | PartialContent | NotModified => "",
            MovedPermanently | Found | TemporaryRedirect | PermanentRedirect => {
                "The document is at the address in the Location field."
            }
            BadRequest => "The request does not follow the rules of HTTP.",
            Unauthorized => "This address is for those who have a password.",
            Forbidden => "This address exists but is not open to reading.",
            NotFound => "There is no document at this address.",
            MethodNotAllowed => "Documents here can be read with GET and HEAD.",
            RequestTimeout => "The request did not arrive in time.",
            LengthRequired => "A request body needs a Content-Length here.",
            PreconditionFailed => "The document is not the version that the request asked for.",
            ContentTooLarge => "The request body is longer than this server reads.",
            UriTooLong => "The address is longer than this server reads.",
            RangeNotSatisfiable => "The document ends before the part that was asked for.",
            ExpectationFailed => "The request expects something that this server does not know.",
            MisdirectedRequest => "This server does not answer for the host in the request.",
            TooManyRequests => "There were too many requests from your address; try again later.",
            HeaderFieldsTooLarge => "The request's header is longer than this server reads.",
            InternalServerError => "The document could not be read this time.",
            NotImplemented => "This server does not know the method or transfer coding.",
            ServiceUnavailable => "The server has too much to do at the moment.",
            VersionNotSupported => "This server speaks HTTP/1.0 and HTTP/1.1.",
        }
    }

    /// The name of the counter of responses with this status.
    pub const fn counter(self) -> &'static str {
        match self {
            Ok => "http_responses_200",
            PartialContent => "http_responses_206",
            MovedPermanently => "http_responses_301",
            Found => "http_responses_302",
            NotModified => "http_responses_304",
            TemporaryRedirect => "http_responses_307",
            PermanentRedirect => "http_responses_308",
            BadRequest => "http_responses_400",
            Unauthorized => "http_responses_401",
            Forbidden => "http_responses_403",
            NotFound => "http_responses_404",
            MethodNotAllowed => "http_responses_405",
            RequestTimeout => "http_responses_408",
            LengthRequired => "http_responses_411",
            PreconditionFailed => "http_responses_412",
            ContentTooLarge => "http_responses_413",
            UriTooLong => "http_responses_414",
            RangeNotSatisfiable => "http_responses_416",
            ExpectationFailed => "http_responses_417",
            MisdirectedRequest => "http_responses_421",
            TooManyRequests => "http_responses_429",
            HeaderFieldsTooLarge => "http_responses_431",
            InternalServerError => "http_responses_500",
            NotImplemented => "http_responses_501",
            ServiceUnavailable => "http_responses_503",
            VersionNotSupported => "http_responses_505",
        }
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
