//! What can be wrong with a request, the status that says so, and the counter that remembers.

use super::status::Status;

/// Declares the faults, a row for each: name, the status of the answer, the counter.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident, $status:ident, $counter:literal;)*) => {
        /// Why a request is refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// Every fault; `Fault::ALL[f as usize] == f`.
            pub const ALL: [Fault; ABOUT.len()] = [$(Fault::$name,)*];
        }

        const ABOUT: [(Status, &str); [$($counter,)*].len()] = [$((Status::$status, $counter),)*];
    };
}

faults! {
    /// The request line is not `METHOD SP TARGET SP VERSION`.
    RequestLine, BadRequest, "http_fault_request_line";
    /// A header line is malformed: folded, a space before the colon, a control character.
    FieldSyntax, BadRequest, "http_fault_field_syntax";
    /// The version is of another HTTP than 1.0 and 1.1.
    Version, VersionNotSupported, "http_fault_version";
    /// The request line is longer than the limit.
    TargetTooLong, UriTooLong, "http_fault_target_too_long";
    /// The head is longer than the limit.
    HeadTooLong, HeaderFieldsTooLarge, "http_fault_head_too_long";
    /// There are more header fields than the limit.
    TooManyFields, HeaderFieldsTooLarge, "http_fault_too_many_fields";
    /// An HTTP/1.1 request without Host.
    HostMissing, BadRequest, "http_fault_host_missing";
    /// Several Host fields, or one that is no host.
    HostInvalid, BadRequest, "http_fault_host_invalid";
    /// Content-Length is no number, or is there twice.
    LengthInvalid, BadRequest, "http_fault_length_invalid";
    /// Content-Length and Transfer-Encoding in one request: an attempt at smuggling.
    LengthAndCoding, BadRequest, "http_fault_length_and_coding";
    /// Transfer-Encoding in HTTP/1.0.
    CodingInOldVersion, BadRequest, "http_fault_coding_in_old_version";
    /// A chunked body.
    BodyChunked, LengthRequired, "http_fault_body_chunked";
    /// A transfer coding other than chunked.
    CodingUnknown, NotImplemented, "http_fault_coding_unknown";
    /// A body longer than is skipped.
    BodyTooLong, ContentTooLarge, "http_fault_body_too_long";
    /// An expectation other than 100-continue.
    ExpectationUnknown, ExpectationFailed, "http_fault_expectation_unknown";
    /// A tunnel in which a protocol is to be spoken that nobody speaks there (RFC 8441, RFC 9220).
    ProtocolUnknown, NotImplemented, "http_fault_protocol_unknown";
    /// A method that HTTP does not define.
    MethodUnknown, NotImplemented, "http_fault_method_unknown";
    /// A method that HTTP defines and this server does not offer.
    MethodNotAllowed, MethodNotAllowed, "http_fault_method_not_allowed";
    /// The target is in no form that GET allows, or has bad percent-encoding.
    TargetSyntax, BadRequest, "http_fault_target_syntax";
    /// The path climbs above the root.
    TargetAboveRoot, BadRequest, "http_fault_target_above_root";
}

impl Fault {
    /// The status of the answer.
    pub const fn status(self) -> Status {
        ABOUT[self as usize].0
    }

    /// True when the connection can go on, because it is certain where the next request begins
    /// and the client is not merely babbling.
    pub const fn is_survivable(self) -> bool {
        use Fault::*;
        matches!(self, MethodNotAllowed | MethodUnknown | ExpectationUnknown)
    }

    /// The name of its counter.
    pub const fn counter(self) -> &'static str {
        ABOUT[self as usize].1
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
