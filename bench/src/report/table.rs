//! Tables: rows of cells below the heads of their columns, as text and as HTML.

use exos_program::html;

/// A column's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub text: &'static str,
    /// Words begin below one another, numbers end so.
    pub is_text: bool,
}

/// What a table can show.
pub(crate) trait Tabular: Sized {
    fn heads() -> Vec<Head>;

    /// Its rows, with a cell for each head.
    fn rows(&self) -> Vec<Vec<String>>;
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
    pub(crate) fn of<T: Tabular>(cases: &[T]) -> Self {
        let heads = T::heads();
        Self {
            title: String::new(),
            heads: heads.iter().map(|head| head.text.to_owned()).collect(),
            is_text: heads.iter().map(|head| head.is_text).collect(),
            rows: cases.iter().flat_map(T::rows).collect(),
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
    use crate::report::{Case, Column, Contender as _, median, outcomes, sum};
    use serde_json::json;

    outcomes! {
        /// What a colour weighs.
        pub struct Weighed of
        /// The colour.
        colour: String, "colour";
        /// Once.
        pub struct Weighing {
            /// The weight in grams.
            weight_g: f64 as median, "weight" 1;
            /// Seeds that were found.
            seeds: u64 as sum, "seeds", "per g" 2 |r| r.seeds as f64 / r.weight_g;
        }
    }

    struct Fruit(&'static str, Vec<Weighed>);

    impl Case for Fruit {
        type Outcome = Weighed;
        const NAMES: &'static str = "fruit";
        const MORE: &'static [Column<Self, Weighed>] = &[Column::text("is", |fruit, o| {
            format!("{} {}", o.colour, fruit.0)
        })];

        fn parts(&self) -> (&str, &[Weighed]) {
            (self.0, &self.1)
        }
    }

    #[test]
    fn text_and_html_come_from_one_list_of_columns() {
        let weighed = |colour: &str, weights: &[f64]| {
            let once = |&weight_g: &f64| Weighing { weight_g, seeds: 2 };
            Weighed::of(colour.to_owned(), weights.iter().map(once).collect())
        };
        let apples = vec![
            weighed("red", &[90.0, 100.0, 300.0]),
            weighed("<green>", &[90.25]),
        ];
        let apple = Fruit("apple", apples);
        let table = Table::of(&[apple, Fruit("plum", vec![weighed("blue", &[10.0])])]);
        let text = "fruit  colour   weight  seeds  per g  is\n\
                    apple  red       100.0      6   0.06  red apple\n       \
                           <green>    90.2      2   0.02  <green> apple\n\
                    plum   blue       10.0      2   0.20  blue plum\n";
        assert_eq!(table.text(), text);
        let html = table.html();
        assert!(html.contains("<th>weight</th><th>seeds</th>"));
        assert!(html.contains("<tr><td>apple</td><td>&lt;green&gt;</td><td>90.2</td>"));
        let json = serde_json::to_value(weighed("red", &[1.0, 3.0])).expect("plain data");
        let runs = [(1.0, 2), (3.0, 2)].map(|(g, n)| json!({"weight_g": g, "seeds": n}));
        let all = json!({"colour": "red", "weight_g": 2.0, "seeds": 4, "runs": runs});
        assert_eq!(json, all);
    }
}
