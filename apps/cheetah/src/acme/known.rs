//! What the thread knows of each name: its certificate, when the next is ordered, and why the last was not had.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use exos_tls::certificate::{UnixSecs, Validity, validity};
use exos_tls::files;

use super::advice::{Advice, Advised};
use super::challenges::Kind;
use super::obstacle::Failed;
use super::put_off::PutOff;
use super::schedule::{Failure, ask_again, length, next_try, now, renew_at, wait_after};
use super::state::Shown;
use super::store::{Record, Store};
use super::wanted::Wanted;
use crate::config::AcmeConfig;
use crate::limits::{
    ACME_ADVICE_APART, ACME_ADVICE_RETRY, ACME_ADVICE_TIME_MAX, ACME_BUDGET_TIME,
    ACME_FAILURES_FORGIVEN, ACME_ORDERS_APART, ACME_RATE_LIMITED_REST, ACME_REASON_LEN_MAX,
};

/// What the thread knows of each name.
#[derive(Debug, Default)]
pub(super) struct Known {
    entries: HashMap<String, Entry>,
    /// Of what that is known.
    store: Option<Store>,
    /// Until when nothing is ordered of it, in seconds since 1970.
    rest_until: UnixSecs,
    /// For numbers that no other process has.
    random: RandomState,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) shown: Shown,
    /// How long its certificate is valid.
    validity: Option<Validity>,
    /// When the authority advises to renew it.
    advice: Option<Advice>,
    /// When it is asked for that, in seconds since 1970.
    ask_at: UnixSecs,
    /// When it was last renewed on such advice.
    followed_at: Option<UnixSecs>,
    /// How the authority asked last without finding this server.
    not_found_by: Option<Kind>,
    /// What had failed before this process began keeps it from nothing: its operator may have mended something.
    is_forgiven: bool,
    put_off: Option<PutOff>,
    /// As they are written, those first that come first.
    place: usize,
    is_wanted: bool,
}

impl Known {
    /// Looks at names that are wanted and not known yet, and forgets others. True where it is another folder than before.
    pub(super) fn know(&mut self, wanted: &Wanted) -> bool {
        let is_other = self.store.as_ref() != Some(&wanted.store);
        if is_other {
            // Another authority, or another folder of one.
            self.entries.clear();
            (self.store, self.rest_until) = (Some(wanted.store.clone()), 0);
        }
        self.entries
            .values_mut()
            .for_each(|it| it.is_wanted = false);
        for (place, managed) in wanted.names.iter().enumerate() {
            if !self.entries.contains_key(&managed.name) {
                self.look(wanted, &managed.name, true);
            }
            if let Some(entry) = self.entries.get_mut(&managed.name) {
                (entry.is_wanted, entry.place) = (true, place);
            }
        }
        self.entries.retain(|_, it| it.is_wanted);
        is_other
    }

    /// Sees what there is of a name on the disk. At a start a few failures are forgiven.
    pub(super) fn look(&mut self, wanted: &Wanted, name: &str, is_start: bool) {
        let validity = validity_of(&wanted.store, name);
        let record = wanted.store.record(name);
        let spread = self.spread(name, validity.map_or(0, |it| it.until));
        let entry = self.entries.entry(name.to_owned()).or_default();
        if entry.validity != validity {
            // Another certificate, of which nothing was advised.
            (entry.validity, entry.advice, entry.ask_at) = (validity, None, 0);
        }
        let at = entry.renew_at(spread);
        // Until there is another failure, of whatever process.
        let is_first = is_start || entry.is_forgiven && record.failures == entry.shown.failures;
        entry.is_forgiven = is_first && record.failures <= ACME_FAILURES_FORGIVEN;
        let next_order = match entry.is_forgiven {
            true => at,
            false => at.max(next_try(record.next_try, now())),
        };
        let advice = entry.advice.as_ref();
        entry.shown = Shown {
            name: name.to_owned(),
            expires: validity.map(|it| it.until),
            next_order,
            failures: record.failures,
            error: (record.failures > 0).then_some(record.error),
            advised: advice.map(|it| (it.from, it.until)),
            explanation: advice.and_then(|it| it.explanation.clone()),
        };
        entry.not_found_by = record.not_found_by;
    }

