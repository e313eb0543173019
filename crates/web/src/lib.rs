//! The page for private classification in a browser, and the client's module in it.
//!
//! ```text
//! page/index.html, style.css     what a person sees
//! page/app.js, words.js          the page; its texts in each language
//! page/views.js                  what the server saw, seconds to come, the answer in plain
//! page/front.js, front.json      the second tab: the fronts, made of the records (crates/results/tests/front_of_the_page.rs)
//! page/client.js                 the worker in which the client computes
//! page/socket.js                 the worker that owns the WebSocket
//! page/client.wasm.gz            the client, built from crates/web-client by scripts/web-client; its hash beside it
//! ```
//!
//! The page names the hash of every file that it loads, and browsers refuse any other: whoever has an honest
//! `index.html` has an honest client. Nothing is loaded from elsewhere.

#![forbid(unsafe_code)]

mod export;

use base64::Engine;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use std::io::Read;

pub use export::{ExportError, ExportSettings, export};

const MODULE: &[u8] = include_bytes!("../page/client.wasm.gz");
const INDEX: &str = include_str!("../page/index.html");
/// Files that the page names by their hashes.
const FILES: [(&str, &str, &[u8]); 8] = [
    ("style.css", "text/css; charset=utf-8", include_bytes!("../page/style.css")),
    ("words.js", JAVASCRIPT, include_bytes!("../page/words.js")),
    ("app.js", JAVASCRIPT, include_bytes!("../page/app.js")),
    ("views.js", JAVASCRIPT, include_bytes!("../page/views.js")),
    ("front.js", JAVASCRIPT, include_bytes!("../page/front.js")),
    ("front.json", "application/json", include_bytes!("../page/front.json")),
    ("client.js", JAVASCRIPT, include_bytes!("../page/client.js")),
    ("socket.js", JAVASCRIPT, include_bytes!("../page/socket.js")),
];
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
/// The module's name.
const MODULE_NAME: &str = "client.wasm";

/// What the page may do: run its own scripts, its module and workers made of checked scripts; show pictures that it has;
/// connect to servers. Nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src blob:; style-src 'self'; \
     img-src 'self' blob: data:; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'";

/// One file of the page.
#[derive(Clone, Debug)]
pub struct PageFile {
    /// Its name in the page's folder; the page itself is `index.html`.
    pub name: &'static str,
    /// Its media type.
    pub kind: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The bytes are compressed by gzip.
    pub is_compressed: bool,
}

/// The page as a server sends it, whose headers say what it may do.
pub fn files() -> Vec<PageFile> {
    let page = |(name, kind, bytes): (&'static str, &'static str, &[u8])| PageFile {
        name,
        kind,
        bytes: bytes.to_vec(),
        is_compressed: false,
    };
    let mut files: Vec<_> = FILES.into_iter().map(page).collect();
    files.push(page(("index.html", "text/html; charset=utf-8", index("").as_bytes())));
    let module =
        PageFile { name: MODULE_NAME, kind: "application/wasm", bytes: MODULE.to_vec(), is_compressed: true };
    files.push(module);
    files
}

/// Headers of every answer, without which a browser shares no memory with the page's workers.
pub fn headers() -> Vec<(&'static str, String)> {
    let policy = format!("{POLICY}; frame-ancestors 'none'");
    let fixed = [
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Embedder-Policy", "require-corp"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Permissions-Policy", "camera=(self), geolocation=(), microphone=()"),
        ("Cache-Control", "no-cache"),
    ];
    let mut headers = vec![("Content-Security-Policy", policy)];
    headers.extend(fixed.map(|(name, value)| (name, value.to_owned())));
    headers
}

/// The page itself, with hashes of all that it loads.
fn index(policy: &str) -> String {
    let filled = |page: String, (name, hash): (&str, String)| page.replace(&format!("@{name}@"), &hash);
    let hashes = FILES.iter().map(|(name, _, bytes)| (*name, integrity(bytes)));
    let hashes = hashes.chain([(MODULE_NAME, integrity(&module()))]);
    hashes.fold(INDEX.replace("@POLICY@\n", policy), filled)
}

/// The client's module.
fn module() -> Vec<u8> {
    let mut module = Vec::new();
    GzDecoder::new(MODULE).read_to_end(&mut module).expect("the module was compressed when it was built");
    module
}

/// A hash as pages write it (Subresource Integrity, W3C).
fn integrity(bytes: &[u8]) -> String {
    format!("sha256-{}", base64::engine::general_purpose::STANDARD.encode(Sha256::digest(bytes)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_the_one_that_was_built_and_small_enough() {
        let hash: String = Sha256::digest(module()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, include_str!("../page/client.wasm.sha256").trim());
        assert!(module().starts_with(b"\0asm\x01\0\0\0"));
        assert!(MODULE.len() <= 1_000_000, "{}", MODULE.len());
    }

    #[test]
    fn the_page_names_the_hash_of_each_file_and_nothing_from_elsewhere() {
        let page = index("");
        assert!(!page.contains('@'), "a place was left open");
        for (name, _, bytes) in FILES {
            assert!(page.contains(&integrity(bytes)), "{name}");
        }
        assert!(page.contains(&integrity(&module())));
        let texts = FILES.iter().map(|(name, _, bytes)| (*name, std::str::from_utf8(bytes).unwrap()));
        for (name, text) in texts.chain([("index.html", page.as_str())]) {
            // The front names where papers can be read; nothing is loaded from there.
            let text =
                if name == "front.json" { text.replace("https://arxiv.org/abs/", "") } else { text.into() };
            assert!(
                !text.contains("http://") && !text.contains("https://") && !text.contains("//cdn"),
                "{name}"
            );
        }
    }

    #[test]
    fn both_languages_have_the_same_texts_and_the_page_has_no_others() {
        let words = std::str::from_utf8(FILES[1].2).unwrap();
        let (english, german) = words.split_once("  de: {").unwrap();
        let keys = |text: &str| -> Vec<String> {
            let key = |line: &str| Some(line.trim().split_once(": \"")?.0.trim_matches('"').to_owned());
            text.lines().filter_map(key).collect()
        };
        assert_eq!(keys(english), keys(german));
        for place in INDEX.split("data-text=\"").skip(1) {
            let key = place.split('"').next().unwrap();
            assert!(keys(english).iter().any(|known| known == key), "{key}");
        }
    }
}
