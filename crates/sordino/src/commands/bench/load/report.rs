//! What `bench load` prints.

use std::io::Write;
use std::time::Duration;

use network::cost::Counts;
use network::inference_model::InferenceModel;
use serde::Serialize;

use super::{Arguments, Right, Visit};
use crate::report::Table;
use service::ByteSize;

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Report {
    network: String,
    #[serde(flatten)]
    counts: Counts,
    clients: usize,
    images: usize,
    running: usize,
    wall_s: f64,
    images_per_s: f64,
    close: usize,
    same_class_as_plain: usize,
    connect: Latency,
    waiting: Latency,
    offline: Latency,
    online: Latency,
    total: Latency,
    server_memory: Memory,
    processors: usize,
}

/// Seconds over all clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Latency {
    median_s: f64,
    ninetieth_s: f64,
    most_s: f64,
}

#[derive(Serialize)]
struct Memory {
    /// `--max-memory`.
    limit: u64,
    /// The most that was promised at once, whenever somebody looked.
    promised: Option<u64>,
    /// The most that the process held.
    peak: Option<u64>,
}

impl Latency {
    /// The q-th of n is the smallest that at least q n of them do not exceed.
    fn of(times: impl Iterator<Item = Duration>) -> Self {
        let mut times: Vec<_> = times.map(|time| time.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let index = (share * times.len() as f64).ceil() as usize;
            times.get(index.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        Self { median_s: rank(0.5), ninetieth_s: rank(0.9), most_s: rank(1.0) }
    }
}

impl Report {
    pub(super) fn new(
        arguments: &Arguments,
        model: &InferenceModel,
        visits: &[Visit],
        wall: Duration,
        right: Right,
        (limit, promised, peak): (u64, Option<u64>, Option<u64>),
    ) -> Self {
        let latency = |of: fn(&Visit) -> Duration| Latency::of(visits.iter().map(of));
        Self {
            network: model.outline().name.clone(),
            counts: model.outline().counts(),
            clients: visits.len(),
            images: visits.iter().map(|visit| visit.answers.len()).sum(),
            running: arguments.running.get(),
            wall_s: wall.as_secs_f64(),
            images_per_s: visits.iter().map(|visit| visit.answers.len()).sum::<usize>() as f64
                / wall.as_secs_f64().max(1e-9),
            close: right.close,
            same_class_as_plain: right.class,
            connect: latency(|visit| visit.connect),
            waiting: latency(|visit| visit.waiting),
            offline: latency(|visit| visit.offline),
            online: latency(|visit| visit.online),
            total: latency(|visit| visit.total),
            server_memory: Memory { limit, promised, peak },
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
        }
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        writeln!(
            out,
            "{}: {}, {} clients at once, {} computed for at a time, {} processors for all of them",
            self.network, self.counts, self.clients, self.running, self.processors
        )?;
        writeln!(
            out,
            "{} of {} answers are as close to the reference as rounding allows; {} have the class of the plain network",
            self.close, self.images, self.same_class_as_plain
        )?;
        writeln!(out, "{:.1} s in all, {:.2} images a second", self.wall_s, self.images_per_s)?;
        let mut table = Table::new(&["<seconds", "median", "90th of 100", "most"]);
        let rows = [
            ("connecting", self.connect),
            ("waiting in line", self.waiting),
            ("offline", self.offline),
            ("online", self.online),
            ("from door to door", self.total),
        ];
        for (name, latency) in rows {
            let cell = |seconds: f64| format!("{seconds:.2}");
            table.row(vec![
                name.to_owned(),
                cell(latency.median_s),
                cell(latency.ninetieth_s),
                cell(latency.most_s),
            ]);
        }
        table.write(out)?;
        let size = |bytes: Option<u64>| {
            bytes.map_or_else(|| "unknown".to_owned(), |bytes| ByteSize(bytes).to_string())
        };
        let Memory { limit, promised, peak } = self.server_memory;
        writeln!(
            out,
            "server's memory: {} at most, {} promised, limit {}",
            size(peak),
            size(promised),
            ByteSize(limit)
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_sorted_times() {
        let latency = Latency::of((1..=100).rev().map(Duration::from_secs));
        assert_eq!(latency, Latency { median_s: 50.0, ninetieth_s: 90.0, most_s: 100.0 });
        let one = Latency::of(std::iter::once(Duration::from_secs(3)));
        assert_eq!(one, Latency { median_s: 3.0, ninetieth_s: 3.0, most_s: 3.0 });
    }
}
