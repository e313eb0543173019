//! DeepReShape: one network for the budget, trained with a teacher.

use network::design::CriticalityOrder;
use recipes::method::hybrenet::plan_for;
use recipes::method::{DeepReshapeSection, OptimizeError};

use super::{Found, Job, OptimizeRunError, OptimizeWatch};

impl Job<'_> {
    pub(super) fn deepreshape(
        &self,
        section: &DeepReshapeSection,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Found, OptimizeRunError> {
        let name = self.recipe.network.name.as_str();
        let budget = section.budget.resolve(self.spec.name(), self.whole())?;
        let order = CriticalityOrder::parse(&section.order).map_err(OptimizeError::from)?;
        let plan = plan_for(name, &self.spec, &order, budget, section.keep_network)?;
        let teacher = self.teacher(watch)?;
        let record = self.train_plan(&plan, &teacher, &self.options.folder.join("trained"), watch)?;
        Ok(Found { records: vec![record], ..Found::default() })
    }
}