    /// The first that is to be ordered now, by when it was to be, of those that are not under way.
    pub(super) fn due(&self, now: UnixSecs, is_under_way: impl Fn(&str) -> bool) -> Option<&Entry> {
        // By a clock that was wrong it may be far away.
        let longest = ACME_BUDGET_TIME.as_secs() as UnixSecs;
        if (now + 1..=now + longest).contains(&self.rest_until) {
            return None;
        }
        let due = self.entries.values().filter(|it| it.is_due(now));
        let due = due.filter(|it| !is_under_way(&it.shown.name));
        due.min_by_key(|it| (it.shown.next_order, it.place))
    }

    /// How the authority is to ask: as the configuration says; else by what our ports are, and by the other where it did not find
    /// this server so.
    pub(super) fn kind(&self, config: &AcmeConfig, name: &str) -> Kind {
        let failed = self.entries.get(name).and_then(|it| it.not_found_by);
        let other = failed.and_then(Kind::other);
        config.challenge.or(other).unwrap_or(config.first)
    }

    pub(super) fn succeed(&mut self, wanted: &Wanted, name: &str, kind: Kind) {
        if let Err(error) = wanted.store.set_record(name, &Record::default()) {
            exos_program::warn!("exos serve: cannot forget what has failed for {name}: {error}");
        }
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        // Nothing was advised for the one that has come.
        (entry.validity, entry.ask_at, entry.put_off) = (None, 0, None);
        let had = entry.advice.take();
        self.look(wanted, name, false);
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let now = now();
        if had.is_some_and(|advice| advice.from <= now) {
            entry.followed_at = Some(now);
        }
        let shown = &mut entry.shown;
        // By a clock that goes wrong it may be due at once.
        shown.next_order = shown
            .next_order
            .max(now + ACME_ORDERS_APART.as_secs() as UnixSecs);
        let until = |at: UnixSecs| length((at - now).max(0));
        exos_program::info!(
            "exos serve: a certificate of {name} has come, by {}; it is valid for {}, and is renewed in {}",
            kind.name(),
            until(shown.expires.unwrap_or(now)),
            until(shown.next_order),
        );
    }

    pub(super) fn fail(&mut self, wanted: &Wanted, name: &str, failed: &Failed) {
        let is_current = self.store.as_ref() == Some(&wanted.store);
        let entry = self.entries.get(name).filter(|_| is_current);
        let (before, not_found_by) = match entry {
            Some(it) => (it.shown.failures, it.not_found_by),
            // A reload has dropped it meanwhile, and may want it again.
            None => {
                let record = wanted.store.record(name);
                (record.failures, record.not_found_by)
            }
        };
        let (failures, is_wanted) = (before.saturating_add(1), entry.is_some());
        let not_found_by = match failed.failure {
            Failure::NotFound(kind) => Some(kind),
            _ => not_found_by,
        };
        if failed.failure == Failure::RateLimited && is_current {
            // Others of the account may be refused as well, one after the other.
            self.rest(ACME_RATE_LIMITED_REST.as_secs() as UnixSecs);
        }
        let now = now();
        let spread = self.spread(name, now);
        let wait = wait_after(failures, failed.failure, failed.wait, spread).as_secs() as i64;
        // Words of others are in it.
        let what: String = failed.what.chars().take(ACME_REASON_LEN_MAX).collect();
        let record = Record {
            failures,
            next_try: now + wait,
            error: what,
            not_found_by,
        };
        // Before it is told, so that it is there for those who read of it.
        let kept = wanted.store.set_record(name, &record);
        exos_program::warn!(
            "exos serve: no certificate for {name}: {}; {}",
            record.error,
            match is_wanted {
                true => format!("the next attempt is in {}", length(wait)),
                false => "the configuration wants none any more".to_owned(),
            }
        );
        if let Err(error) = kept {
            exos_program::warn!("exos serve: cannot keep what has failed for {name}: {error}");
        }
        if let Some(entry) = self.entries.get_mut(name).filter(|_| is_current) {
            entry.is_forgiven = false;
            entry.shown.failures = failures;
            entry.shown.next_order = record.next_try;
            entry.shown.error = Some(record.error);
            entry.not_found_by = not_found_by;
        }
    }

