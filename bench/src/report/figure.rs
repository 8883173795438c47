//! Figures of bars: for each kind of case one, in which each case is a group of contenders.

use exos_program::figure::{self, Bar, Bars, number};
use exos_program::html::escape;

/// Some figures of the same quantity.
pub(crate) struct Figure {
    title: &'static str,
    /// How to read them.
    note: &'static str,
    legend: String,
    /// The title of each, where it has one, and what it shows as SVG.
    parts: Vec<(String, String)>,
}

impl Figure {
    /// Figures that were drawn already, in the colours of these series.
    pub fn drawn<'s>(
        (title, note): (&'static str, &'static str),
        series: impl IntoIterator<Item = (usize, &'s str)>,
        parts: Vec<(String, String)>,
    ) -> Self {
        Self {
            title,
            note,
            legend: figure::legend(series),
            parts,
        }
    }

    /// Bars of a quantity, which `label` says, and a line across them: a figure for each kind of case, and in it a group for each case.
    pub fn bars<C>(
        about: (&'static str, &'static str),
        (label, across): (&str, Option<f64>),
        series: &[&str],
        cases: impl IntoIterator<Item = C>,
        kind: impl Fn(&C) -> String,
        group: impl Fn(&C) -> Bars,
    ) -> Option<Self> {
        let mut kinds: Vec<(String, Vec<Bars>)> = Vec::new();
        for case in cases {
            let (kind, group) = (kind(&case), group(&case));
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, groups)) => groups.push(group),
                None => kinds.push((kind, vec![group])),
            }
        }
        kinds.retain(|(_, groups)| groups.iter().any(|g| g.bars.iter().any(Option::is_some)));
        let draw =
            |(kind, groups): (String, Vec<Bars>)| (kind, figure::bars(label, &groups, across));
        let parts: Vec<_> = kinds.into_iter().map(draw).collect();
        let series = series.iter().copied().enumerate();
        (!parts.is_empty()).then(|| Self::drawn(about, series, parts))
    }

    /// Bars of a quantity by that of a peer, with the quantity above them; the line is another case's quantity by the peer's.
    pub fn by_peer<C>(
        about: (&'static str, &'static str),
        (label, peer): (&str, &str),
        series: &[&str],
        cases: impl IntoIterator<Item = C>,
        (kind, name): (impl Fn(&C) -> String, impl Fn(&C) -> String),
        value: impl Fn(&C, &str) -> Option<f64>,
        line: impl Fn(&C) -> Option<f64>,
    ) -> Option<Self> {
        let label = (label, Some(1.0));
        Self::bars(about, label, series, cases, kind, |case| {
            let peer = value(case, peer).filter(|value| *value > 0.0);
            let bar = |contender: &str| {
                let own = value(case, contender)?;
                Some((own / peer?, own))
            };
            let line = peer.and_then(|peer| Some(line(case)? / peer));
            group(name(case), series, bar, line)
        })
    }

    /// As HTML.
    pub fn html(&self) -> String {
        let parts = self.parts.iter();
        let parts = parts.map(|(title, svg)| match title.as_str() {
            "" => svg.clone(),
            title => format!("<h4>{}</h4>\n{svg}", escape(title)),
        });
        let note = match self.note {
            "" => String::new(),
            note => format!("<p>{}</p>\n", escape(note)),
        };
        let (title, legend) = (escape(self.title), &self.legend);
        format!(
            "<h3>{title}</h3>\n{note}{legend}{}",
            parts.collect::<String>()
        )
    }
}

/// A group of bars, one for each series: how high it is, and the number above it. The dashed line is one across the group.
pub(crate) fn group(
    name: String,
    series: &[&str],
    value: impl Fn(&str) -> Option<(f64, f64)>,
    line: Option<f64>,
) -> Bars {
    let bar = |(series, name): (usize, &&str)| {
        let (value, above) = value(name)?;
        let text = number(above);
        Some(Bar {
            series,
            value,
            text,
        })
    };
    Bars {
        name,
        bars: series.iter().enumerate().map(bar).collect(),
        line,
    }
}
