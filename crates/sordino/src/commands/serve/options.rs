//! What `sordino serve` is told: flags, and a file for what they leave open.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::Args;
use service::Settings;

use crate::commands::model::is_model_file;

#[derive(Clone, Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// Model files, as FILE or NAME=FILE; without a name a model is called by its file's.
    #[arg(value_name = "MODEL")]
    models: Vec<String>,
    /// Read what is not given here from this TOML file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
    /// End as on SIGTERM when standard input ends: for a server that must not outlive the program that started it.
    #[arg(long)]
    pub(super) until_stdin_ends: bool,
    /// For demos: the page of --web may also ask in plain, to compare. Who does so shows the server the picture.
    #[arg(long)]
    pub(super) web_compare: bool,
}

impl Arguments {
    /// A flag wins, then the file, then the default.
    pub(super) fn settings(&self) -> anyhow::Result<Settings> {
        let file = self.config.as_deref().map(Settings::load).transpose()?.unwrap_or_default();
        let mut models = file.models.clone();
        for text in &self.models {
            let (name, path) = named(text)?;
            if !is_model_file(&path) && !path.exists() {
                bail!("there is no file {}; name one made by `sordino freeze`", path.display());
            }
            if models.insert(name.clone(), path).is_some() {
                bail!("two models are called {name}; rename one with NAME=FILE");
            }
        }
        if models.is_empty() {
            bail!("there is no model to serve; name a file made by `sordino freeze`");
        }
        let settings = self.settings.clone().or(Settings { models: BTreeMap::new(), ..file });
        ensure!(
            !self.web_compare || settings.web.is_some(),
            "--web-compare is for the page; add --web ADDRESS"
        );
        settings.check()?;
        if self.web_compare && settings.client_ca.is_some() {
            bail!(
                "--web-compare answers whoever comes to the page, and --client-ca serves only clients with a certificate, which \
                 no page has; leave one of them out"
            );
        }
        Ok(Settings { models, ..settings })
    }
}

/// `NAME=FILE`, or a file with its own name.
fn named(text: &str) -> anyhow::Result<(String, PathBuf)> {
    if let Some((name, path)) = text.split_once('=') {
        ensure!(
            !name.is_empty() && !path.is_empty(),
            "{text} names no model; write NAME=FILE, or FILE alone"
        );
        return Ok((name.to_owned(), path.into()));
    }
    let path = PathBuf::from(text);
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let name = stem.with_context(|| format!("{text} has no name; write NAME=FILE"))?.to_owned();
    Ok((name, path))
}