    /// Has nothing be ordered for this many seconds.
    pub(super) fn rest(&mut self, secs: UnixSecs) {
        self.rest_until = self.rest_until.max(now() + secs);
    }

    /// Puts a name off that has lost certificates; false where it has not.
    pub(super) fn put_off(&mut self, wanted: &Wanted, name: &str) -> bool {
        let Some(entry) = self.entries.get_mut(name) else {
            return false;
        };
        entry.put_off = PutOff::of(wanted, &entry.shown, now());
        entry.put_off.is_some()
    }

    // The authority's advice.

    /// A name for whose certificate it is to be asked: one that has not ended (RFC 9773 §4.3).
    pub(super) fn to_ask_about(&self, now: UnixSecs) -> Option<String> {
        let mut all = self.entries.values();
        let is_valid = |it: &Entry| it.validity.is_some_and(|it| now < it.until);
        // By a clock that was wrong it may be years away.
        let latest = now + ACME_ADVICE_TIME_MAX.as_secs() as UnixSecs;
        let is_time = |it: &Entry| it.ask_at <= now || it.ask_at > latest;
        let next = all.find(|it| is_valid(it) && is_time(it));
        next.map(|it| it.shown.name.clone())
    }

    /// What it has said, or not.
    pub(super) fn advise(&mut self, wanted: &Wanted, name: &str, advised: Advised) {
        let now = now();
        if matches!(advised, Advised::Unreached) {
            let again = now + ACME_ADVICE_RETRY.as_secs() as UnixSecs;
            let due = self.entries.values_mut().filter(|it| it.ask_at <= now);
            due.for_each(|it| it.ask_at = again);
        }
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let again = match advised {
            Advised::Renew(advice, again) => {
                let is_urgent = advice.until < now && entry.advice.as_ref() != Some(&advice);
                if is_urgent && !entry.has_followed(now) {
                    let why = advice.explanation.as_deref();
                    let why = why.map_or(String::new(), |url| format!(", see {url}"));
                    exos_program::info!(
                        "exos serve: the authority advises to renew the certificate of {name} now{why}"
                    );
                }
                entry.advice = Some(advice);
                ask_again(again)
            }
            Advised::Nothing => {
                entry.advice = None;
                ACME_ADVICE_TIME_MAX
            }
            // What it has said before is as good as before.
            Advised::Failed | Advised::Unreached => ACME_ADVICE_RETRY,
        };
        entry.ask_at = now + again.as_secs() as UnixSecs;
        self.look(wanted, name, false);
    }

    /// Some number, the same one for the same things.
    fn spread(&self, name: &str, at: UnixSecs) -> u64 {
        self.random.hash_one((name, at))
    }

    pub(super) fn shown(&self) -> Vec<Shown> {
        let mut all: Vec<&Entry> = self.entries.values().collect();
        all.sort_by_key(|it| it.place);
        let shown = |it: &Entry| {
            let mut shown = it.shown.clone();
            shown.next_order = shown.next_order.max(self.rest_until);
            if let Some(put_off) = &it.put_off {
                put_off.show(&mut shown);
            }
            shown
        };
        all.into_iter().map(shown).collect()
    }
}

