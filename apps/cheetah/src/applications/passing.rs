//! Which fields of a request an application hears of, whatever its language.

/// Fields that are about the connection or the body's form, or that are said in another way, in lower case.
const OURS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    // Scripts take it for the address of a proxy, in the variable HTTP_PROXY ("httpoxy").
    "proxy",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a field of this name may be passed on. One with other characters than letters, digits and hyphens may not: scripts take
/// `X_Forwarded_For` for `X-Forwarded-For`, which a proxy may have set.
pub(super) fn passes(name: &str) -> bool {
    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_plain && !OURS.iter().any(|other| other.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_pass_but_those_that_are_ours() {
        for name in ["Accept", "X-B3-TraceId", "cookie", "x2"] {
            assert!(passes(name), "{name}");
        }
        for name in [
            "Host",
            "TE",
            "proxy",
            "Transfer-Encoding",
            "X_A",
            "X.A",
            "a b",
        ] {
            assert!(!passes(name), "{name}");
        }
    }
}
