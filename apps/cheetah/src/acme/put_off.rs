//! A name that has lost certificates is put off, so that its authority would sign no more of them.

use exos_tls::certificate::UnixSecs;

use super::schedule::length;
use super::state::Shown;
use super::wanted::Wanted;
use crate::limits::{ACME_SIGNED_MAX, ACME_SIGNED_TIME};

/// Until when nothing is ordered of a name, in seconds since 1970, and why.
#[derive(Debug)]
pub(super) struct PutOff {
    until: UnixSecs,
    why: String,
}

impl PutOff {
    /// Of a name as it is known, where the authority has signed as many certificates for it as it does in a week, and the next has to wait.
    pub(super) fn of(wanted: &Wanted, known: &Shown, now: UnixSecs) -> Option<Self> {
        let (store, name) = (&wanted.store, &known.name);
        let wait = store.signed(name).wait(now);
        if wait == 0 {
            return None;
        }
        let last = known.error.as_deref();
        let last = last.map_or(String::new(), |error| {
            format!("; the last has failed: {error}")
        });
        let why = format!(
            "{} was asked for {ACME_SIGNED_MAX} certificates of {name} lately that are not kept in {}, and bounds how many it signs; when that is mended, remove {} and restart, or wait{last}",
            wanted.config.directory,
            store.certificate(name).display(),
            store.signed_file(name).display(),
        );
        exos_program::warn!(
            "exos serve: no certificate for {name}: {why}; the next is ordered in {}",
            length(wait)
        );
        let until = now + wait;
        Some(Self { until, why })
    }

    /// It holds now: for some hours at most, however wrong the clock was when it began.
    pub(super) fn is_on(&self, now: UnixSecs) -> bool {
        let longest = ACME_SIGNED_TIME.as_secs() as UnixSecs;
        (now + 1..=now + longest).contains(&self.until)
    }

    /// What is shown of the name meanwhile.
    pub(super) fn show(&self, shown: &mut Shown) {
        shown.next_order = shown.next_order.max(self.until);
        shown.failures = shown.failures.max(1);
        shown.error = Some(self.why.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::known::Known;
    use super::super::known::tests::{DAY, failed, wanted};
    use super::super::schedule::{Failure, now};
    use super::*;

    /// What is lost time after time, by a crash before it is kept say, is not ordered until the authority signs nothing more.
    #[test]
    fn a_name_that_loses_its_certificates_is_put_off_and_no_other() {
        let (_folder, wanted) = wanted(&["a.test", "b.test"]);
        let store = &wanted.store;
        for _ in 0..ACME_SIGNED_MAX {
            let mut started = Known::default();
            started.know(&wanted);
            assert!(!started.put_off(&wanted, "a.test"));
            let signed = store.signed("a.test").spend(now());
            store.set_signed("a.test", signed).unwrap();
        }
        let mut started = Known::default();
        started.know(&wanted);
        assert!(started.put_off(&wanted, "a.test") && !started.put_off(&wanted, "b.test"));
        let due = |known: &Known, at| {
            let due = known.due(at, |name| name == "b.test");
            due.map(|it| it.shown.name.clone())
        };
        let (begun, hour) = (now(), 3600);
        assert!(started.due(begun, |_| false).unwrap().shown.name == "b.test");
        // What is read from the folder meanwhile, for the authority's advice say, is no reason to order sooner.
        started.look(&wanted, "a.test", false);
        assert_eq!(due(&started, begun + 33 * hour), None);
        assert_eq!(due(&started, begun + 35 * hour).as_deref(), Some("a.test"));
        // By a clock that is set back it does not wait any longer than that.
        assert!(due(&started, begun - DAY).is_some());
        let shown = started.shown().remove(0);
        let why = shown.error.unwrap();
        let file = store.signed_file("a.test").display().to_string();
        assert!(
            why.contains("5 certificates of a.test") && why.contains(&file),
            "{why}"
        );
        assert_eq!(shown.failures, 1);
        assert!((begun + 33 * hour..begun + 35 * hour).contains(&shown.next_order));
        // Nor is a failure, which is told, too.
        started.fail(&wanted, "a.test", &failed(Failure::Refused));
        assert!(started.put_off(&wanted, "a.test"));
        assert_eq!(due(&started, begun + 33 * hour), None);
        assert!(
            started
                .shown()
                .remove(0)
                .error
                .unwrap()
                .contains("of this test")
        );
        // As its file is removed, it is ordered.
        std::fs::remove_file(store.signed_file("a.test")).unwrap();
        assert!(!started.put_off(&wanted, "a.test"));
        assert!(due(&started, begun + hour).is_some());
    }
}
