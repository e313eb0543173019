//! A network by name or file, as every verb takes it.

use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;
use network::spec::NetworkSpec;
use network::zoo;

use super::model::is_onnx_file;

/// A network by name or file.
#[derive(Debug, Args)]
pub(super) struct NetworkArguments {
    /// A name from `sordino zoo` with options, such as resnet18:m=32, or a TOML file; verbs that freeze also take an ONNX
    /// file.
    network: String,
    /// Side of the input image [default: 32, or what the file says].
    #[arg(long, value_name = "PIXELS")]
    input: Option<usize>,
    /// Number of classes [default: 100, or what the file says].
    #[arg(long, value_name = "COUNT")]
    classes: Option<usize>,
}

impl NetworkArguments {
    /// The network of this name or file, at its own size.
    pub(super) fn named(network: &str) -> Self {
        Self { network: network.to_owned(), input: None, classes: None }
    }

    /// What was named.
    pub(super) fn name(&self) -> &str {
        &self.network
    }

    /// Whether another size than the network's own was asked for.
    pub(super) fn changes_size(&self) -> bool {
        self.input.is_some() || self.classes.is_some()
    }

    /// Whether another number of classes than the network's own was asked for.
    pub(super) fn changes_classes(&self) -> bool {
        self.classes.is_some()
    }

    /// The side of the image that was asked for.
    pub(super) fn side(&self) -> Option<usize> {
        self.input
    }

    pub(super) fn load(&self) -> anyhow::Result<NetworkSpec> {
        self.load_for(None)
    }

    /// The network for so many classes, where their number was not asked for otherwise.
    pub(super) fn load_for(&self, named_classes: Option<usize>) -> anyhow::Result<NetworkSpec> {
        let classes = self.classes.or(named_classes);
        let path = Path::new(&self.network);
        if is_onnx_file(path) {
            bail!(
                "{} is an ONNX file, which is frozen as it is: freeze, inspect, verify and bench take it. Training takes a \
                 network of the zoo or TOML; to train an imported one further, replace ReLU layers by identities in the \
                 framework that it came from, and export it again",
                path.display()
            );
        }
        if !(zoo::names_file(&self.network) || path.is_file()) {
            return Ok(zoo::build(&self.network, self.input.unwrap_or(32), classes.unwrap_or(100))?);
        }
        let spec =
            NetworkSpec::from_file(path).with_context(|| format!("{} is not usable", path.display()))?;
        if self.input.is_none() && classes.is_none() {
            return Ok(spec);
        }
        let mut draft = spec.into_draft();
        if let Some(side) = self.input {
            (draft.input.height, draft.input.width) = (side, side);
        }
        draft.classes = classes.unwrap_or(draft.classes);
        NetworkSpec::new(draft).with_context(|| format!("{} does not fit other sizes", path.display()))
    }
}
