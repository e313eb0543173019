//! Shared signs: every channel in one group.

use super::super::{Operation, ValueId};
use super::{Builder, Outcome, at_least_one};
use crate::spec::{Grouping, SharedSigns, SpecFault, check_group_size, check_groups};

impl Builder {
    pub(super) fn shared_signs(&mut self, signs: &SharedSigns, input: ValueId) -> Outcome<ValueId> {
        let shape = self.shapes[input.0];
        check(&signs.grouping, shape.channels)?;
        let comparisons = shape.with_channels(signs.grouping.signs(shape.channels));
        self.compare(input, comparisons, |site| Operation::SharedSigns { site, signs: signs.clone() })
    }
}

fn check(grouping: &Grouping, channels: usize) -> Outcome<()> {
    match grouping {
        Grouping::Contiguous { values_per_sign } => {
            let values_per_sign = *values_per_sign;
            at_least_one("the number of values per sign", values_per_sign)?;
            check_group_size(values_per_sign)?;
            match channels.is_multiple_of(values_per_sign) {
                true => Ok(()),
                false => Err(SpecFault::SignGroups { channels, values_per_sign }),
            }
        }
        Grouping::Listed(groups) => check_groups(groups, channels),
    }
}
