//! DeepReDuce: probes, order, candidates.

use network::design::CriticalityOrder;
use recipes::method::candidates::{StageFinding, choose, criticalities, order, pipeline, probes};
use recipes::method::{DeepReduceSection, OptimizeError, PlannedNetwork};
use recipes::recipe::TrainOn;

use super::{Found, Job, OptimizeRunError, OptimizeWatch, read_json, write_json};

impl Job<'_> {
    pub(super) fn deepreduce(
        &self,
        section: &DeepReduceSection,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Found, OptimizeRunError> {
        let name = self.recipe.network.name.as_str();
        let budget =
            section.budget.map(|budget| budget.resolve(self.spec.name(), self.whole())).transpose()?;
        let given =
            section.order.as_deref().map(CriticalityOrder::parse).transpose().map_err(OptimizeError::from)?;
        let teacher = self.teacher(watch)?;
        let findings = if given.is_none() { self.findings(section, &teacher, watch)? } else { Vec::new() };
        if section.only_criticality {
            return Ok(Found { criticality: findings, ..Found::default() });
        }
        let order = given.map_or_else(|| order(&findings), Ok)?;
        let plans = pipeline(name, &self.spec, &order, section.single_blocks)?;
        let chosen: Vec<&PlannedNetwork> = match budget {
            Some(budget) => vec![choose(&plans, budget)?],
            None => plans.iter().collect(),
        };
        let mut records = Vec::new();
        for plan in chosen {
            let folder = self.options.folder.join(format!("trained-{}", slug(&plan.title)));
            records.push(self.train_plan(plan, &teacher, &folder, watch)?);
        }
        Ok(Found { records, criticality: findings, ..Found::default() })
    }

    /// Trains one network per stage and computes the criticalities.
    fn findings(
        &self,
        section: &DeepReduceSection,
        teacher: &std::path::Path,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Vec<StageFinding>, OptimizeRunError> {
        let file = self.options.folder.join("criticality.json");
        if file.is_file() {
            return read_json(&file);
        }
        let probing = Job { recipe: &self.probe_recipe(section), spec: self.spec.clone(), ..*self };
        let mut accuracies = Vec::new();
        for (number, plan) in (1..).zip(probes(&self.recipe.network.name, &self.spec)?) {
            let folder = self.options.folder.join(format!("probe-S{number}"));
            let record = probing.train_plan(&plan, teacher, &folder, watch)?;
            accuracies.push(record.float_accuracy);
        }
        let findings = criticalities(&self.spec, &accuracies);
        write_json(&file, &findings)?;
        Ok(findings)
    }

    /// The recipe with the probes' epochs. An order is a choice, so it is made on held-out
    /// images, even where the networks then learn from all.
    fn probe_recipe(&self, section: &DeepReduceSection) -> recipes::recipe::Recipe {
        let mut recipe = self.recipe.clone();
        recipe.data.train_on = TrainOn::Split;
        if let Some(epochs) = section.probe_epochs {
            recipe.training.set_epochs(epochs);
        }
        recipe
    }
}

/// A title as the name of a folder.
fn slug(title: &str) -> String {
    let plain = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '+' => Some(character),
        '*' => Some('b'),
        ' ' | ',' => Some('-'),
        _ => None,
    };
    let text: String = title.chars().filter_map(plain).collect();
    text.replace("--", "-")
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn folders_have_plain_and_different_names() {
        assert_eq!(slug("S2^RT+S3^RT, alpha=0.5, rho=0.5"), "S2RT+S3RT-alpha0.5-rho0.5");
        assert_ne!(slug("S2^RT"), slug("S2*^RT"));
    }
}
