//! The teacher that an optimization trains for itself.

use super::OptimizeSection;
use crate::recipe::{NetworkSection, Recipe, Schedule};

/// How the teacher of an optimization is trained where its recipe names none: the same network with all its ReLUs, or for
/// shared signs the one that the section names. Nothing where a teacher is given, and for Sphynx, whose teacher has the cells
/// that were found, or for pruning that has a start and learns from labels alone.
pub fn own_teacher(recipe: &Recipe) -> Option<Recipe> {
    let section = recipe.optimize.as_ref()?;
    let needs_none = match section {
        OptimizeSection::Sphynx(_) => true,
        OptimizeSection::L1Pruning(section) => !section.needs_teacher(),
        _ => false,
    };
    if recipe.teacher.is_some() || needs_none {
        return None;
    }
    let mut teacher = Recipe { optimize: None, start: None, mask: None, teacher: None, ..recipe.clone() };
    (teacher.training.loss.distillation, teacher.training.loss.attention) = (None, 0.0);
    match section {
        OptimizeSection::SharedSigns(section) => {
            teacher.network = NetworkSection::named(&section.teacher_network);
        }
        // What fine-tunes a network is too slow to train one.
        OptimizeSection::Snl(_) | OptimizeSection::Senet(_) | OptimizeSection::L1Pruning(_) => {
            teacher.training.schedule = Schedule::default()
        }
        OptimizeSection::DeepReduce(_) | OptimizeSection::DeepReshape(_) | OptimizeSection::Sphynx(_) => {}
    }
    Some(teacher)
}
