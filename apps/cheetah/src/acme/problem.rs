//! What an authority says when something is wrong (RFC 8555 §6.7): what it means, and what to do, for people.

use instant_acme::{Error as AcmeError, Problem};

use super::challenges::Kind;

/// What to look at where the authority did not find this server.
pub(super) fn not_shown(name: &str, kind: Kind, problem: Option<Problem>) -> String {
    let said = problem
        .as_ref()
        .map_or("it does not say why".to_owned(), text);
    let reach = |port| {
        format!(
            "the authority has to reach this server at {name}, port {port}: look at the name's address, and at what is between"
        )
    };
    let look = match kind {
        Kind::Http => reach(80),
        Kind::TlsAlpn => reach(443),
        Kind::Dns => "the program of dns_hook has to end when all name servers of the zone have the record: ask them for it (dig TXT)".to_owned(),
    };
    let mend = match problem {
        Some(problem)
            if kind != Kind::Dns && (is(&problem, "dns") || is(&problem, "rejectedIdentifier")) =>
        {
            format!("have the name {name} lead to this server")
        }
        Some(problem) if is(&problem, "caa") => {
            format!("have the CAA record of {name} name this authority")
        }
        _ => look,
    };
    format!(
        "the authority did not find this server at {name} by {}: {said}; {mend}",
        kind.name()
    )
}

pub(super) fn is(problem: &Problem, kind: &str) -> bool {
    let name = problem.r#type.as_deref();
    let name = name.and_then(|name| name.strip_prefix("urn:ietf:params:acme:error:"));
    name == Some(kind)
}

/// What is refused is refused to this account, whatever it orders.
pub(super) fn is_about_account(error: &AcmeError) -> bool {
    match error {
        AcmeError::Api(problem) => ["accountDoesNotExist", "rateLimited", "unauthorized"]
            .iter()
            .any(|kind| is(problem, kind)),
        _ => false,
    }
}

/// What is refused is refused for what the order is to replace (RFC 9773 §5): another has taken its place already, it is of another
/// account, or the authority does not know it, or the field. Then the order is one of its own.
pub(super) fn is_about_replacing(error: &AcmeError) -> bool {
    match error {
        AcmeError::Api(problem) => {
            let names = ["alreadyReplaced", "malformed", "unauthorized"];
            names.iter().any(|name| is(problem, name)) || matches!(problem.status, Some(404 | 409))
        }
        AcmeError::Unsupported(_) => true,
        // The answer does not say that it replaces anything.
        AcmeError::Other(error) => error.to_string().starts_with("replaces field mismatch"),
        _ => false,
    }
}

/// What an authority says, on one line.
pub(super) fn text(problem: &Problem) -> String {
    let of = |detail: &Option<String>, kind: &Option<String>| {
        let said = detail.as_deref().or(kind.as_deref());
        said.unwrap_or("no reason").to_owned()
    };
    let all = std::iter::once(of(&problem.detail, &problem.r#type));
    let more = problem.subproblems.iter();
    let all = all.chain(more.map(|it| of(&it.detail, &it.r#type)));
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text = all.collect::<Vec<_>>().join("; ");
    text.chars().map(plain).take(500).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A problem of this kind.
    pub(in crate::acme) fn problem(kind: &str, detail: &str) -> Problem {
        let json = serde_json::json!({
            "type": format!("urn:ietf:params:acme:error:{kind}"),
            "detail": detail,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn what_the_authority_says_leads_to_what_to_do() {
        for (kind, wanted, mend) in [
            (Kind::Http, "connection", "port 80"),
            (Kind::TlsAlpn, "unauthorized", "port 443"),
            (
                Kind::Http,
                "dns",
                "have the name a.test lead to this server",
            ),
            (Kind::Http, "caa", "CAA record"),
            (Kind::Dns, "unauthorized", "dig TXT"),
        ] {
            let said = not_shown("a.test", kind, Some(problem(wanted, "because")));
            assert!(said.contains("because"), "{said}");
            assert!(said.contains(mend) && said.contains(kind.name()), "{said}");
        }
        assert!(not_shown("a.test", Kind::Http, None).contains("does not say why"));
    }

    #[test]
    fn an_order_is_made_again_only_where_what_it_replaces_was_refused() {
        let api = |kind| AcmeError::Api(problem(kind, "because"));
        let gone = serde_json::json!({"status": 404});
        let other = |text: &str| AcmeError::Other(text.into());
        for (error, wanted) in [
            (api("alreadyReplaced"), true),
            (api("malformed"), true),
            (api("rateLimited"), false),
            (api("badNonce"), false),
            (api("rejectedIdentifier"), false),
            (AcmeError::Api(serde_json::from_value(gone).unwrap()), true),
            (AcmeError::Unsupported("it"), true),
            (other("replaces field mismatch: expected"), true),
            (other("it has not answered in time"), false),
        ] {
            assert_eq!(is_about_replacing(&error), wanted, "{error}");
        }
    }

    /// What comes from outside is one line of some hundred characters.
    #[test]
    fn what_it_says_is_bounded() {
        let long = format!("a\nb\u{1b}[2J{}", "x".repeat(10_000));
        let said = text(&problem("malformed", &long));
        assert!(
            said.starts_with("a b [2Jxxx") && said.len() == 500,
            "{said}"
        );
        let none: Problem = serde_json::from_value(serde_json::json!({})).unwrap();
        assert_eq!(text(&none), "no reason");
    }
}
