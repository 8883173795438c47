//! Tables: a list of columns for each kind of case, from which text and HTML come.

use exos_program::html;

/// What was measured together, shown as some rows of a table.
pub(crate) trait Tabular: Sized + 'static {
    /// What a row shows: what one contender did.
    type Row;
    /// What the names in the first column are.
    const NAMES: &'static str;
    /// The other columns.
    const COLUMNS: &'static [Column<Self, Self::Row>];

    fn name(&self) -> String;
    fn rows(&self) -> &[Self::Row];
}

/// A column: its head, and what it says in a row of a case.
pub(crate) struct Column<C, R> {
    head: &'static str,
    is_text: bool,
    value: fn(&C, &R) -> String,
}

impl<C, R> Column<C, R> {
    /// A column of words, which begin below one another.
    pub const fn text(head: &'static str, value: fn(&C, &R) -> String) -> Self {
        Self {
            head,
            is_text: true,
            value,
        }
    }

    /// A column of numbers, which end below one another.
    pub const fn number(head: &'static str, value: fn(&C, &R) -> String) -> Self {
        Self {
            head,
            is_text: false,
            value,
        }
    }
}

/// A number with this many digits behind the point.
pub(crate) fn fixed(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

/// A number as [`fixed`] writes it, or a dash where nothing was measured.
pub(crate) fn fixed_or_none(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| fixed(value, digits))
}

/// Parts of one as percent, without the sign.
pub(crate) fn percent(parts: [f64; 2]) -> String {
    parts.map(|part| fixed(100.0 * part, 0)).join("/")
}

/// A part of one as percent, without the sign.
pub(crate) fn percent_of(part: f64) -> String {
    fixed(100.0 * part, 0)
}

/// Rows of text below heads.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it is a table of, where there are several; may be empty.
    pub title: String,
    pub(crate) heads: Vec<String>,
    /// For each column, whether it is one of words.
    pub(crate) is_text: Vec<bool>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Of cases, by their columns.
    pub(crate) fn of<C: Tabular>(cases: &[C]) -> Self {
        let row = |case: &C, row: &C::Row| {
            let values = C::COLUMNS.iter().map(|column| (column.value)(case, row));
            [case.name()].into_iter().chain(values).collect()
        };
        let rows = cases
            .iter()
            .flat_map(|case| case.rows().iter().map(move |r| row(case, r)));
        let heads = C::COLUMNS.iter().map(|column| column.head.to_owned());
        let is_text = C::COLUMNS.iter().map(|column| column.is_text);
        Self {
            title: String::new(),
            heads: [C::NAMES.to_owned()].into_iter().chain(heads).collect(),
            is_text: [true].into_iter().chain(is_text).collect(),
            rows: rows.collect(),
        }
    }

    /// Its rows as lines of text; a name that is the one above is left out.
    pub(crate) fn rows_text(&self) -> String {
        let mut out = String::new();
        let mut above = None;
        for row in &self.rows {
            let name = row.first();
            let is_named = above != name;
            above = name;
            let cell = |(at, cell): (usize, &String)| {
                let is_left_out = at == 0 && !is_named;
                if is_left_out {
                    String::new()
                } else {
                    cell.clone()
                }
            };
            out += &self.line(row.iter().enumerate().map(cell));
        }
        out
    }

    /// All of it as lines of text.
    pub(crate) fn text(&self) -> String {
        let title = if self.title.is_empty() {
            String::new()
        } else {
            format!("{}\n", self.title)
        };
        title + &self.line(self.heads.iter().cloned()) + &self.rows_text()
    }

    fn line(&self, cells: impl Iterator<Item = String>) -> String {
        let cells = cells.enumerate().map(|(at, cell)| {
            let width = self.width(at);
            match self.is_text[at] {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned() + "\n"
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| &row[column]);
        let widths = cells
            .chain([&self.heads[column]])
            .map(|c| c.chars().count());
        widths.max().unwrap_or(0)
    }

    /// As a table of HTML.
    pub(crate) fn html(&self) -> String {
        let title = if self.title.is_empty() {
            String::new()
        } else {
            format!("<h3>{}</h3>\n", html::escape(&self.title))
        };
        let heads: Vec<&str> = self.heads.iter().map(String::as_str).collect();
        title + &html::table(&heads, self.rows.iter().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fruit(&'static str, Vec<(&'static str, f64)>);

    impl Tabular for Fruit {
        type Row = (&'static str, f64);
        const NAMES: &'static str = "fruit";
        const COLUMNS: &'static [Column<Self, Self::Row>] = &[
            Column::text("colour", |_, row| row.0.to_owned()),
            Column::number("weight", |_, row| fixed(row.1, 1)),
        ];

        fn name(&self) -> String {
            self.0.to_owned()
        }

        fn rows(&self) -> &[Self::Row] {
            &self.1
        }
    }

    #[test]
    fn text_and_html_come_from_one_list_of_columns() {
        let apple = Fruit("apple", vec![("red", 100.0), ("<green>", 90.25)]);
        let table = Table::of(&[apple, Fruit("plum", vec![("blue", 10.0)])]);
        let text = "fruit  colour   weight\n\
                    apple  red       100.0\n       \
                           <green>    90.2\n\
                    plum   blue       10.0\n";
        assert_eq!(table.text(), text);
        let html = table.html();
        assert!(html.contains("<tr><th>fruit</th><th>colour</th><th>weight</th></tr>"));
        assert!(html.contains("<tr><td>apple</td><td>&lt;green&gt;</td><td>90.2</td></tr>"));
    }
}
