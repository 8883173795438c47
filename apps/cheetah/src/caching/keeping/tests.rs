use super::*;
use crate::caching::answers::Answers;
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
    /// What a core has heard.
    core: Answers,
}

impl World {
    fn new(share_percent: u8) -> World {
        let cache = SharedCache::from(Cache::new(LIMIT));
        World {
            keeping: Keeping::new(cache.clone()),
            cache,
            core: Answers::default(),
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
            identity: Arc::new(()),
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
        let core = &mut self.core;
        self.keeping.run(errand, &mut |site, change| {
            core.apply(site, &change);
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
        drop(cache);
        let mut given_out = self.core.names();
        let mut kept: Vec<_> = self.keeping.kept.keys().cloned().collect();
        given_out.sort();
        kept.sort();
        assert_eq!(given_out, kept, "what a core gives out is what is kept");
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
    let record = world.record("\u{1}a", "", 1000);
    let keep = |record: &Record| Errand::Keep {
        site: 0,
        record: Box::new(record.clone()),
        forgotten: 0,
    };
    assert_eq!(world.run(keep(&record)), ["0 answer \u{1}a"]);
    assert_eq!(world.cache.lock().held(), held);
    world.check();
    let renew = |record: &Record, forgotten| Errand::Renew {
        site: 0,
        record: Box::new(record.clone()),
        forgotten,
    };
    let renewed = Record {
        lines: b"X: z\r\nY: z\r\n".to_vec().into(),
        ..record.clone()
    };
    assert_eq!(world.run(renew(&renewed, 0)), ["0 answer \u{1}a"]);
    world.check();
    // Another content has come meanwhile, or none is there any more, or what it is of has changed.
    let other = world.record("\u{1}a", "", 1000);
    assert_eq!(world.run(keep(&other)), ["0 answer \u{1}a"]);
    assert_eq!(world.run(renew(&renewed, 0)), ["0 lost \u{1}a"]);
    let none = world.record("\u{1}b", "", 1000);
    assert_eq!(world.run(renew(&none, 0)), ["0 lost \u{1}b"]);
    world.check();
    let forget = Errand::Forget {
        site: 0,
        key: b"\x01a"[..].into(),
    };
    world.run(forget);
    assert_eq!(
        world.run(keep(&world.record("\u{1}a", "", 10))),
        ["0 lost \u{1}a"]
    );
    assert_eq!(world.run(renew(&other, 0)), ["0 lost \u{1}a"]);
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
    world.keep("\u{1}b", "", 10);
    let told = world.keep("\u{1}b", "", (LIMIT / 2) as usize);
    assert_eq!(
        told,
        ["0 gone \u{1}b", "0 lost \u{1}b"],
        "the old one is none either"
    );
    world.check();
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
    let before = world.keeping.forgotten_count;
    world.run(Errand::ForgetAll);
    assert_eq!(
        (world.keeping.kept.len(), world.cache.lock().held()),
        (0, 0)
    );
    world.check();
    let record = Box::new(world.record("\u{1}e", "", 10));
    let late = Errand::Keep {
        site: 0,
        record,
        forgotten: before,
    };
    assert_eq!(world.run(late), ["0 lost \u{1}e"]);
    assert_eq!(world.keep("\u{1}e", "", 10), ["0 answer \u{1}e"]);
}

/// What is on its way is lost to it where it is of it, and nothing else.
#[test]
fn what_was_asked_for_before_a_purge_is_not_kept_where_it_is_of_it() {
    let mut world = World::new(50);
    let purge = |key: &str, means_below| Errand::Purge {
        site: 0,
        key: key.as_bytes().into(),
        means_below,
    };
    world.run(purge("\u{1}a", false));
    world.run(purge("\u{1}b/", true));
    for (site, key, is_kept) in [
        (0, "\u{1}a", false),
        (0, "\u{1}a\0claimed", false),
        (0, "\u{1}ab", true),
        (0, "\u{1}b/1", false),
        (0, "\u{1}b", true),
        (1, "\u{1}b/1", true),
    ] {
        let late = Errand::Keep {
            site,
            record: Box::new(world.record(key, "", 10)),
            forgotten: 0,
        };
        let what = if is_kept { "answer" } else { "lost" };
        assert_eq!(world.run(late), [format!("{site} {what} {key}")]);
    }
    world.check();
}

/// A core with what it has not heard yet.
#[derive(Default)]
struct Core {
    answers: Answers,
    to_hear: VecDeque<(usize, Change)>,
}

/// A request under way, with the version that its upstream has answered with, or the record that it has said to hold.
struct Request {
    core: usize,
    key: usize,
    forgotten: u64,
    answered: Option<(u64, Option<Record>)>,
}

/// Two cores ask for some keys, of which the origin changes by requests of either, and hear of everything late: when all have heard, what
/// is kept is what the origin has, and both give out what is kept.
#[test]
fn what_is_kept_is_what_the_origin_has_when_all_is_heard() {
    for seed in 0..300 {
        let mut random = exos_sim::random::Random::new(exos_sim::random::Seed(seed), 0);
        let mut world = World::new(if seed % 2 == 0 { 50 } else { 3 });
        let mut cores = [Core::default(), Core::default()];
        let (mut versions, mut requests) = ([0_u64; 3], Vec::<Request>::new());
        let key = |n: usize| format!("\u{1}{n}");
        for _ in 0..200 {
            let core = random.below(2) as usize;
            match random.below(8) {
                0 | 1 => {
                    let key = random.below(3) as usize;
                    let forgotten = cores[core].answers.forgotten();
                    requests.push(Request {
                        core,
                        key,
                        forgotten,
                        answered: None,
                    });
                }
                // The upstream answers: with what it has, or that what this core has holds.
                2 | 3 if !requests.is_empty() => {
                    let at = random.below(requests.len() as u64) as usize;
                    let request = &mut requests[at];
                    let version = versions[request.key];
                    let kept = cores[request.core].answers.record(&key(request.key));
                    let holds = kept.filter(|it| it.date_secs == version && random.below(2) == 0);
                    request.answered.get_or_insert((version, holds));
                }
                // It has come.
                4 | 5 if !requests.is_empty() => {
                    let at = random.below(requests.len() as u64) as usize;
                    let request = requests.swap_remove(at);
                    let Some((version, holds)) = request.answered else {
                        continue;
                    };
                    let forgotten = request.forgotten;
                    let len = [10, 1000, 20_000][random.below(3) as usize];
                    let errand = match holds {
                        Some(record) => Errand::Renew {
                            site: 0,
                            record: Box::new(record),
                            forgotten,
                        },
                        None => {
                            let mut record = world.record(&key(request.key), "", len);
                            record.date_secs = version;
                            Errand::Keep {
                                site: 0,
                                record: Box::new(record),
                                forgotten,
                            }
                        }
                    };
                    run(&mut world, &mut cores, errand);
                }
                // Something changes at the origin, of which the core hears that has asked for it.
                6 => {
                    let of = random.below(3) as usize;
                    versions[of] += 1;
                    let key = SitePath::from(key(of).into_bytes());
                    run(&mut world, &mut cores, Errand::Forget { site: 0, key });
                }
                _ => hear(&mut cores[core], random.below(3) as usize),
            }
        }
        cores.iter_mut().for_each(|core| hear(core, usize::MAX));
        let mut kept: Vec<_> = world.keeping.kept.keys().cloned().collect();
        kept.sort();
        for core in &cores {
            let mut names = core.answers.names();
            names.sort();
            assert_eq!(names, kept, "seed {seed}");
            for (n, version) in versions.iter().enumerate() {
                let record = core.answers.record(&key(n));
                assert!(
                    record.is_none_or(|it| it.date_secs == *version),
                    "seed {seed}"
                );
            }
        }
    }
}

fn run(world: &mut World, cores: &mut [Core; 2], errand: Errand) {
    world.keeping.run(errand, &mut |site, change| {
        cores
            .iter_mut()
            .for_each(|core| core.to_hear.push_back((site, change.clone())));
    });
}

fn hear(core: &mut Core, most: usize) {
    let count = core.to_hear.len().min(most);
    for (site, change) in core.to_hear.drain(..count) {
        core.answers.apply(site, &change);
    }
}
