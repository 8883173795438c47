//! The media type of a file, by the extension of its name.
//!
//! A table of what web sites are made of, from the IANA registry and the WHATWG's advice; a crate
//! with a thousand types more would not make pages look better, and what is not here is sent as
//! bytes. The table is sorted, and a test says so.

/// What a file of unknown kind is: bytes (RFC 9110 §8.3).
pub const UNKNOWN: &str = "application/octet-stream";

const BY_EXTENSION: [(&str, &str); 106] = [
    ("3gp", "video/3gpp"),
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apk", "application/vnd.android.package-archive"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("br", UNKNOWN),
    ("bz2", "application/x-bzip2"),
    ("c", "text/plain"),
    ("cjs", "text/javascript"),
    ("conf", "text/plain"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("deb", "application/vnd.debian.binary-package"),
    ("doc", "application/msword"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("eot", "application/vnd.ms-fontobject"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("flv", "video/x-flv"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("glb", "model/gltf-binary"),
    ("gltf", "model/gltf+json"),
    ("gz", "application/gzip"),
    ("h", "text/plain"),
    ("heic", "image/heic"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar"),
    ("iso", UNKNOWN),
    ("jar", "application/java-archive"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("kml", "application/vnd.google-earth.kml+xml"),
    ("kmz", "application/vnd.google-earth.kmz"),
    ("log", "text/plain"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mjs", "text/javascript"),
    ("mkv", "video/matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    ("ps", "application/postscript"),
    ("rar", "application/vnd.rar"),
    ("rs", "text/plain"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain"),
    ("vcf", "text/vcard"),
    ("vtt", "text/vtt"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("wmv", "video/x-ms-wmv"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The media type of a file name.
pub fn of(name: &[u8]) -> &'static str {
    let Some(extension) = extension(name) else {
        return UNKNOWN;
    };
    match BY_EXTENSION.binary_search_by(|(known, _)| (*known).cmp(&extension)) {
        Ok(at) => BY_EXTENSION[at].1,
        Err(_) => UNKNOWN,
    }
}

/// The extension of a file name in small letters, without its dot.
pub fn extension(name: &[u8]) -> Option<String> {
    let dot = name.iter().rposition(|&b| b == b'.')?;
    Some(String::from_utf8_lossy(&name[dot + 1..]).to_ascii_lowercase())
}

/// The charset parameter for a text whose type says none: UTF-8 if that is what it is, otherwise left
/// to the document to say. JSON and XML have rules of their own.
pub fn charset(media_type: &str, content: &[u8]) -> &'static str {
    let is_open = media_type.starts_with("text/") && !media_type.contains(';');
    match is_open && str::from_utf8(content).is_ok() {
        true => "; charset=utf-8",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_short_enough_for_a_response_head() {
        assert!(BY_EXTENSION.is_sorted_by(|(one, _), (next, _)| one < next));
        assert!(
            BY_EXTENSION
                .iter()
                .all(|(_, media_type)| media_type.len() < 100)
        );
    }

    #[test]
    fn types_follow_the_last_extension() {
        for (name, want) in [
            ("index.html", "text/html"),
            ("PHOTO.JPG", "image/jpeg"),
            ("a.tar.gz", "application/gzip"),
            ("app.webmanifest", "application/manifest+json"),
            ("segment.m4s", "video/iso.segment"),
            (
                "a.xlsx",
                "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            ),
            ("woff2", UNKNOWN),
            (".html", "text/html"),
            ("a.", UNKNOWN),
            ("a.unheard-of", UNKNOWN),
        ] {
            assert_eq!(of(name.as_bytes()), want, "{name}");
        }
        assert_eq!(of(b"\xff.\xfe"), UNKNOWN);
    }

    #[test]
    fn only_texts_that_are_utf8_say_so() {
        assert_eq!(charset("text/html", "é".as_bytes()), "; charset=utf-8");
        assert_eq!(charset("text/html", b"\xe9"), "");
        assert_eq!(charset("image/png", b"a"), "");
        assert_eq!(charset("text/plain; charset=utf-16", b"a"), "");
    }
}
