//! A frozen model: files, figures, the reference, and private inference within this process.

use std::path::PathBuf;
use std::sync::Arc;

use inference::plan::{Depth, Plan, Terms};
use inference::transcript::Traffic;
use inference::verify::{Comparison, compare};
use network::cost::Counts;
use network::inference_model::InferenceModel;
use network::reference;
use network::text::with_causes;
use pyo3::prelude::*;
use serde::Serialize;

use crate::error::{ModelError, of_model};
use crate::images::{images, sides};
use crate::waiting::without_interpreter;

/// Integers that can be served.
#[pyclass(frozen, module = "sordino._native")]
pub(crate) struct Model {
    pub(crate) model: Arc<InferenceModel>,
}

impl Model {
    pub(crate) fn new(model: InferenceModel) -> Self {
        Self { model: Arc::new(model) }
    }
}

/// Logits of one image: in private, of the reference with the protocol's rounding, of that with plain rounding.
type Logits = (Vec<i64>, Vec<i64>, Vec<i64>);

#[pymethods]
impl Model {
    /// Reads a model file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = without_interpreter(py, move |_| {
            let words = |error| format!("{} is not usable: {}", path.display(), with_causes(&error));
            InferenceModel::load(&path).map_err(words)
        });
        Ok(Self::new(read?.map_err(ModelError::new_err)?))
    }

    /// Writes a model file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let model = Arc::clone(&self.model);
        without_interpreter(py, move |_| model.save(&path))?.map_err(of_model)
    }

    /// What the network is called.
    #[getter]
    fn name(&self) -> &str {
        &self.model.outline().name
    }

    /// Channels, height, width.
    #[getter]
    fn input_shape(&self) -> (usize, usize, usize) {
        sides(self.model.outline().input)
    }

    /// How many classes there are.
    #[getter]
    fn classes(&self) -> usize {
        self.model.outline().classes
    }

    /// What they are called; empty where they have no names.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.model.outline().class_names.clone()
    }

    /// Fraction bits of the logits.
    #[getter]
    fn logit_fraction(&self) -> i64 {
        self.model.outline().logit_fraction()
    }

    /// Figures of the model and of one private inference, as JSON.
    fn inspect(&self, py: Python<'_>) -> PyResult<String> {
        let model = Arc::clone(&self.model);
        without_interpreter(py, move |_| Figures::of(&model))?
    }

    /// The integers that the reference gives for the images of these bytes.
    fn plain(&self, py: Python<'_>, pixels: &[u8]) -> PyResult<Vec<Vec<i64>>> {
        let images = images(self.model.outline().input, pixels)?;
        let model = Arc::clone(&self.model);
        let logits = without_interpreter(py, move |interrupt| {
            let waited_for = images.iter().take_while(|_| !interrupt.is_set());
            waited_for.map(|image| reference::run(&model, image)).collect::<Result<_, _>>()
        });
        logits?.map_err(of_model)
    }

    /// Runs both parties on the images of these bytes, in this process.
    fn verify(&self, py: Python<'_>, pixels: &[u8]) -> PyResult<Vec<Logits>> {
        let images = images(self.model.outline().input, pixels)?;
        let model = Arc::clone(&self.model);
        let compared = without_interpreter(py, move |interrupt| {
            // A session for each image, so that the work ends soon after nobody waits.
            let waited_for = images.chunks(1).take_while(|_| !interrupt.is_set());
            let relus = Terms::default().relus;
            let run = |image| {
                compare(&model, image, relus, |_| Box::new(|_| {})).map_err(|error| with_causes(&error))
            };
            waited_for.map(run).collect::<Result<Vec<_>, String>>()
        });
        let logits = |found: Comparison| (found.private, found.expected, found.plain);
        Ok(compared?.map_err(ModelError::new_err)?.into_iter().flatten().map(logits).collect())
    }
}

/// What `inspect` tells.
#[derive(Serialize)]
struct Figures<'a> {
    network: &'a str,
    digest: String,
    input: (usize, usize, usize),
    classes: usize,
    class_names: &'a [String],
    #[serde(flatten)]
    counts: Counts,
    mean: &'a [f32],
    deviation: &'a [f32],
    private: Private,
}

/// One private inference: bytes, changes of direction, memory.
#[derive(Serialize)]
struct Private {
    set_up: Phase,
    offline: Phase,
    later_offline: Phase,
    online: Phase,
    client_memory: u64,
    server_weights: u64,
}

#[derive(Serialize)]
struct Phase {
    bytes_up: u64,
    bytes_down: u64,
    rounds: u64,
}

impl Figures<'_> {
    fn of(model: &InferenceModel) -> PyResult<String> {
        let outline = model.outline();
        let plan = Plan::new(Arc::new(outline.clone()), Terms::default()).map_err(of_model)?;
        let figures = Figures {
            network: &outline.name,
            digest: model.digest().to_string(),
            input: sides(outline.input),
            classes: outline.classes,
            class_names: &outline.class_names,
            counts: outline.counts(),
            mean: &outline.image.mean,
            deviation: &outline.image.deviation,
            private: Private::of(&plan),
        };
        serde_json::to_string(&figures).map_err(of_model)
    }
}

impl Private {
    fn of(plan: &Plan) -> Self {
        // As between machines; within one machine more bytes take less time.
        let traffic = plan.traffic(Depth::Eight);
        Self {
            set_up: traffic.set_up.into(),
            offline: traffic.offline.into(),
            later_offline: traffic.later_offline.into(),
            online: traffic.online.into(),
            client_memory: plan.client_memory(),
            server_weights: plan.memory().server_weights,
        }
    }
}

impl From<Traffic> for Phase {
    fn from(traffic: Traffic) -> Self {
        Self { bytes_up: traffic.bytes_up, bytes_down: traffic.bytes_down, rounds: traffic.rounds }
    }
}
