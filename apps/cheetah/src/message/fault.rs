//! What can be wrong with a request, the status that says so, and the counter that remembers.

use super::status::Status;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fault {
    /// The request line is not `METHOD SP TARGET SP VERSION`.
    RequestLine,
    /// A header line is malformed: folded, a space before the colon, a control character.
    FieldSyntax,
    /// The version is of another HTTP than 1.0 and 1.1.
    Version,
    /// The request line is longer than the limit.
    TargetTooLong,
    /// The head is longer than the limit.
    HeadTooLong,
    /// There are more header fields than the limit.
    TooManyFields,
    /// An HTTP/1.1 request without Host.
    HostMissing,
    /// Several Host fields, or one that is no host.
    HostInvalid,
    /// Content-Length is no number, or is there twice.
    LengthInvalid,
    /// Content-Length and Transfer-Encoding in one request: an attempt at smuggling.
    LengthAndCoding,
    /// Transfer-Encoding in HTTP/1.0.
    CodingInOldVersion,
    /// A chunked body.
    BodyChunked,
    /// A transfer coding other than chunked.
    CodingUnknown,
    /// A body longer than is skipped.
    BodyTooLong,
    /// An expectation other than 100-continue.
    ExpectationUnknown,
    /// A method that HTTP does not define.
    MethodUnknown,
    /// A method that HTTP defines and this server does not offer.
    MethodNotAllowed,
    /// The target is in no form that GET allows, or has bad percent-encoding.
    TargetSyntax,
    /// The path climbs above the root.
    TargetAboveRoot,
}

use Fault::*;

impl Fault {
    /// Every fault; `Fault::ALL[f as usize] == f`.
    pub const ALL: [Fault; 19] = [
        RequestLine,
        FieldSyntax,
        Version,
        TargetTooLong,
        HeadTooLong,
        TooManyFields,
        HostMissing,
        HostInvalid,
        LengthInvalid,
        LengthAndCoding,
        CodingInOldVersion,
        BodyChunked,
        CodingUnknown,
        BodyTooLong,
        ExpectationUnknown,
        MethodUnknown,
        MethodNotAllowed,
        TargetSyntax,
        TargetAboveRoot,
    ];

    /// The status of the answer.
    pub const fn status(self) -> Status {
        match self {
            RequestLine | FieldSyntax | HostMissing | HostInvalid | LengthInvalid
            | LengthAndCoding | CodingInOldVersion | TargetSyntax | TargetAboveRoot => {
                Status::BadRequest
            }
            Version => Status::VersionNotSupported,
            TargetTooLong => Status::UriTooLong,
            HeadTooLong | TooManyFields => Status::HeaderFieldsTooLarge,
            BodyChunked => Status::LengthRequired,
            CodingUnknown | MethodUnknown => Status::NotImplemented,
            BodyTooLong => Status::ContentTooLarge,
            ExpectationUnknown => Status::ExpectationFailed,
            MethodNotAllowed => Status::MethodNotAllowed,
        }
    }

    /// True when the connection can go on, because it is certain where the next request begins
    /// and the client is not merely babbling.
    pub const fn is_survivable(self) -> bool {
        matches!(self, MethodNotAllowed | MethodUnknown | ExpectationUnknown)
    }

    /// The name of its counter.
    pub const fn counter(self) -> &'static str {
        match self {
            RequestLine => "http_fault_request_line",
            FieldSyntax => "http_fault_field_syntax",
            Version => "http_fault_version",
            TargetTooLong => "http_fault_target_too_long",
            HeadTooLong => "http_fault_head_too_long",
            TooManyFields => "http_fault_too_many_fields",
            HostMissing => "http_fault_host_missing",
            HostInvalid => "http_fault_host_invalid",
            LengthInvalid => "http_fault_length_invalid",
            LengthAndCoding => "http_fault_length_and_coding",
            CodingInOldVersion => "http_fault_coding_in_old_version",
            BodyChunked => "http_fault_body_chunked",
            CodingUnknown => "http_fault_coding_unknown",
            BodyTooLong => "http_fault_body_too_long",
            ExpectationUnknown => "http_fault_expectation_unknown",
            MethodUnknown => "http_fault_method_unknown",
            MethodNotAllowed => "http_fault_method_not_allowed",
            TargetSyntax => "http_fault_target_syntax",
            TargetAboveRoot => "http_fault_target_above_root",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_order() {
        for (index, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, index);
        }
    }
}
