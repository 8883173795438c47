use super::*;
use crate::caching::directives::Directives;

const SECS: fn(u64) -> Duration = Duration::from_secs;
const NOW: u64 = 1_000_000;

fn said(cache_control: &str) -> Said {
    Said {
        directives: Directives::read([cache_control.as_bytes()]),
        ..Said::default()
    }
}

/// Made now, as old as it says.
fn made(said: &Said) -> Made {
    Made {
        date_secs: NOW,
        age: SECS(said.age),
    }
}

fn kept(code: u16, said: &Said) -> Result<Terms, Unkept> {
    terms(
        Asked::default(),
        code,
        said,
        made(said),
        &CacheRules::default(),
    )
}

#[test]
fn statuses_are_kept_that_are_whole_answers_for_everybody() {
    for code in 100..700 {
        let is_kept = kept(code, &said("max-age=5")).is_ok();
        assert_eq!(is_kept, KEPT.contains(&code), "{code}");
    }
    for code in [101, 206, 304, 401, 407, 416, 429] {
        assert!(!KEPT.contains(&code), "{code}");
    }
    assert!(GUESSED.iter().all(|code| KEPT.contains(code)));
}

/// Every set of directives, with and without what else counts, beside the sentences of §3 and §3.5.
#[test]
fn every_answer_is_kept_as_the_sentences_say() {
    let names = [
        "no-store",
        "no-cache",
        "private",
        "public",
        "must-revalidate",
        "s-maxage=9",
        "max-age=5",
        "must-understand",
    ];
    for set in 0..1 << names.len() {
        let has = |name: &str| {
            let at = names.iter().position(|it| *it == name).expect("it is one");
            set & 1 << at != 0
        };
        let chosen = names.iter().filter(|name| has(name)).copied();
        let text = chosen.collect::<Vec<_>>().join(", ");
        for more in 0..32 {
            let [authorization, no_store, cookie, tag, star] =
                [0, 1, 2, 3, 4].map(|bit| more >> bit & 1 == 1);
            let said = Said {
                sets_cookie: cookie,
                tag: tag.then(|| b"\"a\""[..].into()),
                vary: if star {
                    Vary::Everything
                } else {
                    Vary::Nothing
                },
                ..said(&text)
            };
            let asked = Asked {
                no_store,
                has_authorization: authorization,
            };
            let terms = terms(asked, 200, &said, made(&said), &CacheRules::default());
            let has_time = has("s-maxage=9") || has("max-age=5");
            let is_open = has("public") || has("must-revalidate") || has("s-maxage=9");
            let is_kept = !no_store
                && (!has("no-store") || has("must-understand"))
                && !has("private")
                && !cookie
                && !star
                && (!authorization || is_open)
                && (has_time && !has("no-cache") || has("no-cache") && tag);
            assert_eq!(terms.is_ok(), is_kept, "{text} {more:05b}: {terms:?}");
            if let Ok(terms) = terms {
                let fresh = match (has("s-maxage=9"), has("max-age=5")) {
                    (true, _) => 9,
                    (false, true) => 5,
                    (false, false) => 0,
                };
                assert_eq!(terms.fresh, SECS(fresh), "{text}");
                assert_eq!(terms.always_ask, has("no-cache"), "{text}");
                let never = has("must-revalidate") || has("s-maxage=9");
                assert_eq!(terms.never_stale, never, "{text}");
            }
        }
    }
}

#[test]
fn times_are_said_in_an_order() {
    let expires = |at| Said {
        expires: Some(at),
        ..Said::default()
    };
    let fresh = |said: &Said| kept(200, said).map(|terms| terms.fresh.as_secs());
    assert_eq!(fresh(&expires(NOW + 7)), Ok(7));
    assert_eq!(fresh(&expires(NOW)), Err(Unkept::NoTime));
    assert_eq!(fresh(&expires(0)), Err(Unkept::NoTime));
    let both = Said {
        directives: said("max-age=3").directives,
        ..expires(NOW + 7)
    };
    assert_eq!(fresh(&both), Ok(3));
    // One that is old already is kept where it can be asked for again.
    let old = Said {
        age: 3,
        ..said("max-age=3")
    };
    assert_eq!(fresh(&old), Err(Unkept::NoTime));
    let known = Said {
        tag: Some(b"\"a\""[..].into()),
        ..old
    };
    assert_eq!(fresh(&known), Ok(3));
    assert_eq!(
        fresh(&said("max-age=99999999999")),
        Ok(ANSWER_FRESH_TIME_MAX.as_secs())
    );
}

#[test]
fn guesses_are_made_where_the_rule_allows_them() {
    let changed = Said {
        modified: Some((b"then"[..].into(), NOW - 1000)),
        ..Said::default()
    };
    let guess = |code, said: &Said, most| {
        let rules = CacheRules {
            heuristic: most,
            ..CacheRules::default()
        };
        terms(Asked::default(), code, said, made(said), &rules).map(|terms| terms.fresh.as_secs())
    };
    assert_eq!(guess(200, &changed, None), Err(Unkept::NoTime));
    assert_eq!(guess(200, &changed, Some(SECS(500))), Ok(100));
    assert_eq!(guess(200, &changed, Some(SECS(50))), Ok(50));
    assert_eq!(guess(404, &changed, Some(SECS(500))), Ok(100));
    assert_eq!(guess(302, &changed, Some(SECS(500))), Err(Unkept::NoTime));
    let public = Said {
        directives: said("public").directives,
        ..changed.clone()
    };
    assert_eq!(guess(302, &public, Some(SECS(500))), Ok(100));
    assert_eq!(
        guess(200, &Said::default(), Some(SECS(500))),
        Err(Unkept::NoTime)
    );
}

#[test]
fn what_will_do_when_it_is_stale_is_said_by_the_answer_or_the_rule() {
    let rules = CacheRules {
        stale_while_revalidate: SECS(7),
        stale_if_error: SECS(8),
        ..CacheRules::default()
    };
    let of = |text: &str| {
        let terms = terms(
            Asked::default(),
            200,
            &said(text),
            made(&said(text)),
            &rules,
        )
        .expect(text);
        (terms.while_revalidating.as_secs(), terms.if_error.as_secs())
    };
    assert_eq!(of("max-age=1"), (7, 8));
    assert_eq!(of("max-age=1, stale-while-revalidate=2"), (2, 8));
    assert_eq!(of("max-age=1, stale-if-error=0"), (7, 0));
    assert_eq!(of("max-age=1, must-revalidate, stale-if-error=9"), (0, 0));
    assert_eq!(of("s-maxage=1, stale-if-error=9"), (0, 0));
}

#[test]
fn an_answer_is_as_old_as_anything_says() {
    let of = |date, age| Said {
        date,
        age,
        ..Said::default()
    };
    for (said, wanted) in [
        (of(None, 0), 2),
        (of(Some(95), 0), 7),
        (of(Some(95), 10), 12),
        (of(Some(200), 0), 2),
        (of(Some(0), 5), 102),
    ] {
        assert_eq!(age_at_arrival(&said, 100, 102), SECS(wanted), "{said:?}");
    }
}
