//! Text in pages of HTML.

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
    use super::escape;

    #[test]
    fn nothing_in_text_is_markup() {
        assert_eq!(
            escape("a<b> & \"c\" 'ä'"),
            "a&lt;b&gt; &amp; &quot;c&quot; &#39;ä&#39;"
        );
    }
}
