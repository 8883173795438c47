//! The results of several generators that ran together, as those of one.

use exos_host::{Error, Result};

use super::numbers::add_counts;
use super::results::{Generator, Results};
use crate::statistics::Second;

/// Adds them up: counts and histograms exactly, seconds by the time of day at which they began. The measured time is from
/// the first one's begin to the last one's end.
///
/// # Errors
///
/// They did not run at the same time, so that the sum would be no load that ever was.
pub fn merge(parts: Vec<Results>) -> Result<Results> {
    let mut parts = parts.into_iter();
    let first = parts.next();
    let mut all = first.ok_or_else(|| Error::new("there is nothing to merge"))?;
    for part in parts {
        all.refuse_another_time(&part)?;
        all.add(&part);
    }
    Ok(all)
}

/// What a person should know of merged generators: that chance decided the same for two of them, as it does with one seed.
/// They asked for the same documents in the same order, or at the same times.
pub fn warning(all: &Results) -> Option<String> {
    let seed = |g: &Generator| {
        let parameter = |name: &str| g.parameters.get(name).filter(|value| !value.is_null());
        let is_chance = parameter("surge").is_some()
            || parameter("urls").is_some()
            || parameter("arrivals").is_some_and(|arrivals| arrivals == "poisson");
        parameter("seed")
            .filter(|_| is_chance)
            .map(ToString::to_string)
    };
    let mut seeds: Vec<String> = all.generators.iter().filter_map(seed).collect();
    seeds.sort_unstable();
    let same = seeds.windows(2).find(|two| two[0] == two[1])?;
    Some(format!(
        "several of these loads had --seed {}, so that chance decided the same for each: give every machine a seed of its own",
        same[0]
    ))
}

impl Results {
    /// When the measured time began and ended, in seconds since 1970.
    fn measured(&self) -> (f64, f64) {
        let from = self.started_unix_secs + self.warm_up_secs;
        (from, from + self.measured_secs)
    }

    fn refuse_another_time(&self, other: &Self) -> Result<()> {
        let ((from, until), (its_from, its_until)) = (self.measured(), other.measured());
        if from >= its_until || its_from >= until {
            let who = &other.generators[0];
            return Err(Error::new(format!(
                "the load of {} that began at {:.0} did not run while the others did",
                who.url, who.started_unix_secs
            ))
            .mend("merge what ran at the same time (--start-at); to see changes, compare"));
        }
        Ok(())
    }

    /// Adds another's to them.
    pub(super) fn add(&mut self, other: &Self) {
        let ((from, until), (its_from, its_until)) = (self.measured(), other.measured());
        self.add_seconds(other);
        self.started_unix_secs = self.started_unix_secs.min(other.started_unix_secs);
        self.warm_up_secs = from.min(its_from) - self.started_unix_secs;
        self.measured_secs = until.max(its_until) - from.min(its_from);
        self.responses += other.responses;
        self.connections += other.connections;
        self.response_bytes += other.response_bytes;
        self.content_bytes += other.content_bytes;
        add_counts(&mut self.statuses, &other.statuses);
        add_counts(&mut self.errors, &other.errors);
        add_counts(&mut self.counters, &other.counters);
        let (mine, its) = (&mut self.times_us, &other.times_us);
        mine.connect.add(&its.connect);
        mine.handshake.add(&its.handshake);
        mine.first_byte.add(&its.first_byte);
        mine.service.add(&its.service);
        mine.total.add(&its.total);
        mine.slip.add(&its.slip);
        if let Some(its) = &other.tls {
            self.tls.get_or_insert_default().add(its);
        }
        if let Some(its) = &other.http2 {
            self.http2.get_or_insert_default().add(its);
        }
        if let Some(its) = &other.http3 {
            self.http3.get_or_insert_default().add(its);
        }
        self.longest_silence = self.longest_silence.or(other.longest_silence);
        self.generators.extend(other.generators.iter().cloned());
    }

    /// The nearest seconds, of clocks that do not begin theirs at once.
    fn add_seconds(&mut self, other: &Self) {
        let later = (other.started_unix_secs - self.started_unix_secs).round();
        let mut place = later.max(0.0) as usize;
        if later < 0.0 {
            let before = vec![empty(); -later as usize];
            self.seconds.splice(0..0, before);
            place = 0;
        }
        let length = self.seconds.len().max(place + other.seconds.len());
        self.seconds.resize(length, empty());
        for (mine, its) in self.seconds[place..].iter_mut().zip(&other.seconds) {
            mine.add(its);
        }
    }
}

/// A second in which nothing ended.
fn empty() -> Second {
    Second {
        times: Some(Vec::new()),
        ..Second::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::results;
    use super::*;

    #[test]
    fn sums_of_counts_and_times() {
        let (a, b) = (results(1e9, 500), results(1e9, 9000));
        let all = merge(vec![a.clone(), b]).unwrap();
        assert_eq!((all.responses, all.connections), (1800, 1800));
        assert_eq!(
            (all.measured_secs, all.per_second(all.responses)),
            (9.0, 200.0)
        );
        assert_eq!((all.statuses[&404], all.errors["reset"]), (18, 2));
        assert_eq!(all.counter("tcp_segments_sent"), 4000);
        let total = &all.times_us.total;
        assert_eq!(total.0.len(), 1800);
        assert!(total.at(0.49).unwrap() < 510 && total.at(0.51).unwrap() >= 8990);
        assert_eq!(all.generators.len(), 2);
        assert_eq!((all.seconds.len(), all.seconds[3].responses), (10, 200));
        assert_eq!(merge(vec![a.clone()]).unwrap(), a);
    }

    /// Whichever comes first in the list, seconds are added that were the same time of day.
    #[test]
    fn seconds_have_their_places() {
        let (early, late) = (results(1e9, 500), results(1e9 + 3.1, 500));
        for parts in [[early.clone(), late.clone()], [late, early]] {
            let all = merge(parts.to_vec()).unwrap();
            let counts: Vec<u64> = all.seconds.iter().map(|s| s.responses).collect();
            let wanted = [
                100, 100, 100, 200, 200, 200, 200, 200, 200, 200, 100, 100, 100,
            ];
            assert_eq!(counts, wanted);
            assert_eq!(all.started_unix_secs, 1e9);
            assert!((all.measured_secs - 12.1).abs() < 1e-6);
            assert!((all.warm_up_secs - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn what_ran_one_after_the_other_is_not_added() {
        let error = merge(vec![results(1e9, 500), results(1e9 + 60.0, 500)]).unwrap_err();
        assert!(
            error.to_string().contains("while the others did"),
            "{error}"
        );
        assert!(merge(Vec::new()).is_err());
    }

    #[test]
    fn the_same_chance_twice_is_said() {
        let load = |parameters: serde_json::Value| {
            let mut load = results(1e9, 500);
            let object = parameters.as_object().expect("it is written as one");
            load.generators[0].parameters = object.clone();
            load
        };
        let warned =
            |parts: [serde_json::Value; 2]| warning(&merge(parts.map(load).into()).unwrap());
        let surge = |seed: u64| json!({"seed": seed, "surge": "set", "urls": null});
        assert!(warned([surge(7), surge(7)]).unwrap().contains("--seed 7"));
        assert_eq!(warned([surge(7), surge(8)]), None);
        let even = json!({"seed": 7, "surge": null, "arrivals": "even"});
        assert_eq!(warned([even.clone(), even.clone()]), None);
        assert_eq!(warned([even, surge(7)]), None);
        let poisson = json!({"seed": 1, "arrivals": "poisson"});
        assert!(warned([poisson.clone(), poisson]).is_some());
    }
}
