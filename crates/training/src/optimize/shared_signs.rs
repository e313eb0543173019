//! Shared signs: one network for the budget of comparisons, trained with a teacher; then, where asked for, SNL's search for
//! the signs that are needed at all.
//!
//! ```text
//! grouping   where groups are chosen: a first training with a sign for each value, and who agrees with whom
//! ```
//!
//! A sign that the search drops lets all values of its group through, so each of them gains what a ReLU would: the values
//! of a masked sign are not gated any more, and the record does not count them.

mod grouping;

use std::path::Path;

use network::cost::Cost;
use recipes::method::{GroupingRule, OptimizeSection, SharedSignsSection, SnlSection};
use recipes::recipe::{Distillation, NetworkSection, Recipe, Schedule, StartSection};
use results::ResultRecord;

use super::{Found, Job, OptimizeOptions, OptimizeRunError, OptimizeWatch};
use crate::run::Images;
use grouping::Grouped;

impl Job<'_> {
    pub(super) fn shared_signs(
        &self,
        section: &SharedSignsSection,
        images: &Images,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Found, OptimizeRunError> {
        let plan = section.plan(self.recipe, images.training.shape, images.training.classes.len())?;
        let teacher = self.teacher(watch)?;
        let trained = self.options.folder.join("trained");
        let (spec, network, first) = match section.grouping {
            GroupingRule::Neighbors => {
                let record = self.train_plan(&plan, &teacher, &trained, watch)?;
                (self.spec.clone(), plan.section(), record)
            }
            GroupingRule::Random | GroupingRule::Agreement => {
                let grouped = self.grouped(section, &teacher, images, watch)?;
                let network = NetworkSection::named(&grouped.file.display().to_string());
                let record = self.train_grouped(&grouped, &network, &teacher, &trained, watch)?;
                (grouped.spec, network, record)
            }
        };
        let mut records = vec![first];
        if let Some(mask) = &section.mask {
            let search = SnlSection { start: Some(trained), ..mask.clone() };
            let recipe = self.masking_recipe(section, network, &teacher, &search);
            let options =
                OptimizeOptions { folder: self.options.folder.join("masked"), ..self.options.clone() };
            let method = OptimizeSection::Snl(search.clone());
            let job = Job { recipe: &recipe, options: &options, spec, section: &method };
            records.extend(job.snl(&search, images, watch)?.records);
        }
        Ok(Found { records, ..Found::default() })
    }

    /// Trains a network whose groups were chosen, from the weights that they were chosen by.
    fn train_grouped(
        &self,
        grouped: &Grouped,
        network: &NetworkSection,
        teacher: &Path,
        folder: &Path,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<ResultRecord, OptimizeRunError> {
        let (title, cost) = (grouped.spec.name(), Cost::of(&grouped.spec));
        watch.part(&format!("{title}: {}", cost.counts()));
        let mut recipe = self.distilled_recipe(teacher);
        recipe.network = network.clone();
        recipe.start = Some(StartSection { checkpoint: grouped.start.clone() });
        recipe.title = format!("{title}, {}", cost.counts());
        self.train_recorded(recipe, title, cost.macs, folder, watch)
    }

    /// The recipe as SNL takes it: short, at a small rate, with the teacher's whole weight from the first epoch on.
    fn masking_recipe(
        &self,
        section: &SharedSignsSection,
        network: NetworkSection,
        teacher: &Path,
        search: &SnlSection,
    ) -> Recipe {
        let mut recipe = Recipe {
            network,
            teacher: Some(self.teacher_section(teacher)),
            optimize: Some(OptimizeSection::Snl(search.clone())),
            ..self.recipe.clone()
        };
        let training = &mut recipe.training;
        training.epochs = section.mask_epochs;
        training.schedule = Schedule { learning_rate: section.mask_learning_rate, ..Schedule::default() };
        if let Some(Distillation::Dkd { warm_up_epochs, .. }) = &mut training.loss.distillation {
            *warm_up_epochs = 0.0;
        }
        recipe
    }
}
