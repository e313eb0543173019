//! What `inspect --private` adds: the plan of one private inference, before anything runs.

use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use client::{Cost, Rates};
use inference::plan::{Depth, LayerTraffic, Plan, PlannedRing, Terms};
use inference::transcript::Traffic;
use network::cost::{Counts, LineCounts};
use network::freeze::FreezeReport;
use network::inference_model::{InferenceModel, LinearGeometry, ModelOutline};
use serde::Serialize;
use service::settings::ReluMode;

use crate::commands::link::Link;
use crate::commands::model::Origin;
use crate::commands::rates::KnownRates;
use crate::report::{Table, counted, grouped};

/// What `--json` prints under "private".
#[derive(Serialize)]
pub(super) struct PrivateReport {
    weights: Origin,
    /// Unknown for a model that was frozen before.
    convolutions_before: Option<usize>,
    convolutions_after: usize,
    #[serde(flatten)]
    counts: Counts,
    linearized: u64,
    set_up: Phase,
    /// Of the first inference of a client that has not met the model before.
    offline: Phase,
    /// Of a further one.
    later_offline: Phase,
    online: Phase,
    truncation_bytes: u64,
    /// On the links that were named, the link's least time alone and with computing.
    least_times: Vec<Times>,
    predicted_times: Vec<Times>,
    /// Whose rates of computing these are.
    rates_of: String,
    he: Vec<HeLine>,
    memory: Memory,
    layers: Vec<Layer>,
}

/// Bytes and changes of direction.
#[derive(Serialize)]
struct Phase {
    bytes_up: u64,
    bytes_down: u64,
    rounds: u64,
}

/// How long the phases take on a link.
#[derive(Serialize)]
struct Times {
    link: String,
    /// The word that names it in tables.
    #[serde(skip)]
    word: Option<&'static str>,
    set_up_s: f64,
    offline_s: f64,
    later_offline_s: f64,
    online_s: f64,
}

#[derive(Serialize)]
struct HeLine {
    parameters: String,
    /// Linear layers that use this ring.
    layers: usize,
    /// The least and the largest bits of a coefficient of a request, of an answer's value, of its second half.
    request_bits: [u32; 2],
    value_bits: [u32; 2],
    second_half_bits: [u32; 2],
}

/// What the parties hold, in bytes.
#[derive(Serialize)]
struct Memory {
    server_weights: u64,
    client: u64,
    /// On disk, where it was prepared ahead.
    client_stored: u64,
    client_tables: u64,
    client_labels: u64,
    client_shares: u64,
}

/// A step that has messages.
#[derive(Serialize)]
struct Layer {
    name: String,
    #[serde(flatten)]
    counts: LineCounts,
    linearized: u64,
    offline_bytes: u64,
    online_bytes: u64,
    /// Of these, those for positions without ReLU.
    truncation_bytes: u64,
    /// What its transformed weights take at the server.
    weight_bytes: u64,
}

