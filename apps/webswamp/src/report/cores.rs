//! The results of one generator's cores as its own. They are added up as those of several generators are
//! ([`super::merge`]), but for what is said of the generator: it is one, and as busy as its busiest core.

use super::results::{Generator, Results};

impl Results {
    /// Those of a generator, of those that each of its cores has seen; the first core's come first.
    ///
    /// # Panics
    ///
    /// There is no core.
    pub fn of_cores(parts: Vec<Self>) -> Self {
        // All began at the same moment.
        let measured = parts.iter().map(|part| part.measured_secs);
        let measured_secs = measured.fold(0.0, f64::max);
        let mut parts = parts.into_iter();
        let mut all = parts.next().expect("a generator has a core");
        parts.for_each(|part| all.add(&part));
        let generators = std::mem::take(&mut all.generators).into_iter();
        let generator = generators.reduce(Generator::and);
        Self {
            measured_secs,
            generators: generator.into_iter().collect(),
            ..all
        }
    }
}

impl Generator {
    /// With what others of its cores have made.
    fn and(self, other: Self) -> Self {
        let log = self.log.zip(other.log).map(|(mut log, its)| {
            log.begun += its.begun;
            log
        });
        Self {
            log,
            responses: self.responses + other.responses,
            busy_share: self.busy_share.max(other.busy_share),
            processor_secs: self.processor_secs + other.processor_secs,
            cores: [self.cores, other.cores].concat(),
            ..self
        }
    }

    /// How busy it was.
    pub(super) fn busy_text(&self) -> String {
        format!("{:.0} %{}", 100.0 * self.busy_share, self.cores_text())
    }

    /// How busy each of its cores was, in brackets; nothing of one alone.
    pub(super) fn cores_text(&self) -> String {
        if self.cores.len() < 2 {
            return String::new();
        }
        let each = self.cores.iter().zip(1..).map(|(on, place)| {
            let core = on
                .core
                .map_or(format!("loop {place}"), |n| format!("core {n}"));
            let by = on.interface.as_ref();
            let by = by.map_or(String::new(), |interface| format!(" by {interface}"));
            format!("{core}{by}: {:.0} %", 100.0 * on.busy_share)
        });
        format!(" ({})", each.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::super::{Limit, OnCore, Verdict};
    use super::*;
    use crate::driver::replay::Extent;

    fn of_core(core: usize, busy_share: f64) -> Results {
        let mut it = results(1e9, 500);
        let generator = &mut it.generators[0];
        let parameters = [("loop", "closed".into()), ("connections", 64.into())];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value));
        generator.parameters.extend(parameters);
        generator.busy_share = busy_share;
        generator.log = Some(Extent {
            requests: 1000,
            begun: 300 + core as u64,
            ..Extent::default()
        });
        generator.cores = vec![OnCore {
            core: Some(core),
            interface: None,
            responses: generator.responses,
            busy_share,
            processor_secs: generator.processor_secs,
        }];
        it
    }

    #[test]
    fn cores_are_one_generator() {
        let all = Results::of_cores(vec![of_core(2, 0.25), of_core(5, 0.5)]);
        let [generator] = &all.generators[..] else {
            panic!("{:?}", all.generators);
        };
        assert_eq!((generator.responses, all.responses), (1800, 1800));
        assert_eq!((generator.busy_share, generator.processor_secs), (0.5, 5.0));
        let cores: Vec<_> = generator.cores.iter().map(|on| on.core).collect();
        assert_eq!(cores, [Some(2), Some(5)]);
        // A log is one, of which each core has begun a part.
        let log = generator.log.as_ref().map(|log| (log.requests, log.begun));
        assert_eq!(log, Some((1000, 607)));
        assert_eq!(all.measured_secs, 9.0);
        assert_eq!((all.seconds.len(), all.seconds[3].responses), (10, 200));
        assert_eq!(all.times_us.total.0.len(), 1800);
        let said = all.text();
        assert!(
            said.contains("busy for 50 % of the time (core 2: 25 %, core 5: 50 %)"),
            "{said}"
        );
        // Clients are those of the whole load, not of each core.
        assert!(said.contains("64 clients waited"), "{said}");
        assert_eq!(Results::from_json(&all.json()).unwrap(), all);
    }

    /// What the others could have done is no use to the clients of the busiest.
    #[test]
    fn the_busiest_core_is_the_limit() {
        let all = Results::of_cores(vec![of_core(0, 0.1), of_core(1, 0.95)]);
        let verdict = Verdict::of(&all);
        assert_eq!(verdict.limited_by, Limit::Generator);
        assert!(
            verdict
                .text()
                .contains("the busiest of our loops was busy for 95.0 %")
        );
    }

    /// One that had nothing to do has measured nothing, and is no reason not to add the others up.
    #[test]
    fn a_core_without_work() {
        let mut idle = of_core(0, 0.0);
        idle.measured_secs = 0.0;
        let all = Results::of_cores(vec![idle, of_core(1, 0.5)]);
        assert_eq!(all.measured_secs, 9.0);
    }

    #[test]
    fn one_core_is_itself() {
        let one = of_core(0, 0.5);
        assert_eq!(one.generators[0].busy_text(), "50 %");
        assert_eq!(Results::of_cores(vec![one.clone()]), one);
    }
}
