//! The page as files, for somebody else than the server to host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{FILES, MODULE_NAME, POLICY, headers, index, module};

/// Whom the page talks to.
#[derive(Clone, Debug)]
pub struct ExportSettings {
    /// The server's WebSocket, such as `wss://models.example/socket`.
    pub socket: String,
    /// The fingerprint of its certificate.
    pub fingerprint: String,
    /// The models to choose from; empty where the server has one alone.
    pub models: Vec<String>,
}

/// A page that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct ExportError {
    /// Which file or folder.
    pub path: PathBuf,
    /// Why.
    source: io::Error,
}

/// Writes all files into a folder, which is made where it does not exist; gives their names. `_headers` says in the form
/// that many hosts read which headers they have to send.
///
/// # Errors
/// When a file cannot be written.
pub fn export(folder: &Path, settings: &ExportSettings) -> Result<Vec<&'static str>, ExportError> {
    let failing = |path: &Path| {
        let path = path.to_owned();
        move |source| ExportError { path, source }
    };
    fs::create_dir_all(folder).map_err(failing(folder))?;
    let policy = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n");
    let (page, module) = (index(&policy), module());
    let (settings, headers) = (settings.to_json(), header_lines());
    let mut files: Vec<(&'static str, &[u8])> =
        FILES.iter().map(|(name, _, bytes)| (*name, *bytes)).collect();
    files.extend([
        ("index.html", page.as_bytes()),
        (MODULE_NAME, &module),
        ("settings.json", settings.as_bytes()),
        ("_headers", headers.as_bytes()),
    ]);
    for (name, bytes) in &files {
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(failing(&path))?;
    }
    Ok(files.into_iter().map(|(name, _)| name).collect())
}

impl ExportSettings {
    fn to_json(&self) -> String {
        let Self { socket, fingerprint, models } = self;
        format!(
            "{:#}\n",
            serde_json::json!({ "fingerprint": fingerprint, "models": models, "socket": socket })
        )
    }
}

fn header_lines() -> String {
    let lines = headers().into_iter().map(|(name, value)| format!("  {name}: {value}\n"));
    format!("/*\n{}", lines.collect::<String>())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::integrity;

    #[test]
    fn an_exported_page_is_whole_and_names_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let settings = ExportSettings {
            socket: "wss://models.example/socket".to_owned(),
            fingerprint: "ab".repeat(32),
            models: vec!["chest".to_owned()],
        };
        let names = export(&folder.path().join("page"), &settings).unwrap();
        let read = |name: &str| fs::read(folder.path().join("page").join(name)).unwrap();
        let page = String::from_utf8(read("index.html")).unwrap();
        assert!(page.contains("http-equiv=\"Content-Security-Policy\""));
        for name in names.iter().filter(|name| name.ends_with(".js") || name.ends_with(".wasm")) {
            assert!(page.contains(&integrity(&read(name))), "{name}");
        }
        let written: serde_json::Value = serde_json::from_slice(&read("settings.json")).unwrap();
        assert_eq!(written["socket"], "wss://models.example/socket");
        assert!(
            String::from_utf8(read("_headers"))
                .unwrap()
                .contains("Cross-Origin-Embedder-Policy: require-corp")
        );
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        let settings =
            ExportSettings { socket: String::new(), fingerprint: String::new(), models: Vec::new() };
        let error = export(&file.join("page"), &settings).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