impl PrivateReport {
    pub(super) fn new(
        model: &InferenceModel,
        freezing: Option<&FreezeReport>,
        weights: Origin,
        link: Option<Link>,
        relu: ReluMode,
    ) -> anyhow::Result<Self> {
        let terms = Terms { relus: relu.into(), ..Terms::default() };
        let plan = Plan::new(Arc::new(model.outline().clone()), terms)
            .with_context(|| format!("{} cannot be run in private", model.outline().name))?;
        let depth = link.map_or(Depth::Four, |link| link.depth());
        let traffic = plan.traffic(depth);
        let links = link.map_or_else(|| vec![Link::LAN, Link::WAN], |link| vec![link]);
        let layers = plan.layers(depth);
        let counts = Counts {
            comparisons: layers.iter().map(|layer| layer.relus).sum(),
            gated_values: layers.iter().map(|layer| layer.gated_values).sum(),
        };
        let layers = layers.into_iter().map(|layer| Layer::new(layer, &plan, counts.shares_signs()));
        let layers: Vec<_> = layers.collect();
        let known = KnownRates::load();
        let he = plan.rings().into_iter().map(HeLine::from);
        Ok(Self {
            weights,
            convolutions_before: freezing.map(|freezing| freezing.convolutions_before),
            convolutions_after: freezing
                .map_or_else(|| convolution_count(model.outline()), |freezing| freezing.convolutions_after),
            counts,
            linearized: layers.iter().map(|layer| layer.linearized).sum(),
            truncation_bytes: layers.iter().map(|layer| layer.truncation_bytes).sum(),
            least_times: links.iter().map(|link| Times::least(link, &plan)).collect(),
            predicted_times: links.iter().map(|link| Times::predicted(link, &plan, &known.rates)).collect(),
            rates_of: known.processor,
            set_up: traffic.set_up.into(),
            offline: traffic.offline.into(),
            later_offline: traffic.later_offline.into(),
            online: traffic.online.into(),
            he: he.collect(),
            memory: Memory::of(&plan),
            layers,
        })
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        writeln!(out, "\nin private, as planned:\n")?;
        if let Some(warning) = self.weights.warning() {
            writeln!(out, "note: {warning}\n")?;
        }
        self.layer_table().write(out)?;
        writeln!(out)?;
        self.phase_table().write(out)?;
        writeln!(out)?;
        self.least_times.iter().try_for_each(|times| writeln!(out, "{}", times.legend()))?;
        writeln!(out, "least times leave computing out; a round is a change of direction")?;
        writeln!(
            out,
            "predicted times add it to all but set-up, one thread a party, at the rates of {} (measure your own: sordino doctor --measure)",
            self.rates_of
        )?;
        let after = self.convolutions_after;
        match self.convolutions_before {
            Some(before) => {
                writeln!(out, "{}, {after} after merging", counted(before as u64, "convolution"))?;
            }
            None => writeln!(out, "{} after merging", counted(after as u64, "convolution"))?,
        }
        for HeLine { parameters, .. } in &self.he {
            writeln!(out, "{parameters}")?;
        }
        let Memory { server_weights, client, client_tables, client_labels, .. } = &self.memory;
        writeln!(
            out,
            "the server holds {} MB of transformed weights for all sessions",
            megabytes(*server_weights)
        )?;
        // Garbled circuits are there for ReLUs that round to nearest alone.
        let circuits = match client_tables + client_labels {
            0 => String::new(),
            _ => format!(
                ", {} of tables and {} of labels",
                megabytes(*client_tables),
                megabytes(*client_labels)
            ),
        };
        writeln!(
            out,
            "the client holds {} MB of memory per prepared inference{circuits}",
            megabytes(*client)
        )?;
        writeln!(
            out,
            "prepared ahead, it takes {} MB of the client's disk instead (sordino prepare)",
            megabytes(self.memory.client_stored)
        )?;
        Ok(())
    }

    fn layer_table(&self) -> Table {
        let bytes = ["offline MB", "online MB", "truncation MB", "weights MB"];
        let shares_signs = self.counts.shares_signs();
        let counted: &[&str] = match shares_signs {
            true => &["<layer", "comparisons", "gated values", "linearized"],
            false => &["<layer", "ReLUs", "linearized"],
        };
        let mut table = Table::new(&[counted, &bytes].concat());
        self.layers.iter().for_each(|layer| table.row(layer.cells()));
        table.rule();
        let sum = |of: fn(&Layer) -> u64| self.layers.iter().map(of).sum();
        let total = Layer {
            name: "total".to_owned(),
            counts: self.counts.line(shares_signs),
            linearized: self.linearized,
            offline_bytes: sum(|layer| layer.offline_bytes),
            online_bytes: sum(|layer| layer.online_bytes),
            truncation_bytes: self.truncation_bytes,
            weight_bytes: self.memory.server_weights,
        };
        table.row(total.cells());
        table
    }

    fn phase_table(&self) -> Table {
        let both = || self.least_times.iter().zip(&self.predicted_times);
        let headers = both().flat_map(|(least, _)| ["least", "predicted"].map(|what| least.header(what)));
        let columns: Vec<String> =
            ["<phase", "MB up", "MB down", "rounds"].map(str::to_owned).into_iter().chain(headers).collect();
        let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
        let mut row = |name: &str, phase: &Phase, seconds: fn(&Times) -> f64| {
            let mut cells = vec![
                name.to_owned(),
                megabytes(phase.bytes_up),
                megabytes(phase.bytes_down),
                phase.rounds.to_string(),
            ];
            let times = both().flat_map(|(least, predicted)| [least, predicted]);
            cells.extend(times.map(|times| milliseconds(seconds(times))));
            table.row(cells);
        };
        row("set-up", &self.set_up, |times| times.set_up_s);
        row("offline, first image", &self.offline, |times| times.offline_s);
        row("offline, further images", &self.later_offline, |times| times.later_offline_s);
        row("online", &self.online, |times| times.online_s);
        table
    }
}

