//! The measurements of `sordino bench train` and `sordino bench search`.

use clap::ValueEnum;
use network::zoo;
use recipes::method::sphynx::CellSearch;
use recipes::recipe::Precision;
use training::learn::{self, BenchOptions, GraphUse};
use training::optimize::{self, EdgeFilters, SearchBenchOptions};
use training::tensor::{self, Device};

use crate::commands::bench::search;
use crate::commands::bench::train::{Arguments, StepReport, Switch};

/// How long a training step takes.
pub(in crate::commands) fn measure_step(arguments: &Arguments) -> anyhow::Result<StepReport> {
    if let Some(count) = arguments.threads {
        tensor::set_threads(count);
    }
    let device = Device::parse(&arguments.device)?;
    let build = |name: &str| zoo::build(name, arguments.side, arguments.classes);
    let precision = arguments.precision.unwrap_or_else(|| device.computes_in(Precision::Bf16));
    let options = BenchOptions {
        batch: arguments.batch,
        steps: arguments.steps,
        precision,
        graph: if arguments.eager { GraphUse::Never } else { GraphUse::Auto },
        data_pipeline: arguments.data_pipeline == Switch::On,
        teacher: arguments.teacher.as_deref().map(build).transpose()?,
    };
    let time = learn::measure_step(&build(&arguments.network)?, &options, device)?;
    Ok(StepReport {
        network: arguments.network.clone(),
        batch: arguments.batch,
        device: arguments.device.clone(),
        precision: word(precision),
        data_pipeline: options.data_pipeline,
        recorded: time.not_recorded.is_none(),
        not_recorded: time.not_recorded,
        ms_per_step: time.milliseconds,
        images_per_s: time.images_per_second,
        first_loss: time.losses.0,
        mean_loss: time.losses.1,
    })
}

/// How long a step of a search of cells takes.
pub(in crate::commands) fn measure_search_step(
    arguments: &search::Arguments,
) -> anyhow::Result<search::StepReport> {
    if let Some(count) = arguments.threads {
        tensor::set_threads(count);
    }
    let device = Device::parse(&arguments.device)?;
    let search = CellSearch {
        strategy: arguments.strategy,
        nodes: arguments.nodes,
        channels: arguments.channels,
        depth: arguments.cells,
        batch: arguments.batch,
        precision: arguments.precision.unwrap_or(Precision::Bf16),
        ..CellSearch::default()
    };
    let options = SearchBenchOptions {
        search,
        filters: arguments.filters.map(|filters| match filters {
            search::Filters::Grouped => EdgeFilters::Grouped,
            search::Filters::Dense => EdgeFilters::Dense,
            search::Filters::BySize => EdgeFilters::BySize,
        }),
        steps: arguments.steps,
        side: arguments.side,
        classes: arguments.classes,
    };
    let time = optimize::measure_search_step(&options, device)?;
    Ok(search::StepReport {
        batch: options.search.batch(),
        device: arguments.device.clone(),
        precision: word(time.precision),
        ms_per_step: time.milliseconds,
        operations: time.operations.values().sum(),
        by_name: time.operations,
        not_recorded: time.not_recorded,
    })
}

/// The word that names it on the command line.
fn word(setting: impl ValueEnum) -> String {
    setting.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
