//! A network from an ONNX file: imported once, its ReLUs dropped by number, mask, stage or name, then frozen.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use network::cost::Cost;
use network::freeze::{FreezeOptions, FreezeReport, freeze};
use network::image::Image;
use network::imported::ImportedNetwork;
use network::inference_model::InferenceModel;
use network::mask::{ActivationMask, SiteMask};
use network::walk::{Network, Part, ReluSite, StageIndex};
use onnx::{ImportOptions, Imported};

use super::ModelArguments;
use crate::commands::reduce::CullTarget;
use crate::image_files;
use crate::report::printable;

impl ModelArguments {
    /// The ONNX file that was named, if one was.
    pub(in crate::commands) fn onnx(&self) -> Option<&Path> {
        let path = Path::new(self.network.name());
        is_onnx_file(path).then_some(path)
    }

    /// The network of the ONNX file, read once. What its reader should know goes to stderr.
    pub(in crate::commands) fn import(&self, path: &Path) -> anyhow::Result<&Imported> {
        if let Some(imported) = self.imported.get() {
            return Ok(imported);
        }
        self.refuse_for_onnx(path)?;
        let options = ImportOptions { name: None, side: self.network.side() };
        let imported =
            onnx::import_file(path, &options).with_context(|| format!("{} is not usable", path.display()))?;
        for note in &imported.notes {
            eprintln!("note: {}", printable(note));
        }
        Ok(self.imported.get_or_init(|| imported))
    }

    /// Refuses flags that mean nothing to a file with its own weights and layers.
    fn refuse_for_onnx(&self, path: &Path) -> anyhow::Result<()> {
        if self.weights.is_some() || self.network.changes_classes() {
            bail!("{} has its own weights and classes; leave --weights and --classes out", path.display());
        }
        if let Some(flag) = self.reduction.needs_blocks() {
            bail!(
                "{flag} changes blocks, and {} has none; --cull takes stages and names of ReLU layers (`sordino inspect \
                 FILE --by layer` lists them), --relus and --mask single ReLUs",
                path.display()
            );
        }
        if !self.reduction.culled().is_empty() && (self.relus.is_some() || self.mask.is_some()) {
            bail!("--cull drops whole layers, --relus and --mask choose among all ReLUs; name one of them");
        }
        Ok(())
    }

    /// Freezes the network of an ONNX file.
    pub(super) fn freeze_onnx(&self, path: &Path) -> anyhow::Result<(InferenceModel, FreezeReport)> {
        let imported = self.import(path)?;
        let network = &imported.network;
        let mask = self.imported_mask(network)?;
        let input = network.input();
        let images = match &self.calibrate {
            Some(folder) => image_files::load_images(folder, input, None)?,
            None => (0..super::CALIBRATION_IMAGES).map(|number| Image::random(input, number)).collect(),
        };
        let class_names = self.read_class_names()?;
        let normalization = self.normalization();
        let image = Some(imported.image_format(&normalization)?);
        if let Some(note) = imported.pixel_note(&normalization) {
            eprintln!("note: {} (--mean, --deviation)", printable(&note));
        }
        let options = FreezeOptions { class_names, image, ..self.freeze_options()? };
        Ok(freeze(network, network.weights(), mask.as_ref(), &images, &options)?)
    }

    /// Which ReLUs stay, where not all do.
    pub(in crate::commands) fn imported_mask(
        &self,
        network: &ImportedNetwork,
    ) -> anyhow::Result<Option<ActivationMask>> {
        let culled = self.reduction.culled();
        if culled.is_empty() && !self.reduction.drops_stem_alone() {
            return self.mask(network);
        }
        for target in culled {
            check_target(network, target)?;
        }
        let drops_stem = self.reduction.drops_stem_of_imported();
        let goes = |site: &ReluSite| {
            let is_culled = culled.iter().any(|target| match target {
                CullTarget::Stage(stage) => site.place.part == Part::Stage(StageIndex(*stage)),
                CullTarget::Site(name) => site.name == *name,
            });
            is_culled || (drops_stem && site.place.part == Part::Stem)
        };
        let choose = |site: &ReluSite| if goes(site) { SiteMask::DropAll } else { SiteMask::KeepAll };
        let masks = network.walk().sites().iter().map(choose).collect();
        Ok(Some(ActivationMask::new(network, masks)?))
    }
}

/// A stage or ReLU layer that the network has; the nearest name where it does not.
fn check_target(network: &ImportedNetwork, target: &CullTarget) -> anyhow::Result<()> {
    let sites = network.walk().sites();
    match target {
        CullTarget::Stage(stage) => {
            let has_stage = sites.iter().any(|site| site.place.part == Part::Stage(StageIndex(*stage)));
            if !has_stage {
                bail!(
                    "no ReLU of {} is in stage {stage}; `sordino inspect` lists its stages",
                    network.name()
                );
            }
        }
        CullTarget::Site(name) if network.site(name).is_none() => {
            let names: Vec<&str> = sites.iter().map(|site| site.name.as_str()).collect();
            bail!(
                "{} has no ReLU layer {name:?}; it has {} of them: {}",
                network.name(),
                names.len(),
                names.join(", ")
            );
        }
        CullTarget::Site(_) => {}
    }
    Ok(())
}

/// Whether a name is that of an ONNX file.
pub(in crate::commands) fn is_onnx_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}

/// How many ReLUs an imported network has before any is dropped.
pub(in crate::commands) fn baseline_relus(network: &ImportedNetwork) -> u64 {
    Cost::of(network).relus
}

/// Where an imported network's weights come from.
pub(super) fn origin(path: &Path, is_calibrated: bool) -> super::Origin {
    super::Origin::Onnx { path: PathBuf::from(path), is_calibrated }
}
