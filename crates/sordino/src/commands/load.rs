//! A network by name or file, as every verb takes it.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;
use network::spec::{NetworkSpec, SpecFileError};
use network::zoo::{self, ZooError};

use super::model::is_onnx_file;

/// A network by name or file.
#[derive(Debug, Args)]
pub(super) struct NetworkArguments {
    /// A name from `sordino zoo` with options, such as resnet18:m=32, or a TOML file; verbs that freeze also take an ONNX
    /// file.
    network: String,
    /// Side of the input image [default: what the file says; 224 for stem=imagenet, 32 for other names].
    #[arg(long, value_name = "PIXELS")]
    input: Option<usize>,
    /// Number of classes [default: what the file says; 1000 for stem=imagenet, 100 for other names].
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
            return Err(ZooError::Onnx { name: self.network.clone() }.into());
        }
        if !(zoo::names_file(&self.network) || path.is_file()) {
            let (usual_side, usual_classes) = usual_size(&self.network);
            let side = self.input.unwrap_or(usual_side);
            return Ok(zoo::build(&self.network, side, classes.unwrap_or(usual_classes))?);
        }
        let spec = NetworkSpec::from_file(path);
        if let Err(SpecFileError::Unreadable { source, .. }) = &spec
            && source.kind() == ErrorKind::InvalidData
        {
            bail!(
                "{} is no text; expected a network's name, its description as TOML, an ONNX file (.onnx) or a model \
                 (.sordino)",
                path.display()
            );
        }
        let spec = spec.with_context(|| format!("{} is not usable", path.display()))?;
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

/// Side and number of classes that a name stands for where nobody says others: those of `sordino zoo`.
fn usual_size(name: &str) -> (usize, usize) {
    if name.contains("stem=imagenet") { (224, 1000) } else { (32, 100) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_the_size_that_the_zoo_lists() {
        for entry in zoo::catalog() {
            assert_eq!(usual_size(entry.name).0, entry.input, "{}", entry.name);
        }
        let spec = NetworkArguments::named("resnet18:m=2,stem=imagenet").load().unwrap();
        assert_eq!((spec.draft().input.height, spec.draft().classes), (224, 1000));
    }
}
