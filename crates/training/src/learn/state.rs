//! What a checkpoint needs beside the network's own numbers, and back.

use std::collections::BTreeMap;

use recipes::array::Array;

use super::{LearnError, Learner};
use crate::assemble::TrainableNetwork;
use crate::tensor::{Tensor, fill_from_array, no_grad, to_array};

impl Learner {
    /// The optimizer's memory by parameter, the averages, the number of steps. With these, the network's arrays and
    /// the number of the next epoch, a run goes on as if it had not been interrupted.
    pub(crate) fn state(&self) -> BTreeMap<String, Array> {
        self.named_state().into_iter().map(|(name, value)| (name, to_array(&value))).collect()
    }

    /// Takes what [`Self::state`] gave.
    ///
    /// # Errors
    /// When something is missing or of another shape. Nothing is changed then.
    pub(crate) fn restore(&mut self, state: &BTreeMap<String, Array>) -> Result<(), LearnError> {
        let named = self.named_state();
        let shape = |array: &Array| array.shape.iter().map(|side| *side as i64).collect::<Vec<_>>();
        let is_absent = |(name, value): &&(String, Tensor)| {
            state.get(name).is_none_or(|array| shape(array) != value.size() || array.floats().is_none())
        };
        if let Some((name, _)) = named.iter().find(is_absent) {
            return Err(LearnError::State { name: name.clone() });
        }
        for (name, value) in &named {
            fill_from_array(value, &state[name]);
        }
        Ok(())
    }

    fn named_state(&self) -> Vec<(String, Tensor)> {
        let parameters = self.network.parameters();
        let mut named = vec![("steps".to_owned(), self.memory.steps().shallow_clone())];
        for (memory, row) in self.memory.named_rows() {
            named.extend(parameters.named_in(row).map(|(name, value)| (format!("{memory}.{name}"), value)));
        }
        if let Some((weights, statistics)) = &self.average {
            named
                .extend(parameters.named_in(weights).map(|(name, value)| (format!("average.{name}"), value)));
            named.push(("average.statistics".to_owned(), statistics.shallow_clone()));
        }
        named
    }

    /// Runs something with the averaged weights in place; with the present ones where no average is kept.
    pub(crate) fn with_average<T>(&mut self, run: impl FnOnce(&TrainableNetwork) -> T) -> T {
        self.swap_average();
        let result = run(&self.network);
        self.swap_average();
        result
    }

    fn swap_average(&mut self) {
        let Some((weights, statistics)) = &mut self.average else { return };
        no_grad(|| {
            let own = [self.network.parameters().masters(), self.network.statistics()];
            for (own, average) in own.into_iter().zip([weights, statistics]) {
                let kept = own.copy();
                own.shallow_clone().copy_(average);
                average.copy_(&kept);
            }
        });
        self.network.parameters_mut().refresh();
    }
}
