//! Numbers of a search by name, into checkpoints and back.

use recipes::checkpoint::Arrays;

use crate::assemble::Parameters;
use crate::learn::{LearnError, Memory};
use crate::tensor::{Tensor, fill_from_array, to_array};

/// An optimizer's memory by parameter.
pub(super) fn named_memory(prefix: &str, memory: &Memory, parameters: &Parameters) -> Vec<(String, Tensor)> {
    let mut named = vec![(format!("{prefix}.steps"), memory.steps().shallow_clone())];
    for (row_name, row) in memory.named_rows() {
        let views = parameters.named_in(row);
        named.extend(views.map(|(name, value)| (format!("{prefix}.{row_name}.{name}"), value)));
    }
    named
}

/// Tensors as arrays.
pub(super) fn save_arrays(named: &[(String, Tensor)]) -> Arrays {
    named.iter().map(|(name, value)| (name.clone(), to_array(value))).collect()
}

/// Fills tensors from arrays of the same names.
///
/// # Errors
/// When one is missing or has another shape.
pub(super) fn load(named: &[(String, Tensor)], arrays: &Arrays) -> Result<(), LearnError> {
    for (name, value) in named {
        if !arrays.get(name).is_some_and(|array| fill_from_array(value, array)) {
            return Err(LearnError::State { name: name.clone() });
        }
    }
    Ok(())
}
