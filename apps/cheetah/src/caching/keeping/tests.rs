use super::*;
use crate::caching::key::{key_of, name};
use crate::caching::said::Said;
use crate::caching::storing::Terms;
use crate::site::Cache;
use std::time::Duration;

const LIMIT: u64 = 1 << 20;

struct World {
    keeping: Keeping,
    cache: SharedCache,
    rules: Arc<CacheRules>,
}

impl World {
    fn new(share_percent: u8) -> World {
        let cache = SharedCache::from(Cache::new(LIMIT));
        World {
            keeping: Keeping::new(cache.clone()),
            cache,
            rules: Arc::new(CacheRules {
                share_percent,
                ..CacheRules::default()
            }),
        }
    }

    fn record(&self, key: &str, values: &str, len: usize) -> Record {
        Record {
            key: key.as_bytes().into(),
            name: name(key.as_bytes(), values.as_bytes()),
            names: Box::default(),
            values: values.as_bytes().into(),
            rules: self.rules.clone(),
            code: 200,
            lines: b"X: y\r\n".to_vec().into(),
            body: vec![b'x'; len].into(),
            terms: Terms {
                fresh: Duration::from_secs(1),
                always_ask: false,
                never_stale: false,
                while_revalidating: Duration::ZERO,
                if_error: Duration::ZERO,
            },
            born_secs: 0,
            date_secs: 0,
            said: Said::default(),
        }
    }

    fn run(&mut self, errand: Errand) -> Vec<String> {
        let mut told = Vec::new();
        self.keeping.run(errand, &mut |site, change| {
            let text = |path: &SitePath| String::from_utf8_lossy(&key_of(path)).into_owned();
            told.push(match change {
                Change::Answer(record) => format!("{site} answer {}", text(&record.name)),
                Change::AnswerGone(name) => format!("{site} gone {}", text(&name)),
                Change::AnswerLost(key) => format!("{site} lost {}", String::from_utf8_lossy(&key)),
                Change::Forgotten(key, count) => {
                    format!("{site} forgotten {} {count}", String::from_utf8_lossy(&key))
                }
                other => format!("{other:?}"),
            });
        });
        told
    }

    fn keep(&mut self, key: &str, values: &str, len: usize) -> Vec<String> {
        let record = Box::new(self.record(key, values, len));
        self.run(Errand::Keep {
            site: 0,
            record,
            forgotten: self.keeping.forgotten_count,
        })
    }

    /// What is known of answers is what is in memory.
    fn check(&self) {
        let cache = self.cache.lock();
        assert_eq!(cache.documents(), self.keeping.kept.len());
        assert!(
            self.keeping
                .kept
                .keys()
                .all(|(site, name)| cache.holds(*site, name))
        );
        let of_keys: usize = self.keeping.keys.values().map(Vec::len).sum();
        assert_eq!(of_keys, self.keeping.kept.len());
        let of_shares: usize = self.keeping.shares.values().map(|it| it.by_age.len()).sum();
        assert_eq!(of_shares, self.keeping.kept.len());
    }
}

#[test]
fn an_answer_is_kept_and_another_takes_its_place() {
    let mut world = World::new(50);
    assert_eq!(world.keep("\u{1}a", "", 1000), ["0 answer \u{1}a"]);
    let held = world.cache.lock().held();
    assert_eq!(world.keep("\u{1}a", "", 1000), ["0 answer \u{1}a"]);
    assert_eq!(world.cache.lock().held(), held);
    world.check();
    let renewed = Box::new(world.record("\u{1}a", "", 1000));
    let told = world.run(Errand::Renew {
        site: 0,
        record: renewed,
    });
    assert_eq!(told, ["0 answer \u{1}a"]);
    let other = Box::new(world.record("\u{1}b", "", 1000));
    let told = world.run(Errand::Renew {
        site: 0,
        record: other,
    });
    assert!(told.is_empty(), "it has gone meanwhile: {told:?}");
    world.check();
}

#[test]
fn a_target_has_some_answers_and_a_rule_its_share() {
    let mut world = World::new(50);
    for n in 0..VARIANTS_MAX {
        assert_eq!(world.keep("\u{1}a", &n.to_string(), 10).len(), 1);
    }
    let told = world.keep("\u{1}a", "more", 10);
    assert_eq!(told, ["0 gone \u{1}a", "0 answer \u{1}a"]);
    world.check();
    // More than the share as a whole; then as much as there is, of which the first have to go.
    let told = world.keep("\u{1}b", "", (LIMIT / 2) as usize);
    assert_eq!(told, ["0 lost \u{1}b"]);
    for n in 0..100 {
        world.keep(&format!("\u{1}{n}"), "", 20_000);
        world.check();
        assert!(world.cache.lock().held() <= LIMIT / 2 + 2 * 20_000);
    }
    assert!(world.cache.lock().holds(0, &name(b"\x0199", b"")));
    assert!(!world.cache.lock().holds(0, &name(b"\x011", b"")));
}

#[test]
fn what_was_asked_for_before_a_change_is_not_kept() {
    let mut world = World::new(50);
    world.keep("\u{1}a", "", 10);
    world.keep("\u{1}a", "1", 10);
    world.keep("\u{1}b", "", 10);
    let forget = |key: &str| Errand::Forget {
        site: 0,
        key: key.as_bytes().into(),
    };
    assert_eq!(world.run(forget("\u{1}a")), ["0 forgotten \u{1}a 1"]);
    world.check();
    assert_eq!(world.keeping.kept.len(), 1);
    let late = |world: &World, key: &str| Errand::Keep {
        site: 0,
        record: Box::new(world.record(key, "", 10)),
        forgotten: 0,
    };
    let errand = late(&world, "\u{1}a");
    assert_eq!(world.run(errand), ["0 lost \u{1}a"]);
    let errand = late(&world, "\u{1}c");
    assert_eq!(world.run(errand), ["0 answer \u{1}c"]);
    assert_eq!(world.keep("\u{1}a", "", 10), ["0 answer \u{1}a"]);
    // Nobody remembers what was forgotten so long ago.
    for n in 0..FORGOTTEN_MAX {
        world.run(forget(&format!("\u{1}x{n}")));
    }
    let errand = late(&world, "\u{1}d");
    assert_eq!(world.run(errand), ["0 lost \u{1}d"]);
    world.check();
}
