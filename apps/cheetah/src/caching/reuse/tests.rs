use super::*;

const SECS: fn(u64) -> Duration = Duration::from_secs;

/// All terms, ages and requests of a small world, each beside what the RFC's sentences say of it one by one.
#[test]
fn every_answer_is_used_as_the_sentences_say() {
    let some = |values: &[u64]| -> Vec<Option<Duration>> {
        let values = values.iter().map(|secs| Some(SECS(*secs)));
        values.chain([None]).collect()
    };
    let bools = [false, true];
    let mut seen = 0;
    for age in (0..9).map(SECS) {
        for (always_ask, never_stale) in bools.into_iter().flat_map(|a| bools.map(|n| (a, n))) {
            let terms = Terms {
                fresh: SECS(4),
                always_ask,
                never_stale,
                while_revalidating: SECS(2),
                if_error: SECS(3),
            };
            for no_cache in bools {
                for max_age in some(&[0, 3, 5]) {
                    for max_stale in some(&[0, 1, 9]) {
                        for min_fresh in some(&[1, 3]) {
                            for is_asked_for in bools {
                                let request = Directives {
                                    no_cache,
                                    max_age,
                                    max_stale,
                                    min_fresh,
                                    ..Directives::default()
                                };
                                let reuse = judge(&terms, age, &request, is_asked_for);
                                check(&terms, age, &request, is_asked_for, reuse);
                                seen += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    assert_eq!(seen, 9 * 4 * 2 * 4 * 4 * 3 * 2);
}

fn check(terms: &Terms, age: Duration, request: &Directives, is_asked_for: bool, reuse: Reuse) {
    let case = format!("{terms:?} {age:?} {request:?} {is_asked_for} {reuse:?}");
    let is_fresh = age < terms.fresh;
    // §5.2.1.4, §5.2.2.4: without asking it is not used.
    if request.no_cache || terms.always_ask {
        assert!(matches!(reuse, Reuse::Ask(_)), "{case}");
    }
    // §5.2.1.1: not older than that.
    if request.max_age.is_some_and(|most| age > most) {
        assert!(matches!(reuse, Reuse::Ask(_)), "{case}");
    }
    // §5.2.1.3: fresh for that long at least.
    if let Some(least) = request.min_fresh
        && (!is_fresh || terms.fresh - age < least)
    {
        assert!(matches!(reuse, Reuse::Ask(_)), "{case}");
    }
    // §5.2.2.2, §5.2.2.8: not when it is stale.
    if terms.never_stale && !is_fresh {
        assert!(matches!(reuse, Reuse::Ask(_)), "{case}");
    }
    // §4.2.4: nobody has allowed it.
    let is_allowed = request.max_stale.is_some() || is_asked_for;
    if !is_fresh && !is_allowed {
        assert!(matches!(reuse, Reuse::Ask(_) | Reuse::Refresh), "{case}");
    }
    // RFC 5861 §3: for a time, if it is asked for meanwhile.
    if reuse == Reuse::Refresh {
        let is_soon = !is_fresh && age < terms.fresh + terms.while_revalidating;
        assert!(is_soon && !is_asked_for && !terms.never_stale, "{case}");
    }
    assert_eq!(
        reuse == Reuse::Fresh,
        is_fresh && !matches!(reuse, Reuse::Ask(_)),
        "{case}"
    );
    // And where nothing speaks against it, it is used.
    if is_fresh && *request == Directives::default() && !terms.always_ask {
        assert_eq!(reuse, Reuse::Fresh, "{case}");
    }
}

#[test]
fn stale_answers_will_do_for_a_time() {
    let terms = Terms {
        fresh: SECS(10),
        always_ask: false,
        never_stale: false,
        while_revalidating: SECS(5),
        if_error: SECS(20),
    };
    let plain = Directives::default();
    for (age, is_asked_for, wanted) in [
        (9, false, Reuse::Fresh),
        (10, false, Reuse::Refresh),
        (14, false, Reuse::Refresh),
        (15, false, Reuse::Ask(Why::Stale)),
        (10, true, Reuse::Stale),
        (14, true, Reuse::Stale),
        (15, true, Reuse::Ask(Why::Stale)),
    ] {
        assert_eq!(
            judge(&terms, SECS(age), &plain, is_asked_for),
            wanted,
            "{age}"
        );
    }
    for (age, will_do) in [(10, true), (29, true), (30, false)] {
        assert_eq!(
            will_do_for_error(&terms, SECS(age), &plain),
            will_do,
            "{age}"
        );
    }
    let said = Directives {
        stale_if_error: Some(SECS(1)),
        ..Directives::default()
    };
    assert!(will_do_for_error(&terms, SECS(10), &said));
    assert!(!will_do_for_error(&terms, SECS(11), &said));
    let strict = Terms {
        never_stale: true,
        ..terms
    };
    assert!(!will_do_for_error(&strict, SECS(10), &plain));
}