impl From<PlannedRing> for HeLine {
    fn from(ring: PlannedRing) -> Self {
        let parameters = ring.to_string();
        let PlannedRing { layers, request_bits, value_bits, second_half_bits, .. } = ring;
        Self { parameters, layers, request_bits, value_bits, second_half_bits }
    }
}

impl Layer {
    fn new(traffic: LayerTraffic, plan: &Plan, shares_signs: bool) -> Self {
        let counts = traffic.counts().line(shares_signs);
        let job = plan.linear().iter().find(|job| job.step == traffic.step);
        Self {
            name: traffic.name,
            counts,
            linearized: traffic.linearized,
            offline_bytes: traffic.homomorphic + traffic.nonlinear_offline,
            online_bytes: traffic.online,
            truncation_bytes: traffic.truncation,
            weight_bytes: job.map_or(0, |job| job.weight_bytes()),
        }
    }

    fn cells(&self) -> Vec<String> {
        let quiet = |cell: String, value: u64| if value == 0 { "-".to_owned() } else { cell };
        let bytes = |bytes: u64| quiet(megabytes(bytes), bytes);
        let count = |count: u64| quiet(grouped(count), count);
        let mut cells = vec![self.name.clone()];
        match self.counts {
            LineCounts::Relus { relus } => cells.push(count(relus)),
            LineCounts::Shared { comparisons, gated_values } => {
                cells.extend([count(comparisons), count(gated_values)]);
            }
        }
        cells.push(count(self.linearized));
        let sizes = [self.offline_bytes, self.online_bytes, self.truncation_bytes, self.weight_bytes];
        cells.extend(sizes.map(bytes));
        cells
    }
}

impl From<Traffic> for Phase {
    fn from(traffic: Traffic) -> Self {
        Self { bytes_up: traffic.bytes_up, bytes_down: traffic.bytes_down, rounds: traffic.rounds }
    }
}

impl Memory {
    fn of(plan: &Plan) -> Self {
        let memory = plan.memory();
        Self {
            server_weights: memory.server_weights,
            client: memory.client(),
            client_stored: plan.stored_client_bytes() as u64,
            client_tables: memory.client_tables,
            client_labels: memory.client_labels,
            client_shares: memory.client_shares,
        }
    }
}

impl Times {
    fn least(link: &Link, plan: &Plan) -> Self {
        let traffic = plan.traffic(link.depth());
        let seconds =
            |phase: Traffic| link.least_time(phase.bytes_up, phase.bytes_down, phase.rounds).as_secs_f64();
        Self {
            link: link.to_string(),
            word: link.word(),
            set_up_s: seconds(traffic.set_up),
            offline_s: seconds(traffic.offline),
            later_offline_s: seconds(traffic.later_offline),
            online_s: seconds(traffic.online),
        }
    }

    /// What a column of it is called. A link without a name stands alone.
    fn header(&self, what: &str) -> String {
        self.word.map_or_else(|| what.to_owned(), |word| format!("{what} on {word}"))
    }

    /// What that link is.
    fn legend(&self) -> String {
        match self.word {
            Some(word) if word != self.link => format!("{word}: {}", self.link),
            _ => format!("link: {}", self.link),
        }
    }

    /// With computing, which set-up does too little of to count.
    fn predicted(link: &Link, plan: &Plan, rates: &Rates) -> Self {
        let cost = Cost::planned(plan, link.depth(), link.speed());
        Self {
            offline_s: cost.offline_time(rates).as_secs_f64(),
            later_offline_s: cost.later().offline_time(rates).as_secs_f64(),
            online_s: cost.online_time(rates).as_secs_f64(),
            ..Self::least(link, plan)
        }
    }
}

fn convolution_count(outline: &ModelOutline) -> usize {
    outline.linear_steps().filter(|(_, geometry)| matches!(geometry, LinearGeometry::Conv(_))).count()
}

/// `-` where the link takes no time and nothing else was counted.
fn milliseconds(seconds: f64) -> String {
    if seconds == 0.0 { "-".to_owned() } else { format!("{:.1} ms", 1e3 * seconds) }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.3}", bytes as f64 / 1e6)
}
