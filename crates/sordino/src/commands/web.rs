//! `sordino web --export FOLDER`: the page for browsers as files; and how `sordino serve` shows it.
//!
//! A server that shows the page itself could show another one. Whoever hosts these files elsewhere takes that from it: the
//! page names the hash of each of its files, and pins the server's fingerprint.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use inference::connection::Fingerprint;
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference;
use service::web::{PlainAnswers, WebFile, WebPage};
use web::ExportSettings;

use super::Answer;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Write the files into this folder.
    #[arg(long, value_name = "FOLDER")]
    export: PathBuf,
    /// The WebSocket of the server, such as wss://models.example/socket.
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    socket: String,
    /// The fingerprint that `sordino serve` printed.
    #[arg(long, value_name = "HEX")]
    fingerprint: Fingerprint,
    /// Models to choose from [default: the only one of the server].
    #[arg(long = "model", value_name = "NAME")]
    models: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let Arguments { export: folder, socket, fingerprint, models } = arguments;
    let settings = ExportSettings {
        socket: socket.clone(),
        fingerprint: fingerprint.to_string(),
        models: models.clone(),
    };
    for name in web::export(folder, &settings)? {
        writeln!(out, "{}", folder.join(name).display())?;
    }
    Ok(Answer::Yes)
}

fn socket_address(text: &str) -> Result<String, String> {
    if text.starts_with("ws://") || text.starts_with("wss://") {
        return Ok(text.to_owned());
    }
    Err("expected the address of a WebSocket, such as wss://models.example/socket".to_owned())
}

/// The page as the service takes it.
pub(super) fn page(origins: Vec<String>, plain: Option<PlainAnswers>) -> WebPage {
    let file = |file: web::PageFile| WebFile {
        path: if file.name == "index.html" { "/".to_owned() } else { format!("/{}", file.name) },
        kind: file.kind,
        bytes: file.bytes,
        is_compressed: file.is_compressed,
    };
    WebPage { files: web::files().into_iter().map(file).collect(), headers: web::headers(), origins, plain }
}

/// The models once more, to answer in plain: for demos.
pub(super) fn plain_answers(files: &BTreeMap<String, PathBuf>) -> anyhow::Result<PlainAnswers> {
    let load = |(name, path): (&String, &PathBuf)| {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let model = InferenceModel::from_bytes(&bytes)
            .with_context(|| format!("{} is not usable", path.display()))?;
        Ok((name.clone(), model))
    };
    let models: BTreeMap<_, _> = files.iter().map(load).collect::<anyhow::Result<_>>()?;
    Ok(PlainAnswers::new(move |name, pixels| {
        let model = models.get(name).ok_or_else(|| format!("there is no model {name} here"))?;
        let image = Image::new(model.outline().input, pixels).map_err(|error| error.to_string())?;
        reference::run(model, &image).map_err(|error| error.to_string())
    }))
}
