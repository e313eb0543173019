//! Groups that are chosen after a training with a sign for each value.

use std::path::{Path, PathBuf};

use network::spec::{Grouping, NetworkSpec};
use network::transform::{regroup_signs, shared_signs};
use recipes::checkpoint::{Checkpoint, Part};
use recipes::file::write_whole;
use recipes::method::{GroupingRule, OptimizeError, SharedSignsSection, groups_by_agreement, random_groups};
use recipes::random::Stream;
use recipes::recipe::NetworkSection;

use super::super::{Job, OptimizeRunError, OptimizeWatch};
use crate::learn::{DeviceImages, sign_agreement};
use crate::run::{Images, assemble_options, image_set, trained};

/// Training images on which signs are compared.
const COMPARED_IMAGES: usize = 2000;

/// A network whose groups were chosen.
pub(super) struct Grouped {
    pub(super) spec: NetworkSpec,
    /// The file that describes it.
    pub(super) file: PathBuf,
    /// The run whose weights it begins with.
    pub(super) start: PathBuf,
}

impl Job<'_> {
    /// Trains the network with a sign for each value and chooses by that which share one. What an earlier call has chosen
    /// stays.
    pub(super) fn grouped(
        &self,
        section: &SharedSignsSection,
        teacher: &Path,
        images: &Images,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Grouped, OptimizeRunError> {
        let (alone, file) =
            (self.options.folder.join("alone.toml"), self.options.folder.join("grouped.toml"));
        let start = self.options.folder.join("alone");
        let own = shared_signs(&self.spec).map(|_| Grouping::Contiguous { values_per_sign: 1 }).collect();
        let own = self.regrouped(own, "a sign for each value")?;
        write_whole(&alone, own.to_toml())?;
        let mut recipe = self.distilled_recipe(teacher);
        recipe.network = NetworkSection::named(&alone.display().to_string());
        recipe.training.epochs =
            section.grouping_epochs.unwrap_or_else(|| recipe.training.epochs.div_ceil(4));
        recipe.training.schedule.warm_up_epochs =
            recipe.training.schedule.warm_up_epochs.min(f64::from(recipe.training.epochs) / 4.0);
        watch
            .part(&format!("to choose groups: {} epochs with a sign for each value", recipe.training.epochs));
        self.train(recipe, &start, watch)?;
        let spec = match file.is_file() {
            true => NetworkSpec::from_file(&file).map_err(recipes::recipe::NetworkSectionError::from),
            false => Ok(self.choose_groups(section.grouping, &own, &start, images)?),
        };
        let spec = spec.map_err(OptimizeError::from)?;
        write_whole(&file, spec.to_toml())?;
        Ok(Grouped { spec, file, start })
    }

    fn choose_groups(
        &self,
        rule: GroupingRule,
        own: &NetworkSpec,
        start: &Path,
        images: &Images,
    ) -> Result<NetworkSpec, OptimizeRunError> {
        let sizes = shared_signs(&self.spec)
            .map(|(signs, channels)| (channels, channels / signs.grouping.signs(channels)));
        let sizes: Vec<(usize, usize)> = sizes.collect();
        let groups: Vec<Vec<Vec<usize>>> = match rule {
            GroupingRule::Agreement => {
                let device = self.options.device;
                let checkpoint = Checkpoint::load(start, Part::Weights)?;
                let network = trained(&checkpoint, own, assemble_options(self.recipe, device), device)?;
                let compared = images.training.first(COMPARED_IMAGES);
                let agreement = sign_agreement(&network, &DeviceImages::new(&image_set(&compared), device)?)?;
                agreement
                    .iter()
                    .zip(&sizes)
                    .map(|(rows, (_, size))| groups_by_agreement(rows, *size))
                    .collect()
            }
            GroupingRule::Random | GroupingRule::Neighbors => {
                let mut stream = Stream::new("groups of shared signs", self.recipe.seed);
                sizes.iter().map(|(channels, size)| random_groups(*channels, *size, &mut stream)).collect()
            }
        };
        let how = if rule == GroupingRule::Agreement { "grouped by agreement" } else { "grouped at random" };
        self.regrouped(groups.into_iter().map(Grouping::Listed).collect(), how)
    }

    /// The chosen network with other groups, and a name that says so.
    fn regrouped(&self, groupings: Vec<Grouping>, how: &str) -> Result<NetworkSpec, OptimizeRunError> {
        let spec = regroup_signs(&self.spec, groupings).map_err(OptimizeError::from)?;
        let mut draft = spec.draft().clone();
        draft.name = format!("{} ({how})", draft.name);
        Ok(NetworkSpec::new(draft).expect("only its name has changed"))
    }
}
