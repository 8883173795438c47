//! What answers and requests say of caching, and what follows from that.

use std::time::Duration;

use exos_cheetah::caching::CacheRules;
use exos_cheetah::caching::directives::Directives;
use exos_cheetah::caching::reuse::{Reuse, judge, will_do_for_error};
use exos_cheetah::caching::said::{Said, Vary};
use exos_cheetah::caching::storing::{Asked, Made, age_at_arrival, terms};
use exos_cheetah::limits::VARY_NAMES_MAX;
use httparse::{EMPTY_HEADER, Header, Status};

const NOW: u64 = 1_800_000_000;

/// The fields of an answer, behind them those of a request: what is kept is what its words allow, whatever they are, and what is used too. The first byte
/// says what is known of the request beside, and how old the answer is then.
pub fn caching(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else {
        return;
    };
    let mut store = [EMPTY_HEADER; 32];
    let Ok(Status::Complete((len, fields))) = httparse::parse_headers(bytes, &mut store) else {
        return;
    };
    let said = Said::of(fields);
    check_said(&said, fields);
    let mut store = [EMPTY_HEADER; 32];
    let request = match httparse::parse_headers(&bytes[len..], &mut store) {
        Ok(Status::Complete((_, fields))) => directives(fields),
        _ => Directives::default(),
    };
    let rules = CacheRules {
        heuristic: (first & 1 != 0).then_some(Duration::from_secs(60)),
        ..CacheRules::default()
    };
    let asked = Asked {
        no_store: request.no_store,
        has_authorization: first & 2 != 0,
    };
    let date = said.date.unwrap_or(NOW);
    let made = Made {
        date_secs: date,
        age: age_at_arrival(&said, NOW, NOW),
    };
    let Ok(terms) = terms(asked, 200, &said, made, &rules) else {
        return;
    };
    let says = &said.directives;
    assert!(!asked.no_store && !says.private && !said.sets_cookie);
    assert!(!says.no_store || says.must_understand);
    assert!(said.vary.names().is_some());
    let is_open = says.public || says.must_revalidate || says.shared_max_age.is_some();
    assert!(!asked.has_authorization || is_open);
    let age = made.age + Duration::from_secs(u64::from(first >> 2));
    for is_asked_for in [false, true] {
        let reuse = judge(&terms, age, &request, is_asked_for);
        if !matches!(reuse, Reuse::Ask(_)) {
            assert!(!terms.always_ask && !request.no_cache);
            assert!(request.max_age.is_none_or(|most| age <= most));
            assert_eq!(reuse == Reuse::Fresh, age < terms.fresh);
            assert!(!terms.never_stale || reuse == Reuse::Fresh);
        }
    }
    if will_do_for_error(&terms, age, &request) {
        assert!(!terms.never_stale && !terms.always_ask);
    }
}

fn directives(fields: &[Header<'_>]) -> Directives {
    let named = fields
        .iter()
        .filter(|it| it.name.eq_ignore_ascii_case("cache-control"));
    Directives::read(named.map(|field| field.value))
}

fn check_said(said: &Said, fields: &[Header<'_>]) {
    assert_eq!(said.directives, directives(fields));
    assert!(said.age <= 1 << 31);
    if let Vary::Names(names) = &said.vary {
        assert!(names.len() <= VARY_NAMES_MAX && names.is_sorted());
        assert!(
            names
                .iter()
                .all(|name| !name.is_empty() && **name == name.to_ascii_lowercase())
        );
    }
    let longest = Duration::from_secs(1 << 31);
    let says = &said.directives;
    let times = [
        says.max_age,
        says.shared_max_age,
        says.max_stale,
        says.min_fresh,
        says.stale_if_error,
        says.stale_while_revalidate,
    ];
    assert!(times.into_iter().flatten().all(|time| time <= longest));
}
