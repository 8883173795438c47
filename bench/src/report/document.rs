//! What a session measured, for people: as text, and as a page of HTML that needs nothing else.

use super::figure::Figure;
use super::setting::Setting;
use super::table::{Table, Tabular};
use exos_program::html::{escape, page};

/// A report for people.
#[derive(Default)]
pub struct Document {
    /// The command that measured it.
    pub(crate) command: &'static str,
    pub(crate) title: &'static str,
    /// Where and how it was measured.
    pub(crate) lines: Vec<String>,
    pub(crate) sections: Vec<Section>,
    /// What was left out, and what distorts the numbers.
    pub(crate) remarks: Vec<String>,
}

/// A part of it, with figures on the page and tables in both.
#[derive(Default)]
pub(crate) struct Section {
    pub title: String,
    /// How to read it.
    pub note: &'static str,
    pub figures: Vec<Figure>,
    pub tables: Vec<Table>,
}

impl Section {
    /// A section with a table of cases.
    pub fn of<T: Tabular>(title: impl Into<String>, note: &'static str, cases: &[T]) -> Self {
        Self {
            title: title.into(),
            note,
            figures: Vec::new(),
            tables: vec![Table::of(cases)],
        }
    }

    /// With figures on the page.
    pub fn with_figures(self, figures: impl IntoIterator<Item = Figure>) -> Self {
        let figures = figures.into_iter().collect();
        Self { figures, ..self }
    }

    fn is_empty(&self) -> bool {
        self.tables.iter().all(|table| table.rows.is_empty())
    }
}

impl Document {
    /// Of an experiment that has a setting; its contenders are told of with their versions.
    pub(crate) fn of(
        (command, title): (&'static str, &'static str),
        setting: &Setting,
        versions: Vec<String>,
        sections: Vec<Section>,
    ) -> Self {
        Self {
            command,
            title,
            lines: vec![setting.line(), versions.join("; ")],
            sections,
            remarks: setting.remarks(),
        }
    }

    fn shown(&self) -> impl Iterator<Item = &Section> {
        self.sections.iter().filter(|section| !section.is_empty())
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut out = self.title.to_owned() + "\n";
        let lines =
            |lines: &[String]| -> String { lines.iter().map(|line| format!("{line}\n")).collect() };
        out += &lines(&self.lines);
        for section in self.shown() {
            let end = if section.note.is_empty() { "" } else { ". " };
            out += &format!("\n{}{end}{}\n", section.title, section.note);
            out.extend(section.tables.iter().map(Table::text));
        }
        let remarks = lines(&self.remarks);
        if !remarks.is_empty() {
            out += &format!("\n{remarks}");
        }
        out
    }

    /// As a page of HTML.
    pub fn html(&self) -> String {
        let paragraph = |text: &str| match text {
            "" => String::new(),
            text => format!("<p>{}</p>\n", escape(text)),
        };
        let mut out = format!("<h1>{}</h1>\n", escape(self.title));
        let lines = self.lines.iter().chain(&self.remarks);
        out.extend(lines.map(|line| paragraph(line)));
        for section in self.shown() {
            out += &format!("<h2>{}</h2>\n", escape(&section.title));
            out += &paragraph(section.note);
            out.extend(section.figures.iter().map(Figure::html));
            out.extend(section.tables.iter().map(Table::html));
        }
        page(self.command, &out)
    }
}
