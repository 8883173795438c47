//! Pages of HTML that need nothing else: their frame, tables, and text in them.

/// How figures, tables and text look, by day and by night.
const STYLE: &str = include_str!("page.css");

/// A page with this title and body.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escape(title)
    )
}

/// A table of text.
pub fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = String>| -> String {
        let cells: String = cells
            .map(|c| format!("<{tag}>{}</{tag}>", escape(&c)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let head = cells("th", &mut head.iter().map(|h| (*h).to_owned()));
    let rows: String = rows.map(|row| cells("td", &mut row.into_iter())).collect();
    format!("<div class=\"wide\"><table>\n{head}{rows}</table></div>\n")
}

/// Text as HTML takes it for text, in elements and in attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_text_is_markup() {
        assert_eq!(
            escape("a<b> & \"c\" 'ä'"),
            "a&lt;b&gt; &amp; &quot;c&quot; &#39;ä&#39;"
        );
    }

    #[test]
    fn text_in_pages_is_text() {
        let rows = [vec!["<i>".to_owned(), "1".to_owned()]];
        let page = page("a<b", &table(&["x&y", ""], rows.into_iter()));
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</body></html>\n"));
        assert!(page.contains("<title>a&lt;b</title>") && page.contains("svg text"));
        assert!(
            page.contains(
                "<tr><th>x&amp;y</th><th></th></tr>\n<tr><td>&lt;i&gt;</td><td>1</td></tr>"
            )
        );
    }
}
