//! Charts of figures beside their tables: bars where several ways are compared, at several lengths or sizes.

use super::figure::{Figure, find};
use crate::report::figure::{Figure as Chart, group};

/// Bars of figures whose names differ in the group, in the series and in what a chart of its own is drawn for.
pub(super) struct Comparison {
    pub title: &'static str,
    pub note: &'static str,
    pub label: &'static str,
    /// Names of figures: `KIND`, `GROUP` and `SERIES` stand for the words of those.
    pub names: &'static str,
    /// Titles, and words.
    pub kinds: &'static [[&'static str; 2]],
    pub groups: &'static [[&'static str; 2]],
    /// As the legend and the names have them.
    pub series: &'static [&'static str],
}

/// Where there is one chart, or one group.
pub(super) const ALONE: &[[&str; 2]] = &[["", ""]];

impl Comparison {
    /// Of those that belong to a group with this title.
    pub fn drawn_of(
        all: &[(&str, Self)],
        title: &str,
        figures: &[Figure],
    ) -> impl Iterator<Item = Chart> {
        let of_group = all.iter().filter(move |(group, _)| *group == title);
        of_group.filter_map(move |(_, comparison)| comparison.drawn(figures))
    }

    /// Nothing where none of its figures was measured; kinds and groups without figures are left out.
    fn drawn(&self, figures: &[Figure]) -> Option<Chart> {
        let value = |kind: &str, group: &str, series: &str| {
            let name = self.names.replace("KIND", kind).replace("GROUP", group);
            find(figures, &name.replace("SERIES", series)).map(|figure| figure.value)
        };
        let measured = |(kind, group): &(&[&str; 2], &[&str; 2])| {
            let mut series = self.series.iter();
            series.any(|series| value(kind[1], group[1], series).is_some())
        };
        let of_kind = |kind| self.groups.iter().map(move |group| (kind, group));
        let cases = self.kinds.iter().flat_map(of_kind).filter(measured);
        Chart::bars(
            (self.title, self.note),
            (self.label, None),
            self.series,
            cases,
            |(kind, _)| kind[0].to_owned(),
            |(kind, at)| {
                let bar = |series: &str| value(kind[1], at[1], series).map(|v| (v, v));
                group(at[0].to_owned(), self.series, bar, None)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::figure::Figures;

    #[test]
    fn groups_that_were_measured_have_bars() {
        let mut figures = Figures::default();
        figures.add("get/tcp/handler", "req/s", 2000.0);
        figures.add("get/tcp/memcached", "req/s", 1000.0);
        let comparison = Comparison {
            title: "Values",
            note: "",
            label: "requests a second",
            names: "get/GROUP/SERIES",
            kinds: ALONE,
            groups: &[["64 under way", "udp"], ["50 connections", "tcp"]],
            series: &["handler", "memcached", "stack"],
        };
        let (all, figures) = ([("get", comparison)], figures.into_vec());
        assert!(
            Comparison::drawn_of(&all, "pipes", &figures)
                .next()
                .is_none()
        );
        let chart = Comparison::drawn_of(&all, "get", &figures).next();
        let html = chart.expect("rates").html();
        assert_eq!(html.matches("<rect").count(), 2);
        assert!(html.contains("50 connections") && !html.contains("64 under way"));
    }
}