impl Entry {
    /// When its certificate is renewed; at once where there is none. The authority's advice is followed, but not time after time.
    fn renew_at(&self, spread: u64) -> UnixSecs {
        let Some(validity) = self.validity else {
            return 0;
        };
        let usual = renew_at(validity, spread);
        let now = now();
        let advised = self.advice.as_ref().map(|it| it.renew_at(validity, spread));
        match advised {
            Some(at) if at <= now && self.has_followed(now) => usual,
            advised => advised.unwrap_or(usual),
        }
    }

    /// It was renewed on the authority's advice lately.
    fn has_followed(&self, now: UnixSecs) -> bool {
        let apart = ACME_ADVICE_APART.as_secs() as UnixSecs;
        self.followed_at
            .is_some_and(|at| at <= now && now < at + apart)
    }

    /// It is to be ordered now. After a failure that is some hours away at most, however wrong the clock was then.
    fn is_due(&self, now: UnixSecs) -> bool {
        let at = match self.shown.failures {
            0 => self.shown.next_order,
            _ => next_try(self.shown.next_order, now),
        };
        at <= now && !self.put_off.as_ref().is_some_and(|it| it.is_on(now))
    }
}

/// How long the certificate of a name is valid; nothing where there is none that can be used.
pub(super) fn validity_of(store: &Store, name: &str) -> Option<Validity> {
    let file = store.certificate(name);
    let certificates = files::certificates(&file).ok()?;
    validity(certificates.first()?)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use exos_program::UserArgs;
    use exos_tls::self_signed;

    use super::*;
    use crate::config::Config;

    pub(in super::super) const DAY: UnixSecs = 24 * 3600;

    /// A folder, and what is wanted there.
    pub(in super::super) fn wanted(names: &[&str]) -> (tempfile::TempDir, Wanted) {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        let text = format!(
            "[acme]\nstate = \"{}\"\n[[site]]\nroot = \"a\"\nnames = [{}]",
            folder.path().join("state").display(),
            names.join(", ")
        );
        let config = Config::parse("/x/serve.toml".as_ref(), &text).unwrap();
        let wanted = Wanted::of(&config).unwrap();
        wanted.store.make(&UserArgs::default()).unwrap();
        (folder, wanted)
    }

    /// A certificate comes that is valid for a year, since yesterday.
    fn certify(wanted: &Wanted, name: &str) {
        let (certificate, _) = self_signed::certificate(&[name.to_owned()]).unwrap();
        let text = BASE64_STANDARD.encode(&certificate);
        let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        wanted.store.set_certificate(name, pem.as_bytes()).unwrap();
    }

    pub(in super::super) fn failed(failure: Failure) -> Failed {
        Failed {
            what: "of this test".to_owned(),
            failure,
            wait: None,
        }
    }

    #[test]
    fn names_without_a_certificate_come_first_and_others_in_time() {
        let (_folder, wanted) = wanted(&["a.test", "b.test", "c.test"]);
        certify(&wanted, "a.test");
        let mut keeper = Known::default();
        keeper.know(&wanted);
        let due = |keeper: &Known, at| keeper.due(at, |_| false).map(|it| it.shown.name.clone());
        assert_eq!(due(&keeper, now()).as_deref(), Some("b.test"));
        certify(&wanted, "b.test");
        keeper.succeed(&wanted, "b.test", Kind::Http);
        assert_eq!(due(&keeper, now()).as_deref(), Some("c.test"));
        certify(&wanted, "c.test");
        keeper.succeed(&wanted, "c.test", Kind::Http);
        assert_eq!(due(&keeper, now() + 200 * DAY), None);
        assert!(
            due(&keeper, now() + 250 * DAY).is_some(),
            "two thirds are over"
        );
        assert!(keeper.shown().iter().all(|it| it.error.is_none()));
        // Another authority has given none of them.
        let other = Wanted {
            names: wanted.names.clone(),
            config: wanted.config.clone(),
            store: Store::of(&wanted.config.state, "https://other.test/dir"),
        };
        keeper.know(&other);
        assert_eq!(due(&keeper, now()).as_deref(), Some("a.test"));
        // A name that is wanted no more is forgotten, and so is what cannot be read.
        let fewer = Wanted {
            names: wanted.names[1..].to_vec(),
            config: wanted.config.clone(),
            store: wanted.store.clone(),
        };
        keeper.know(&fewer);
        assert_eq!(keeper.shown().len(), 2);
        wanted.store.set_certificate("a.test", b"broken").unwrap();
        keeper.know(&wanted);
        assert_eq!(due(&keeper, now()).as_deref(), Some("a.test"));
    }

    #[test]
    fn failures_are_forgiven_at_a_start_and_many_are_not() {
        let (_folder, wanted) = wanted(&["a.test"]);
        let mut keeper = Known::default();
        for failures in 1..=5 {
            keeper.know(&wanted);
            assert!(keeper.due(now(), |_| false).is_some() || failures > 1);
            keeper.fail(&wanted, "a.test", &failed(Failure::Refused));
            assert!(keeper.due(now(), |_| false).is_none(), "it waits");
            let shown = keeper.shown().remove(0);
            assert_eq!(shown.failures, failures);
            assert_eq!(shown.error.as_deref(), Some("of this test"));
            let mut started = Known::default();
            started.know(&wanted);
            let is_due = started.due(now(), |_| false).is_some();
            assert_eq!(is_due, failures <= ACME_FAILURES_FORGIVEN, "{failures}");
            // It looks again when it has the lock: there is nothing new, or another process has failed meanwhile.
            started.look(&wanted, "a.test", false);
            assert_eq!(started.due(now(), |_| false).is_some(), is_due);
            let record = wanted.store.record("a.test");
            let more = Record {
                failures: failures + 1,
                ..record.clone()
            };
            wanted.store.set_record("a.test", &more).unwrap();
            started.look(&wanted, "a.test", false);
            assert!(started.due(now(), |_| false).is_none());
            wanted.store.set_record("a.test", &record).unwrap();
        }
        certify(&wanted, "a.test");
        keeper.succeed(&wanted, "a.test", Kind::Http);
        assert_eq!(keeper.shown()[0].failures, 0);
        assert_eq!(wanted.store.record("a.test"), Record::default());
    }

    /// What an authority counts is kept also where a reload has dropped the name, or the authority, meanwhile.
    #[test]
    fn what_fails_that_is_not_wanted_any_more_is_kept_in_its_folder() {
        let (_folder, wanted) = wanted(&["a.test"]);
        let mut keeper = Known::default();
        keeper.know(&wanted);
        let before = Wanted {
            names: wanted.names.clone(),
            config: wanted.config.clone(),
            store: Store::of(&wanted.config.state, "https://other.test/dir"),
        };
        before.store.make(&UserArgs::default()).unwrap();
        for failures in 1..3 {
            keeper.fail(&before, "a.test", &failed(Failure::RateLimited));
            keeper.fail(&wanted, "b.test", &failed(Failure::Refused));
            assert_eq!(before.store.record("a.test").failures, failures);
            assert_eq!(wanted.store.record("b.test").failures, failures);
        }
        assert_eq!(keeper.shown()[0].failures, 0);
        assert!(
            keeper.due(now(), |_| false).is_some(),
            "nobody rests for it"
        );
    }

    #[test]
    fn the_other_way_is_taken_where_the_authority_did_not_find_us() {
        let (_folder, wanted) = wanted(&["a.test"]);
        let mut keeper = Known::default();
        keeper.know(&wanted);
        for (failure, next) in [
            (Failure::Unreached, Kind::Http),
            (Failure::Refused, Kind::Http),
            (Failure::NotFound(Kind::Http), Kind::TlsAlpn),
            (Failure::Unreached, Kind::TlsAlpn),
            (Failure::NotFound(Kind::TlsAlpn), Kind::Http),
        ] {
            keeper.fail(&wanted, "a.test", &failed(failure));
            assert_eq!(keeper.kind(&wanted.config, "a.test"), next, "{failure:?}");
        }
        let mut config = wanted.config.clone();
        config.challenge = Some(Kind::TlsAlpn);
        assert_eq!(keeper.kind(&config, "a.test"), Kind::TlsAlpn, "as is said");
        // The program that answers in DNS has failed, and is taken out: also for a server that starts again.
        let mut by_dns = Wanted {
            names: wanted.names.clone(),
            config: wanted.config.clone(),
            store: wanted.store.clone(),
        };
        by_dns.config.challenge = Some(Kind::Dns);
        keeper.fail(&by_dns, "a.test", &failed(Failure::NotFound(Kind::Dns)));
        assert_eq!(keeper.kind(&by_dns.config, "a.test"), Kind::Dns);
        let mut started = Known::default();
        started.know(&wanted);
        for keeper in [keeper, started] {
            assert_eq!(keeper.kind(&wanted.config, "a.test"), Kind::Http);
        }
    }

    #[test]
    fn the_authority_says_when_to_renew_but_not_time_after_time() {
        let (_folder, wanted) = wanted(&["a.test"]);
        let mut keeper = Known::default();
        keeper.know(&wanted);
        assert_eq!(keeper.to_ask_about(now()), None, "there is none yet");
        certify(&wanted, "a.test");
        keeper.succeed(&wanted, "a.test", Kind::Http);
        assert_eq!(keeper.to_ask_about(now()).as_deref(), Some("a.test"));
        let advice = |from: UnixSecs, until: UnixSecs| {
            let advice = Advice {
                from: now() + from,
                until: now() + until,
                explanation: None,
            };
            Advised::Renew(advice, Duration::from_secs(3600))
        };
        keeper.advise(&wanted, "a.test", advice(10 * DAY, 20 * DAY));
        let has_advice = |keeper: &Known| keeper.shown()[0].advised.is_some();
        assert!(has_advice(&keeper) && keeper.due(now() + 9 * DAY, |_| false).is_none());
        assert!(keeper.due(now() + 20 * DAY, |_| false).is_some());
        assert_eq!(
            keeper.to_ask_about(now() + 3500),
            None,
            "not before it says"
        );
        assert!(keeper.to_ask_about(now() + 3700).is_some());
        // It does not answer: what it has said stays so.
        keeper.advise(&wanted, "a.test", Advised::Failed);
        assert!(has_advice(&keeper));
        // A key has become known: at once.
        keeper.advise(&wanted, "a.test", advice(-20 * DAY, -DAY));
        assert!(keeper.due(now(), |_| false).is_some());
        certify(&wanted, "a.test");
        keeper.succeed(&wanted, "a.test", Kind::Http);
        assert!(keeper.due(now() + DAY, |_| false).is_none());
        // An authority that says so of each is in error.
        keeper.advise(&wanted, "a.test", advice(-20 * DAY, -DAY));
        assert!(keeper.due(now() + DAY, |_| false).is_none());
        keeper.advise(&wanted, "a.test", Advised::Nothing);
        assert_eq!(keeper.shown()[0].advised, None);
        assert_eq!(keeper.to_ask_about(now() + 400 * DAY), None, "it has ended");
    }

    #[test]
    fn an_authority_that_is_not_reached_is_not_asked_for_each_name() {
        let (_folder, wanted) = wanted(&["a.test", "b.test", "c.test"]);
        let mut keeper = Known::default();
        for name in ["a.test", "b.test", "c.test"] {
            certify(&wanted, name);
        }
        keeper.know(&wanted);
        keeper.advise(&wanted, "b.test", Advised::Failed);
        assert!(
            keeper.to_ask_about(now()).is_some(),
            "others may fare better"
        );
        keeper.advise(&wanted, "a.test", Advised::Unreached);
        assert_eq!(keeper.to_ask_about(now()), None);
        assert!(keeper.to_ask_about(now() + DAY).is_some());
    }

    /// An authority that bounds what an account orders would refuse the next name as well.
    #[test]
    fn a_rate_limit_is_not_tried_with_each_name() {
        let (_folder, wanted) = wanted(&["a.test", "b.test"]);
        let mut keeper = Known::default();
        keeper.know(&wanted);
        keeper.fail(&wanted, "a.test", &failed(Failure::RateLimited));
        assert!(keeper.due(now() + 50, |_| false).is_none());
        assert!(
            keeper.shown()[1].next_order > now() + 50,
            "as the page has it"
        );
        let due = keeper.due(now() + 70, |_| false);
        assert_eq!(due.unwrap().shown.name, "b.test");
        // By a clock that was ahead nobody rests for ever, nor does another authority.
        assert!(keeper.due(now() - DAY, |_| false).is_some());
        let other = Wanted {
            names: wanted.names.clone(),
            config: wanted.config.clone(),
            store: Store::of(&wanted.config.state, "https://other.test/dir"),
        };
        keeper.know(&other);
        assert!(keeper.due(now(), |_| false).is_some());
    }

    /// A certificate that has ended when it comes, by a wrong clock say, or by one that goes wrong.
    #[test]
    fn a_certificate_of_no_length_is_not_ordered_time_after_time() {
        let (_folder, wanted) = wanted(&["a.test"]);
        let mut keeper = Known::default();
        keeper.know(&wanted);
        wanted.store.set_certificate("a.test", b"broken").unwrap();
        keeper.succeed(&wanted, "a.test", Kind::Http);
        assert!(keeper.due(now() + 5, |_| false).is_none());
        assert!(keeper.due(now() + 11, |_| false).is_some());
    }

    /// What an authority has said once, or a clock that was wrong, keeps nobody from trying for ever.
    #[test]
    fn what_was_put_off_for_ever_is_tried() {
        let (_folder, wanted) = wanted(&["a.test"]);
        let record = Record {
            failures: 9,
            next_try: now() + 1000 * DAY,
            ..Record::default()
        };
        wanted.store.set_record("a.test", &record).unwrap();
        let mut keeper = Known::default();
        keeper.know(&wanted);
        assert!(keeper.due(now(), |_| false).is_some());
        let long = Failed {
            what: "x".repeat(100_000),
            failure: Failure::RateLimited,
            wait: Some(Duration::MAX),
        };
        keeper.fail(&wanted, "a.test", &long);
        assert!(
            keeper.due(now(), |_| false).is_none()
                && keeper.due(now() + 2 * DAY, |_| false).is_some()
        );
        let record = wanted.store.record("a.test");
        assert_eq!((record.failures, record.error.len()), (10, 2_000));
    }

    /// The clock was years ahead when an attempt failed, and is set right while the program runs.
    #[test]
    fn a_clock_that_is_set_back_keeps_nobody_waiting() {
        let (_folder, wanted) = wanted(&["a.test", "b.test"]);
        certify(&wanted, "b.test");
        let mut keeper = Known::default();
        keeper.know(&wanted);
        keeper.fail(&wanted, "a.test", &failed(Failure::Unreached));
        keeper.advise(&wanted, "b.test", Advised::Failed);
        assert!(keeper.due(now(), |_| false).is_none());
        assert_eq!(keeper.to_ask_about(now()), None);
        let right = now() - 3 * DAY;
        let due = keeper.due(right, |_| false).map(|it| it.shown.name.clone());
        assert_eq!(due.as_deref(), Some("a.test"));
        assert_eq!(keeper.to_ask_about(right).as_deref(), Some("b.test"));
    }
}
